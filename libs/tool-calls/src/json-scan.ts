/** Nesting beyond this is refused: JSON.parse would take it, but what comes after it (validators, clones) would not. */
export const MAX_DEPTH = 256;

/**
 * Where a strict JSON value ends, or where and why it does not. `odd`: JSON.parse is not to be trusted with it. It holds
 * a number that JavaScript may not keep as written, or a key with an escape: V8 13.6 (Node 24) takes `{"\\n":1}` for an
 * earlier `{"\\\\":1}`, since it compares the source of a key with the keys of the shape it expects.
 */
export type Extent =
  { status: 'ok'; end: number; odd: boolean; keys: number } | { status: 'cut' } | { status: 'bad'; at: number };

const enum State {
  Value,
  ValueOrEnd,
  KeyOrEnd,
  Key,
  Colon,
  After,
}

/**
 * Finds the end of the strict JSON object or list that starts at `start`, strings respected, in one pass. The content
 * of strings is not checked (JSON.parse does that), the order of tokens is: a body that is not strict JSON must be
 * given up where it goes wrong, or many of them in one answer would each be read to the end of the text.
 */
export function strictExtent(text: string, start: number): Extent {
  const length = text.length;
  // One bit of the stack is one level: true for an object.
  const stack: boolean[] = [];
  let state = State.Value as State;
  let odd = false;
  let keys = 0;
  let at = start;
  while (at < length) {
    const code = text.charCodeAt(at);
    if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      at++;
      continue;
    }
    switch (code) {
      case 0x22: {
        if (state === State.Colon || state === State.After) return { status: 'bad', at };
        const close = stringEnd(text, at + 1);
        if (close < 0) return { status: 'cut' };
        if (state === State.Key || state === State.KeyOrEnd) {
          for (let key = at + 1; key < close && !odd; key++) odd = text.charCodeAt(key) === 0x5c;
          state = State.Colon;
          keys++;
        } else state = State.After;
        at = close + 1;
        break;
      }
      case 0x7b:
      case 0x5b:
        if (state !== State.Value && state !== State.ValueOrEnd) return { status: 'bad', at };
        if (stack.length >= MAX_DEPTH) return { status: 'bad', at };
        stack.push(code === 0x7b);
        state = code === 0x7b ? State.KeyOrEnd : State.ValueOrEnd;
        at++;
        break;
      case 0x7d:
      case 0x5d: {
        const object = code === 0x7d;
        const fits = state === State.After || state === (object ? State.KeyOrEnd : State.ValueOrEnd);
        if (!fits || stack.pop() !== object) return { status: 'bad', at };
        at++;
        if (stack.length === 0) return { status: 'ok', end: at, odd, keys };
        state = State.After;
        break;
      }
      case 0x2c:
        if (state !== State.After) return { status: 'bad', at };
        state = stack[stack.length - 1] ? State.Key : State.Value;
        at++;
        break;
      case 0x3a:
        if (state !== State.Colon) return { status: 'bad', at };
        state = State.Value;
        at++;
        break;
      default: {
        if (state !== State.Value && state !== State.ValueOrEnd) return { status: 'bad', at };
        const from = at;
        let plain = true;
        while (at < length && isWord(text.charCodeAt(at))) {
          const word = text.charCodeAt(at);
          if (word < 0x30 || word > 0x39) plain = false;
          at++;
        }
        if (at === from) return { status: 'bad', at };
        const first = text.charCodeAt(from);
        const number = first === 0x2d || (first >= 0x30 && first <= 0x39);
        if (number && (!plain || at - from > 15)) odd = true;
        state = State.After;
      }
    }
  }
  return { status: 'cut' };
}

/** The index of the quote that ends a JSON string whose content starts at `from`, or -1. */
function stringEnd(text: string, from: number): number {
  let quote = text.indexOf('"', from);
  while (quote >= 0) {
    let slashes = 0;
    while (quote - 1 - slashes >= from && text.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return quote;
    quote = text.indexOf('"', quote + 1);
  }
  return -1;
}

/** Characters of numbers and of true, false, null. */
function isWord(code: number): boolean {
  return (
    (code >= 0x30 && code <= 0x39) ||
    (code >= 0x61 && code <= 0x7a) ||
    code === 0x2d ||
    code === 0x2b ||
    code === 0x2e ||
    code === 0x45
  );
}

/** Blanks between tokens, also those that models copy from the web: Unicode blanks, byte-order marks, zero-width characters. */
export function isBlank(code: number): boolean {
  return (
    code === 0x20 ||
    (code >= 0x09 && code <= 0x0d) ||
    (code > 0x7f &&
      (code === 0x85 ||
        code === 0xa0 ||
        code === 0x1680 ||
        (code >= 0x2000 && code <= 0x200f) ||
        code === 0x2028 ||
        code === 0x2029 ||
        code === 0x202f ||
        code === 0x205f ||
        code === 0x2060 ||
        code === 0x3000 ||
        code === 0xfeff))
  );
}

/** The first index at or after `at` that holds no blank. */
export function skipBlank(text: string, at: number): number {
  while (at < text.length && isBlank(text.charCodeAt(at))) at++;
  return at;
}
