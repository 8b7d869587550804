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
  const compiled = RE2JS.compile(RE2JS.translateRegExp(shortClasses(source)));
  return {
    test: (text) => compiled.test(text),
    // Ajv keeps patterns by their text: without an own toString all patterns of a schema would share the first one.
    toString: () => `/${source}/`,
  };
}

const CATEGORIES: Record<string, string> = {
  Letter: 'L',
  Lowercase_Letter: 'Ll',
  Uppercase_Letter: 'Lu',
  Other_Letter: 'Lo',
  Mark: 'M',
  Number: 'N',
  Decimal_Number: 'Nd',
  Punctuation: 'P',
  Symbol: 'S',
  Separator: 'Z',
  Space_Separator: 'Zs',
  Other: 'C',
  Control: 'Cc',
};

/** `\p{Script=Han}` and `\p{Letter}` as RE2 names them: `\p{Han}`, `\p{L}`. */
function shortClasses(source: string): string {
  return source.replace(/\\(?:([pP])\{([^}]*)\}|[\s\S])/g, (whole, kind?: string, name?: string) => {
    if (kind === undefined || name === undefined) return whole;
    const plain = name.replace(/^(Script|sc|General_Category|gc)=/, '');
    return `\\${kind}{${CATEGORIES[plain] ?? plain}}`;
  });
}
