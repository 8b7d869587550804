const armed = process.env['YM_FAILPOINT'];
let passed = false;

/** Is this the point at which this process will be killed? */
export const failpointArmed = (name: string) => armed === name && !passed;

/** Kills this process the first time it gets to the point that YM_FAILPOINT names; the fault tests arm it. */
export function failpoint(name: string): void {
  if (armed !== name || passed) return;
  passed = true;
  process.kill(process.pid, 'SIGKILL');
}
