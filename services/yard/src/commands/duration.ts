const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `15m`, `2h`, `3d` in milliseconds; undefined for anything else. */
export function durationMs(text: string): number | undefined {
  const match = /^(\d{1,9})([smhd])$/.exec(text);
  return match === null ? undefined : Number(match[1]) * UNITS[match[2]!]!;
}
