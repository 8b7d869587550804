/** The marks of the text dialects. All patterns are sticky or global and without nested repeats: one look, bounded work. */
export const CALL_TAGS: ReadonlySet<string> = new Set([
  'tool_call',
  'toolcall',
  'tool-call',
  'function_call',
  'invoke',
]);
export const REASONING_TAGS: ReadonlySet<string> = new Set(['think', 'thinking']);

/** Longest piece of text that may have to be seen before a mark is known for what it is. */
export const MAX_MARK = 320;

const TAG = /<(\/?)([A-Za-z_][\w:.-]{0,40})([^<>]{0,256})>/y;
const CALL_CLOSE = /<\/(?:tool_call|toolcall|tool-call|function_call|invoke)\s{0,4}>/iy;
const NEXT_CALL_CLOSE = /<\/(?:tool_call|toolcall|tool-call|function_call|invoke)\s{0,4}>/gi;
const NEXT_STOP = /<\/?(?:tool_call|toolcall|tool-call|function_call|invoke|think|thinking)(?:\s[^<>]{0,256})?>/gi;
const NAME_ATTRIBUTE = /^\s[^<>]*?\bname\s{0,4}=\s{0,4}(?:"([^"<>]{1,200})"|'([^'<>]{1,200})')/;
const OTHER_ROLE = '(?:user|human|system|developer|tool|function|ipython|environment|observation)';
/** The header of a turn that is not the model's, as the chat templates write it. */
const TURN = new RegExp(
  [
    `<\\|im_start\\|>[ \\t]{0,4}${OTHER_ROLE}[ \\t]{0,4}(?:\\r?\\n|$)`,
    `<\\|im_(?:user|system)\\|>`,
    `<\\|(?:start_header_id|header_start)\\|>[ \\t]{0,4}${OTHER_ROLE}[ \\t]{0,4}<\\|(?:end_header_id|header_end)\\|>`,
    `<\\|start\\|>[ \\t]{0,4}(?:user|system|developer|functions\\.[\\w.-]{1,128})[^<>\\n]{0,64}<\\|(?:message|channel)\\|>`,
    `<\\|${OTHER_ROLE}\\|>[ \\t]{0,4}(?:\\r?\\n|$)`,
    `<start_of_turn>[ \\t]{0,4}${OTHER_ROLE}[ \\t]{0,4}(?:\\r?\\n|$)`,
    `<｜(?:User|tool▁outputs?▁begin)｜>`,
  ].join('|'),
  'iy',
);
/** The longest of them, with a long tool name. */
const MAX_TURN = 240;
/** What has been seen of a header that more text may complete. */
const PARTIAL_TURN =
  /<(?:[|｜][\w▁]{0,20}(?:[|｜](?:>(?:[ \t\n]{0,4}[\w.-]{0,140}[^<>\n]{0,64}\r?(?:<\|?\w{0,16}\|?)?)?)?)?|s\w{0,12}(?:>[ \t]{0,4}\w{0,12}[ \t]{0,4}\r?)?)$/y;
const PARTIAL_TAG = /<\/?[A-Za-z_]?[\w:.-]{0,40}(?:[\s=][^<>]{0,280})?$/y;
const PARTIAL_TOKEN = /<[|｜]\/?[\w▁.-]{0,40}[|｜]?$/y;

export interface Tag {
  closing: boolean;
  /** Lower case. */
  name: string;
  /** What stands between name and `>`. */
  rest: string;
  end: number;
}

/** The tag that starts at `at`, if one does. */
export function tagAt(text: string, at: number): Tag | undefined {
  TAG.lastIndex = at;
  const found = TAG.exec(text);
  if (!found) return undefined;
  return { closing: found[1] === '/', name: found[2]!.toLowerCase(), rest: found[3]!, end: TAG.lastIndex };
}

/**
 * The index after the header of a turn in another role (`<|im_start|>user`) that stands at `at`, -1 if none does,
 * `need` if more text may make it one.
 */
export function turnAt(text: string, at: number, final: boolean): number | 'need' {
  if (!final && text.length - at <= MAX_TURN) {
    PARTIAL_TURN.lastIndex = at;
    if (PARTIAL_TURN.test(text)) return 'need';
  }
  TURN.lastIndex = at;
  return TURN.test(text) ? TURN.lastIndex : -1;
}

/** Whether the text ends inside of what may become a tag or a special token. */
export function isPartialMark(text: string, at: number): boolean {
  if (text.length - at > MAX_MARK) return false;
  PARTIAL_TAG.lastIndex = at;
  if (PARTIAL_TAG.test(text)) return true;
  PARTIAL_TOKEN.lastIndex = at;
  return PARTIAL_TOKEN.test(text);
}

/** Whether a tag opens a call. */
export function opensCall(tag: Tag): boolean {
  return !tag.closing && CALL_TAGS.has(tag.name) && (tag.rest === '' || /^\s/.test(tag.rest));
}

/** The tool's name where a call tag carries it as an attribute. */
export function nameAttribute(rest: string): string | undefined {
  const found = NAME_ATTRIBUTE.exec(rest);
  return found ? (found[1] ?? found[2]) : undefined;
}

/** The index after the closing call tag that stands at `at`, or -1. */
export function callCloseAt(text: string, at: number): number {
  CALL_CLOSE.lastIndex = at;
  return CALL_CLOSE.test(text) ? CALL_CLOSE.lastIndex : -1;
}

/** The first closing call tag at or after `from`. */
export function nextCallClose(text: string, from: number): { at: number; end: number } | undefined {
  NEXT_CALL_CLOSE.lastIndex = from;
  const found = NEXT_CALL_CLOSE.exec(text);
  return found ? { at: found.index, end: NEXT_CALL_CLOSE.lastIndex } : undefined;
}

/** The first call or reasoning tag at or after `from`, opening or closing. */
export function nextStop(text: string, from: number): { at: number; end: number; closesCall: boolean } | undefined {
  NEXT_STOP.lastIndex = from;
  const found = NEXT_STOP.exec(text);
  if (!found) return undefined;
  return { at: found.index, end: NEXT_STOP.lastIndex, closesCall: /^<\/(?!think)/i.test(found[0]) };
}
