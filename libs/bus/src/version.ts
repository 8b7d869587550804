/** Is the server's version at least major.minor.patch? A version that cannot be read counts as the oldest. */
export function versionAtLeast(version: string | undefined, wanted: readonly [number, number, number]): boolean {
  const parts = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version ?? '');
  if (parts === null) return false;
  for (let i = 0; i < 3; i++) {
    const difference = Number(parts[i + 1]) - wanted[i]!;
    if (difference !== 0) return difference > 0;
  }
  return true;
}

/** The oldest nats-server that Yardmaster works on. */
export const OLDEST_SERVER = [2, 9, 10] as const;
