/**
 * How many characters are looked at while `run` runs, by the searches, patterns and JSON.parse that it calls: a measure
 * of work that is the same on a busy machine. Counts calls of built-ins, so one test at a time.
 */
export function charactersLookedAt(run: () => void): number {
  let work = 0;
  const undo = [
    replace(
      String.prototype,
      'charCodeAt',
      (real) =>
        function (this: string, at: number) {
          work++;
          return real.call(this, at);
        },
    ),
    replace(
      String.prototype,
      'indexOf',
      (real) =>
        function (this: string, what: string, from = 0) {
          const found = real.call(this, what, from);
          work += 1 + Math.max(0, (found < 0 ? this.length : found) - from);
          return found;
        },
    ),
    replace(
      String.prototype,
      'lastIndexOf',
      (real) =>
        function (this: string, what: string, from?: number) {
          const found = from === undefined ? real.call(this, what) : real.call(this, what, from);
          work += 1 + Math.min(this.length, from ?? Infinity) - Math.max(0, found);
          return found;
        },
    ),
    replace(
      String.prototype,
      'includes',
      (real) =>
        function (this: string, what: string, from = 0) {
          work += this.length - from;
          return real.call(this, what, from);
        },
    ),
    replace(
      String.prototype,
      'trim',
      (real) =>
        function (this: string) {
          work++;
          return real.call(this);
        },
    ),
    // `test`, `match`, `matchAll` and `replace` go through `exec`.
    replace(
      RegExp.prototype,
      'exec',
      (real) =>
        function (this: RegExp, text: string) {
          const from = this.global || this.sticky ? this.lastIndex : 0;
          const found = real.call(this, text);
          if (found) work += 1 + found.index + found[0].length - from;
          else work += this.sticky ? 1 : 1 + Math.max(0, text.length - from);
          return found;
        },
    ),
    replace(
      JSON,
      'parse',
      (real) =>
        function (text: string, reviver) {
          work += text.length;
          return real(text, reviver) as unknown;
        },
    ),
  ];
  try {
    run();
  } finally {
    for (const back of undo) back();
  }
  return work;
}

function replace<T extends object, K extends keyof T>(owner: T, key: K, make: (real: T[K]) => T[K]): () => void {
  const real = owner[key];
  owner[key] = make(real);
  return () => {
    owner[key] = real;
  };
}
