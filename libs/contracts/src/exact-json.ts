type OnNumber = (holder: object, key: string, literal: string) => void;

/**
 * JSON.parse with keys that are what the text says. V8 13.6 (Node 24) compares the source of a key that has escapes with
 * the keys of shapes it saw before: after `{"a":1,"\\":0}` it reads `{"a":1,"\"":0}` as another object with the key `\`.
 * Shapes belong to the process, so one tenant's arguments could rename those of another. Throws what JSON.parse throws.
 * `onNumber` hears of every number as it is written, with the object or list that holds it.
 */
export function parseExactJson(text: string, onNumber?: OnNumber): unknown {
  const value: unknown = JSON.parse(text);
  return onNumber !== undefined || hasEscapedKey(text) ? readObjects(text, onNumber) : value;
}

/** Whether a key of a valid JSON text is written with an escape. One pass, and none where there is no backslash. */
function hasEscapedKey(text: string): boolean {
  let slash = text.indexOf('\\');
  if (slash < 0) return false;
  for (let open = text.indexOf('"'); open >= 0;) {
    const close = endOfString(text, open);
    if (slash < open) slash = text.indexOf('\\', open);
    if (slash < 0) return false;
    if (slash < close && isKey(text, close)) return true;
    open = text.indexOf('"', close + 1);
  }
  return false;
}

/** Builds the value of a valid JSON text; only strings, numbers and words are left to JSON.parse. Without recursion. */
function readObjects(text: string, onNumber: OnNumber | undefined): unknown {
  const root: { value?: unknown } = {};
  const open: object[] = [];
  let into: object = root;
  let key = 'value';
  const put = (value: unknown): void => {
    if (Array.isArray(into)) into.push(value);
    // Defined, not assigned: JSON.parse makes an own property of `__proto__` too.
    else Object.defineProperty(into, key, { value, enumerable: true, writable: true, configurable: true });
  };
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x7b || code === 0x5b) {
      const child = code === 0x7b ? {} : [];
      put(child);
      open.push(into);
      into = child;
    } else if (code === 0x7d || code === 0x5d) into = open.pop()!;
    else if (code === 0x22) {
      const close = endOfString(text, at);
      const string = JSON.parse(text.slice(at, close + 1)) as string;
      if (!Array.isArray(into) && isKey(text, close)) key = string;
      else put(string);
      at = close;
    } else if (!isBetween(code)) {
      let end = at + 1;
      while (end < text.length && !isBetween(text.charCodeAt(end)) && !isCloser(text.charCodeAt(end))) end++;
      const literal = text.slice(at, end);
      const value: unknown = JSON.parse(literal);
      if (typeof value === 'number') onNumber?.(into, Array.isArray(into) ? String(into.length) : key, literal);
      put(value);
      at = end - 1;
    }
  }
  return root.value;
}

/** The index of the quote that ends the string which begins at `open`. */
function endOfString(text: string, open: number): number {
  let close = text.indexOf('"', open + 1);
  for (;;) {
    let slashes = 0;
    while (text.charCodeAt(close - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return close;
    close = text.indexOf('"', close + 1);
  }
}

/** Whether a colon follows the string that ends at `close`. */
function isKey(text: string, close: number): boolean {
  let after = close + 1;
  while (isBlank(text.charCodeAt(after))) after++;
  return text.charCodeAt(after) === 0x3a;
}

const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
const isBetween = (code: number) => isBlank(code) || code === 0x2c || code === 0x3a;
const isCloser = (code: number) => code === 0x7d || code === 0x5d;
