import type { YardError } from '@yardmaster/contracts';

/** After an abort a tool gets this long to say how it ended, in milliseconds. */
const ABORT_GRACE_MS = 5_000;

/** A call that runs, and how it is ended from outside. */
export class RunningCall {
  /** Why it was ended from outside, if it was. */
  reason: YardError | undefined;
  #abort: AbortController | undefined;
  #late: ((reason: YardError) => void) | undefined;
  #grace: NodeJS.Timeout | undefined;

  // Made on demand: many tools are done before they would look at it.
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.reason) this.#abort.abort(this.reason);
    }
    return this.#abort.signal;
  }

  /** Runs the tool. One that does not settle soon after its abort is left behind: its slot must not be lost with it. */
  run<T>(tool: () => T | Promise<T>, timeoutMs: number, timeIsUp: () => YardError): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#late = reject;
      const timer = setTimeout(() => this.end(timeIsUp()), timeoutMs);
      const settled = () => {
        clearTimeout(timer);
        clearTimeout(this.#grace);
      };
      (async () => tool())().then(
        (value) => {
          settled();
          resolve(value);
        },
        (error: unknown) => {
          settled();
          reject(error);
        },
      );
    });
  }

  end(reason: YardError): void {
    if (this.reason) return;
    this.reason = reason;
    this.#abort?.abort(reason);
    this.#grace = setTimeout(() => this.#late?.(reason), ABORT_GRACE_MS);
  }
}
