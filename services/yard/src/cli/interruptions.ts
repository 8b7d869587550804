/** Ctrl-C; what was looked at goes on. Exit code 130. */
export class Interrupted extends Error {}

/** --timeout is over, and what was waited for goes on. Exit code 8. */
export class StillRunning extends Error {}
