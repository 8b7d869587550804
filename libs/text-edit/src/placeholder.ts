// A line that stands for lines the model did not write out.
const DOTS = String.raw`(?:\.{3}|…)`;
const COMMENT = String.raw`(?:\/\/+|#+|--|\/\*+|<!--|;+|%+|\{\/\*|\*|"{3}|REM\b)`;
const BARE = new RegExp(String.raw`^\s*${COMMENT}?\s*${DOTS}\s*(?:\*\/\}?|-->)?\s*$`);
const WORDS = String.raw`\b(?:existing|rest|remain(?:ing|s|der)?|unchanged|omitted|same|other|previous|earlier|code|implementation|truncated|snip(?:ped)?)\b`;
const WITH_WORDS = new RegExp(
  String.raw`^\s*(?:${COMMENT}\s*)?(?:\(|\[|\{)?\s*(?:${DOTS}.*${WORDS}|${WORDS}.*${DOTS})`,
  'i',
);
const PHRASE = new RegExp(
  String.raw`^\s*${COMMENT}\s*(?:the )?(?:rest of (?:the |your |this )?(?:\w+)(?: (?:here|unchanged|stays|remains|goes|is|as|the|same|before|code|file)\b.*)?|existing (?:code|implementation|content|logic|methods?|functions?|lines?)(?: (?:here|unchanged|stays|remains|goes)\b.*)?|(?:code|everything|nothing else) (?:unchanged|stays the same|remains the same)|same as (?:before|above)|rest (?:is )?(?:unchanged|the same|as before|omitted))\W*$`,
  'i',
);

/** Whether a line elides others: dots alone (a comment or bare), or dots with words such as "existing code". */
export function isElision(line: string): boolean {
  return BARE.test(line) || WITH_WORDS.test(line);
}

/** The first line of `newText` that stands for code and is not in `oldText`; a bare `...` is code in Python and no placeholder. */
export function placeholderIn(oldText: string, newText: string): string | undefined {
  const old = new Set(oldText.split('\n').map((line) => line.trim()));
  return newText.split('\n').find((line) => {
    const trimmed = line.trim();
    if (trimmed === '' || old.has(trimmed) || /^(?:\.{3}|…)$/.test(trimmed)) return false;
    return isElision(line) || PHRASE.test(line);
  });
}
