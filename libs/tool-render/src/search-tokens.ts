const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}ー々]+/gu;
const WORD = /[\p{L}\p{N}]+/gu;

/** Words that say nothing about a tool. */
const STOP_WORDS = new Set(
  (
    'a an and any are as at be by can do does for from get give has have help how i if in into is it its ' +
    'like make me my need of on one or our out please so some tell that the their them then there these this those ' +
    'to up us use want was we what when where which who why will with would you your'
  ).split(' '),
);

/**
 * The terms of a text: words in lower case and without their endings, camel case and underscores taken apart, and
 * pairs of characters for Korean, Japanese and Chinese, where words carry particles and are not parted by blanks.
 */
export function searchTerms(text: string): string[] {
  const terms: string[] = [];
  const normal = text.normalize('NFKC');
  const rest = normal.replace(CJK, (run) => {
    const characters = [...run];
    if (characters.length === 1) terms.push(run);
    for (let index = 0; index + 1 < characters.length; index++)
      terms.push(`${characters[index]}${characters[index + 1]}`);
    return ' ';
  });
  const parted = rest.replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2').replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2');
  for (const [word] of parted
    .toLowerCase()
    .replace(/\be-mail/g, 'email')
    .matchAll(WORD))
    if (!STOP_WORDS.has(word)) terms.push(stem(word));
  return terms;
}

/** Takes off the common endings of English, so that `deployed`, `deploys` and `deploying` meet `deploy`. */
function stem(word: string): string {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word;
  let root = word;
  if (root.endsWith('ies') && root.length > 4) root = `${root.slice(0, -3)}y`;
  else if (/(ss|x|ch|sh|z)es$/.test(root)) root = root.slice(0, -2);
  else if (root.endsWith('s') && !/(ss|us|is)$/.test(root)) root = root.slice(0, -1);
  const ending = /(ing|ed)$/.exec(root)?.[0];
  if (ending && root.length - ending.length >= 3 && /[aeiouy]/.test(root.slice(0, -ending.length))) {
    root = root.slice(0, -ending.length);
    if (/([bdfgmnprt])\1$/.test(root)) root = root.slice(0, -1);
  }
  // `schedule` and `scheduling`, `archive` and `archived` must meet.
  return root.length > 3 && root.endsWith('e') ? root.slice(0, -1) : root;
}
