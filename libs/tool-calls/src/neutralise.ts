const INVISIBLE = '\\s/\\u200b-\\u200d\\u2060\\ufeff';
/** Tags of every text dialect that is read here, however they are spaced. */
const PROTOCOL_TAG = new RegExp(
  `<(?=[${INVISIBLE}]{0,8}(?:(?:tool_call|toolcall|tool-call|function_calls?|invoke|tool_results?|tool_calls|think|thinking|arg_key|arg_value|minimax:tool_call|antml:[a-z_]+)(?![\\w])|(?:function|parameter)\\s{0,2}=))`,
  'gi',
);
const SPECIAL_TOKEN = /<(?=[|｜][^\s|｜<>]{1,64}[|｜]>|(?:start|end)_of_turn>)/g;
const BLANK = '[^\\S\\n\\u2028\\u2029]|[\\u0085\\u200b-\\u200f\\u2060]';
// In the middle of a line too: what looks like blanks before it depends on the reader.
const CALL_FENCE = new RegExp(
  `(?<!\`)\`{3,}(?=(?:${BLANK}){0,16}(?:tool_calls?|toolcall|tool-call|function_call|invoke|tool[ \\t]{1,8}[\\w.:-]{1,128})(?:${BLANK}){0,16}$)`,
  'gim',
);
const RESULTS_HEADER = /^([ \t]{0,64})\[(?=Tool results\][ \t]{0,64}\r?$)/gim;

/**
 * Makes text from outside unable to forge calls, results, reasoning or roles in a message of the XML dialect. Touches
 * protocol tags, call fences, the results header and chat-template tokens only: everything else stays byte for byte,
 * because edits quote it back. Applying it twice changes nothing more.
 */
export function neutraliseProtocol(text: string): string {
  let result = neutraliseSpecialTokens(text);
  if (result.includes('<')) result = result.replace(PROTOCOL_TAG, '&lt;');
  if (result.includes('```')) result = result.replace(CALL_FENCE, openRun);
  if (result.includes('[')) result = result.replace(RESULTS_HEADER, '$1&#91;');
  return result;
}

/**
 * Takes the meaning from chat-template tokens (`<|…|>`) only: some servers tokenise the content of messages with
 * special tokens on, so that one in any untrusted role would switch roles.
 */
export function neutraliseSpecialTokens(text: string): string {
  return text.includes('<') ? text.replace(SPECIAL_TOKEN, '&lt;') : text;
}

/** Two backticks are no fence; all before them are written out. */
function openRun(ticks: string): string {
  return `${'&#96;'.repeat(ticks.length - 2)}\`\``;
}

/** How many places `neutraliseProtocol` would change, for metrics. */
export function countForged(text: string): number {
  if (!/[<[`]/.test(text)) return 0;
  let count = 0;
  for (const pattern of [SPECIAL_TOKEN, PROTOCOL_TAG, CALL_FENCE, RESULTS_HEADER])
    count += text.match(pattern)?.length ?? 0;
  return count;
}

/** A text as it may stand in a double-quoted attribute. */
export function attributeText(text: string): string {
  return text
    .slice(0, 200)
    .replace(/[\ud800-\udfff]/g, '_')
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('"', '&quot;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;');
}

/** A tool name that every provider accepts in its history: an invented name with markup in it would poison the next request. */
export function safeToolName(name: string): string {
  const safe = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64);
  return safe === '' ? 'unknown' : safe;
}
