import { RE2JS } from 're2js';

/** A pattern as ajv uses it. */
export interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

/**
 * A regular expression with linear running time, for patterns that tenants wrote; throws on what RE2 cannot run
 * (look-around, backreferences, repeats over 1000).
 */
export function linearPattern(source: string): Pattern {
  // translateRegExp, because RE2 itself refuses JavaScript's \uXXXX, \u{...}, \cX and [^].
  const compiled = RE2JS.compile(RE2JS.translateRegExp(source));
  return {
    test: (text) => compiled.test(text),
    // Ajv keeps patterns by their text: without an own toString all patterns of a schema would share the first one.
    toString: () => `/${source}/`,
  };
}
