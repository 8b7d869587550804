/** Exit codes of every command (README, "yard"). */
export const EXIT = {
  ok: 0,
  bug: 1,
  usage: 2,
  notFound: 3,
  denied: 4,
  conflict: 5,
  quota: 6,
  unreachable: 7,
  waitedTooLong: 8,
  runFailed: 10,
  runCancelled: 11,
  runIncomplete: 12,
  waitsForApproval: 13,
  interrupted: 130,
} as const;

/** The exit code that tells how a run ended. */
export function exitCodeOf(state: string): number {
  switch (state) {
    case 'completed':
      return EXIT.ok;
    case 'failed':
      return EXIT.runFailed;
    case 'cancelled':
      return EXIT.runCancelled;
    case 'incomplete':
      return EXIT.runIncomplete;
    case 'waiting_approval':
      return EXIT.waitsForApproval;
    default:
      return EXIT.bug;
  }
}
