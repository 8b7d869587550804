import { isDeepStrictEqual } from 'node:util';
import { type AnswerSink } from './answer-sink.js';
import { shapeCalls } from './call-shape.js';
import { skipBlank } from './json-scan.js';
import { readJson } from './read-json.js';
import { mayStillChange, readTolerant } from './tolerant-json.js';
import { type Dialect } from './types.js';

const TOKEN = /<[|｜](\/?[\w▁.-]{1,40})[|｜]>/y;
/** `<|python_tag|>{json}` (Llama 3) and `<|tool_call|>[json]<|/tool_call|>` (Phi, Granite). */
const JSON_TOKENS = new Set(['python_tag', 'tool_call']);
const NEXT_CALL_END = /<[|｜]tool[_▁]call[_▁]end[|｜]>/g;
const KIMI_HEAD = /\s{0,16}([^\s<>]{1,200})\s{0,16}<\|tool_call_argument_begin\|>/y;
const DEEPSEEK_HEAD = /([^\s<>]{1,200})<｜tool▁sep｜>/y;
const DEEPSEEK_V3 = /\s{0,4}([^\s<>`]{1,200})\s{1,4}```json\s{0,4}/y;
const SECTION = /^tool[_▁]calls(?:[_▁]section)?[_▁](?:begin|end)$/;
const MISTRAL = '[TOOL_CALLS]';
const MISTRAL_HEAD = /\s{0,16}([\w.-]{1,128})(?:\[CALL_ID\]([\w-]{1,64}))?\[ARGS\]/y;
const PYTHON_START = /\s{0,64}\[\s{0,16}[A-Za-z_][\w.]{0,127}\(/y;
const PYTHON_NAME = /([A-Za-z_][\w.]{0,127})\s{0,16}\(/y;
const PYTHON_KEYWORD = /([A-Za-z_]\w{0,127})\s{0,16}=/y;

/**
 * Calls between special tokens (kimi, deepseek). Returns the end of what was taken, -1 if there is nothing of theirs,
 * `need` if more text has to come. `take` hands out the text before.
 */
export function readTokenMark(
  text: string,
  at: number,
  final: boolean,
  sink: AnswerSink,
  packs: ReadonlySet<Dialect>,
  take: () => void,
): number | 'need' {
  TOKEN.lastIndex = at;
  const token = TOKEN.exec(text)?.[1];
  if (token === undefined) return -1;
  const end = TOKEN.lastIndex;
  if (packs.has('token_json')) {
    if (JSON_TOKENS.has(token)) return readTokenJson(text, at, end, final, sink, take);
    if (token === '/tool_call') {
      take();
      sink.markGap();
      return end;
    }
  }
  const deepseek = text[at + 1] === '｜';
  const python = token === 'python_start' || token === 'python_end';
  if (!packs.has(deepseek ? 'deepseek' : python ? 'pythonic' : 'kimi')) return -1;
  if (SECTION.test(token) || python) {
    take();
    sink.markGap();
    return end;
  }
  if (token !== 'tool_call_begin' && token !== 'tool▁call▁begin') return -1;
  const head = deepseek ? deepseekHead(text, end) : kimiHead(text, end);
  if (!head) {
    if (!final) return 'need';
    take();
    sink.addUnreadable('unterminated', 'the call has no name or no arguments', text.slice(at, at + 1000), end - at);
    return text.length;
  }
  const reading = readJson(text, skipBlank(text, head.end));
  if (reading.status === 'cut') {
    if (!final) return 'need';
    take();
    sink.addUnreadable(
      'unterminated',
      'the call ends before its JSON is complete',
      text.slice(at),
      reading.at - at,
      head.name,
    );
    return text.length;
  }
  if (reading.status === 'bad' && !final && mayStillChange(reading, text)) return 'need';
  NEXT_CALL_END.lastIndex = reading.status === 'ok' ? reading.end : (reading.end ?? reading.at);
  const closing = NEXT_CALL_END.exec(text);
  if (!closing && !final) return 'need';
  const resume = closing ? NEXT_CALL_END.lastIndex : text.length;
  if (reading.status === 'bad') {
    take();
    sink.addUnreadable(
      'malformed_json',
      reading.message,
      text.slice(at, Math.max(reading.at, Math.min(resume, at + 1000))),
      reading.at - at,
      head.name,
    );
    return resume;
  }
  const direct = closing && /^[\s`]*$/.test(text.slice(reading.end, Math.min(closing.index, reading.end + 64)));
  take();
  for (const rule of reading.repairs) sink.countRepair(rule);
  const id = head.id === undefined ? {} : { id: head.id };
  sink.addCall({
    name: head.name,
    args: reading.value,
    literals: reading.literals,
    input: text.slice(at, Math.min(reading.end, at + 1000)),
    ...id,
  });
  return direct ? resume : reading.end;
}

function readTokenJson(
  text: string,
  at: number,
  from: number,
  final: boolean,
  sink: AnswerSink,
  take: () => void,
): number | 'need' {
  const start = skipBlank(text, from);
  if (start >= text.length && !final) return 'need';
  if (text[start] !== '{' && text[start] !== '[') return -1;
  const reading = readJson(text, start);
  if (reading.status !== 'ok') {
    if (!final) return 'need';
    take();
    const cut = reading.status === 'cut';
    const message = cut ? 'the call ends before its JSON is complete' : reading.message;
    sink.addUnreadable(cut ? 'unterminated' : 'malformed_json', message, text.slice(at), reading.at - at);
    return text.length;
  }
  take();
  for (const rule of reading.repairs) sink.countRepair(rule);
  const input = text.slice(at, Math.min(reading.end, at + 1000));
  sink.addShaped(shapeCalls(reading.value, reading.literals, input), input);
  return reading.end;
}

function kimiHead(text: string, from: number): { name: string; id?: string; end: number } | undefined {
  KIMI_HEAD.lastIndex = from;
  const id = KIMI_HEAD.exec(text)?.[1];
  if (id === undefined) return undefined;
  // Kimi wants its id back letter for letter.
  return { name: id.replace(/^functions\./, '').replace(/:\d+$/, ''), id, end: KIMI_HEAD.lastIndex };
}

function deepseekHead(text: string, from: number): { name: string; id?: string; end: number } | undefined {
  DEEPSEEK_HEAD.lastIndex = from;
  const name = DEEPSEEK_HEAD.exec(text)?.[1];
  if (name === undefined) return undefined;
  if (name !== 'function') return { name, end: DEEPSEEK_HEAD.lastIndex };
  DEEPSEEK_V3.lastIndex = DEEPSEEK_HEAD.lastIndex;
  const older = DEEPSEEK_V3.exec(text)?.[1];
  return older === undefined ? { name, end: DEEPSEEK_HEAD.lastIndex } : { name: older, end: DEEPSEEK_V3.lastIndex };
}

/** `[TOOL_CALLS] [list]`, or `[TOOL_CALLS]name[ARGS]{json}`. */
export function readMistral(
  text: string,
  at: number,
  final: boolean,
  sink: AnswerSink,
  take: () => void,
): number | 'need' {
  if (!text.startsWith(MISTRAL, at)) {
    return !final && text.length - at < MISTRAL.length && MISTRAL.startsWith(text.slice(at)) ? 'need' : -1;
  }
  const start = skipBlank(text, at + MISTRAL.length);
  if (start >= text.length && !final) return 'need';
  const list = text[start] === '[' || text[start] === '{';
  MISTRAL_HEAD.lastIndex = start;
  const head = list ? undefined : MISTRAL_HEAD.exec(text);
  if (!list && !head) return !final && text.length - start < 220 ? 'need' : -1;
  const from = head ? skipBlank(text, MISTRAL_HEAD.lastIndex) : start;
  const reading = readJson(text, from);
  if (reading.status === 'cut') {
    if (!final) return 'need';
    take();
    sink.addUnreadable(
      'unterminated',
      'the call ends before its JSON is complete',
      text.slice(at),
      reading.at - at,
      head?.[1],
    );
    return text.length;
  }
  if (reading.status === 'bad') {
    if (!final) return 'need';
    take();
    sink.addUnreadable(
      'malformed_json',
      reading.message,
      text.slice(at, Math.max(reading.at, at + 1000)),
      reading.at - at,
      head?.[1],
    );
    return text.length;
  }
  take();
  for (const rule of reading.repairs) sink.countRepair(rule);
  const input = text.slice(at, Math.min(reading.end, at + 1000));
  if (head) {
    const id = head[2] === undefined ? {} : { id: head[2] };
    sink.addCall({ name: head[1]!, args: reading.value, literals: reading.literals, input, ...id });
  } else if (!Array.isArray(reading.value) || reading.value.length > 0) {
    sink.addShaped(shapeCalls(reading.value, reading.literals, input), input);
  }
  return reading.end;
}

/**
 * An answer that is a Python list of calls with keyword arguments, and nothing else. Literals are read, nothing is
 * evaluated. Returns the end of the list, -1 if this is something else.
 */
export function readPythonic(text: string, at: number, final: boolean, sink: AnswerSink): number | 'need' {
  PYTHON_START.lastIndex = at;
  if (!PYTHON_START.test(text)) return !final && text.length - at < 220 && text[at] === '[' ? 'need' : -1;
  if (!final) return 'need';
  const calls: { name: string; args: Record<string, unknown>; literals: Map<string, string>; input: string }[] = [];
  let place = text.indexOf('[', at) + 1;
  let keywords = 0;
  const fail = (kind: 'malformed_json' | 'unterminated', message: string): number => {
    // Without a single `name(key=` of a tool this is prose that starts with a bracket.
    if (keywords === 0 && !(calls[0] && sink.isRegistered(calls[0].name))) return -1;
    sink.addUnreadable(
      kind,
      message,
      text.slice(at, Math.max(place, at + 1000)),
      place - at,
      calls[calls.length - 1]?.name,
    );
    return text.length;
  };
  for (;;) {
    place = skipBlank(text, place);
    if (place >= text.length) return fail('unterminated', 'the list of calls ends before it is complete');
    if (text[place] === ']') break;
    PYTHON_NAME.lastIndex = place;
    const name = PYTHON_NAME.exec(text)?.[1];
    if (name === undefined) return fail('malformed_json', 'expected a call');
    const start = place;
    place = PYTHON_NAME.lastIndex;
    const call = { name, args: {} as Record<string, unknown>, literals: new Map<string, string>(), input: '' };
    calls.push(call);
    for (;;) {
      place = skipBlank(text, place);
      if (place >= text.length) return fail('unterminated', 'the call ends before it is complete');
      if (text[place] === ')') break;
      PYTHON_KEYWORD.lastIndex = place;
      const key = PYTHON_KEYWORD.exec(text)?.[1];
      if (key === undefined) return fail('malformed_json', 'expected a keyword argument');
      keywords++;
      place = PYTHON_KEYWORD.lastIndex;
      const reading = readTolerant(text, place);
      if (reading.status === 'cut') {
        place = reading.at;
        return fail('unterminated', 'the call ends before it is complete');
      }
      if (reading.status === 'bad') {
        place = reading.at;
        return fail('malformed_json', `${key} is not a literal: ${reading.message}`);
      }
      if (Object.hasOwn(call.args, key) && !isDeepStrictEqual(call.args[key], reading.value)) {
        return fail('malformed_json', `${key} is given twice, with different values`);
      }
      if (key !== '__proto__') call.args[key] = reading.value;
      for (const [pointer, literal] of reading.literals) call.literals.set(`/${key}${pointer}`, literal);
      place = skipBlank(text, reading.end);
      if (text[place] === ',') place++;
      else if (text[place] !== ')' && place < text.length) return fail('malformed_json', "expected ',' or ')'");
    }
    place++;
    call.input = text.slice(start, Math.min(place, start + 1000));
    place = skipBlank(text, place);
    if (text[place] === ',') place++;
    else if (text[place] !== ']' && place < text.length) return fail('malformed_json', "expected ',' or ']'");
  }
  place++;
  const rest = text.slice(place).replace('<|python_end|>', '');
  if (calls.length === 0 || skipBlank(rest, 0) < rest.length) return -1;
  for (const call of calls) sink.addCall(call);
  return text.length;
}
