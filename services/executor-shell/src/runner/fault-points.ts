/**
 * Where a command is between its stages and within the third, in order. A runner calls `at` there; nothing but a test
 * gives it one, and whatever that does (throw, end a process, end the runner) must leave nothing behind.
 */
export type FaultPoint =
  | 'validated'
  | 'intercepted'
  | 'admitted'
  | 'prepared'
  | 'pipes-open'
  | 'spawned'
  | 'output'
  | 'exited'
  | 'collected'
  | 'installing'
  | 'installed'
  | 'answering';

/** `pid` is the process that was started, where there is one. */
export type AtFaultPoint = (point: FaultPoint, id: string, pid?: number) => void;
