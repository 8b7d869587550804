import { readJson } from './read-json.js';
import { mayStillChange } from './tolerant-json.js';
import { skipBlank } from './json-scan.js';
import { callCloseAt, isPartialMark } from './marks.js';

/**
 * The forms whose values are bare text between tags: `<parameter=NAME>value</parameter>` (qwen_xml),
 * `<parameter name="NAME">value</parameter>` (invoke) and `<arg_key>NAME</arg_key><arg_value>value</arg_value>` (glm).
 * They have no escaping, so a value ends only at a closing tag that is followed by another mark of the block.
 */
export interface ParameterSyntax {
  open: RegExp;
  close: RegExp;
  /** The same, at one place. */
  closeHere: RegExp;
  /** What must follow a closing tag, after blanks. */
  follow: RegExp;
  /** A line that starts the next parameter although the last one was not closed. */
  implied?: RegExp;
  /** The closing tag of the block, beside the closing call tags. */
  end?: RegExp;
}

const NAME = `["']?([^<>"'\\n]{1,128})["']?\\s{0,2}>`;

export const QWEN: ParameterSyntax = {
  open: new RegExp(`<parameter\\s{0,2}=\\s{0,2}${NAME}`, 'iy'),
  close: /<\/parameter\s{0,2}>/gi,
  closeHere: /<\/parameter\s{0,2}>/iy,
  follow:
    /\s*(?:<parameter\s{0,2}=|<\/parameter\s{0,2}>|<\/function\s{0,2}>|<\/(?:tool_call|toolcall|tool-call|function_call)\s{0,4}>)/iy,
  implied: new RegExp(`\\n<parameter=${NAME}`, 'gi'),
  end: /<\/function\s{0,2}>/iy,
};

export const INVOKE: ParameterSyntax = {
  open: new RegExp(`<parameter\\s{1,4}name\\s{0,2}=\\s{0,2}${NAME}`, 'iy'),
  close: /<\/parameter\s{0,2}>/gi,
  closeHere: /<\/parameter\s{0,2}>/iy,
  follow: /\s*(?:<parameter\s{1,4}name\s{0,2}=|<\/parameter\s{0,2}>|<\/(?:invoke|tool_call|function_call)\s{0,4}>)/iy,
};

export const GLM: ParameterSyntax = {
  open: /<arg_key>\s{0,8}([^<>\n]{1,128}?)\s{0,8}<\/arg_key>\s{0,8}<arg_value>/iy,
  close: /<\/arg_value>/gi,
  closeHere: /<\/arg_value>/iy,
  follow: /\s*(?:<arg_key>|<\/tool_call\s{0,4}>)/iy,
};

export type BlockReading =
  | {
      status: 'ok';
      args: unknown;
      textValues: boolean;
      end: number;
      closed: 'call' | 'block';
      repairs: string[];
      /** A parameter that was given two different values, and where the second one is: the call cannot be run. */
      twice?: { parameter: string; at: number } | undefined;
    }
  | { status: 'need' }
  | { status: 'cut'; at: number }
  | { status: 'bad'; at: number; end?: number; message: string };

/** Remembers where the next value can end, so that many broken blocks do not each search the whole text. */
export class ValueEnds {
  private from = 0;
  private found: { at: number; end: number } | 'none' | undefined;
  private syntax: ParameterSyntax | undefined;

  /** Forgets everything: the text has changed. */
  reset(): void {
    this.found = undefined;
  }

  next(
    text: string,
    from: number,
    syntax: ParameterSyntax,
    final: boolean,
  ): { at: number; end: number } | 'none' | 'need' {
    if (this.syntax === syntax && this.found !== undefined && from >= this.from) {
      if (this.found === 'none' || this.found.at >= from) return this.found;
    }
    syntax.close.lastIndex = from;
    for (let hit = syntax.close.exec(text); hit; hit = syntax.close.exec(text)) {
      const end = hit.index + hit[0].length;
      syntax.follow.lastIndex = end;
      if (syntax.follow.test(text)) {
        this.syntax = syntax;
        this.from = from;
        return (this.found = { at: hit.index, end });
      }
      const after = skipBlank(text, end);
      if (!final && (after >= text.length || isPartialMark(text, after))) return 'need';
      syntax.close.lastIndex = end;
    }
    if (!final) return 'need';
    this.syntax = syntax;
    this.from = from;
    this.found = 'none';
    return 'none';
  }
}

/** Reads the parameters that start at `from`, up to the end of their block. `known` are the tool's parameter names. */
export function readParameters(
  text: string,
  from: number,
  syntax: ParameterSyntax,
  known: ReadonlySet<string>,
  ends: ValueEnds,
  final: boolean,
): BlockReading {
  const args: Record<string, unknown> = {};
  const repairs: string[] = [];
  let twice: { parameter: string; at: number } | undefined;
  let at = from;
  for (;;) {
    at = skipBlank(text, at);
    if (at >= text.length) return final ? { status: 'cut', at } : { status: 'need' };
    syntax.open.lastIndex = at;
    const opened = syntax.open.exec(text);
    if (opened) {
      const start = syntax.open.lastIndex;
      const name = opened[1]!.trim();
      const natural = ends.next(text, start, syntax, final);
      if (natural === 'need') return { status: 'need' };
      if (natural === 'none') return { status: 'cut', at: start };
      const whole = text.slice(start, natural.at);
      const implied = syntax.implied && impliedEnd(whole, syntax.implied, known, args, name);
      const value = implied === undefined ? whole : whole.slice(0, implied);
      if (name !== '__proto__') {
        const stripped = stripBreaks(value, implied === undefined);
        // Reading goes on: the end of the block is known only by its values.
        if (Object.hasOwn(args, name) && args[name] !== stripped) twice ??= { parameter: name, at };
        args[name] = stripped;
      }
      if (implied !== undefined) repairs.push('missing_parameter_close');
      at = implied === undefined ? natural.end : start + implied;
      continue;
    }
    if (at === from && text[at] === '{' && syntax === QWEN) return jsonArguments(text, at, final);
    const call = callCloseAt(text, at);
    if (call >= 0) return { status: 'ok', args, textValues: true, end: call, closed: 'call', repairs, twice };
    if (syntax.end) {
      syntax.end.lastIndex = at;
      if (syntax.end.test(text)) {
        return { status: 'ok', args, textValues: true, end: syntax.end.lastIndex, closed: 'block', repairs, twice };
      }
    }
    syntax.closeHere.lastIndex = at;
    if (syntax.closeHere.test(text)) {
      repairs.push('doubled_parameter_close');
      at = syntax.closeHere.lastIndex;
      continue;
    }
    if (!final && text[at] === '<' && isPartialMark(text, at)) return { status: 'need' };
    return { status: 'bad', at, message: 'expected a parameter or the end of the call' };
  }
}

/** `<function=NAME>{json}</function>`, the form of Llama 3. */
function jsonArguments(text: string, start: number, final: boolean): BlockReading {
  const reading = readJson(text, start);
  if (reading.status === 'cut') return final ? reading : { status: 'need' };
  if (reading.status === 'bad') {
    return !final && mayStillChange(reading, text) ? { status: 'need' } : reading;
  }
  const after = skipBlank(text, reading.end);
  if (!final && (after >= text.length || isPartialMark(text, after))) return { status: 'need' };
  const ok = { status: 'ok', args: reading.value, textValues: false, repairs: reading.repairs } as const;
  QWEN.end!.lastIndex = after;
  if (QWEN.end!.test(text)) return { ...ok, end: QWEN.end!.lastIndex, closed: 'block' };
  const call = callCloseAt(text, after);
  if (call >= 0) return { ...ok, end: call, closed: 'call' };
  return after >= text.length
    ? { status: 'cut', at: after }
    : { status: 'bad', at: after, message: 'more text after the arguments' };
}

function impliedEnd(
  text: string,
  implied: RegExp,
  known: ReadonlySet<string>,
  given: Record<string, unknown>,
  current: string,
): number | undefined {
  if (known.size === 0) return undefined;
  implied.lastIndex = 0;
  for (let hit = implied.exec(text); hit; hit = implied.exec(text)) {
    const name = hit[1]!.trim();
    if (known.has(name) && name !== current && !Object.hasOwn(given, name)) return hit.index;
  }
  return undefined;
}

/** Exactly one line break at each end is layout. */
function stripBreaks(value: string, atEnd: boolean): string {
  const start = value.startsWith('\r\n') ? 2 : value.startsWith('\n') ? 1 : 0;
  let end = value.length;
  // Before an implied end the line feed belongs to the next line's mark and is already gone.
  if (!atEnd) end -= end > start && value.endsWith('\r') ? 1 : 0;
  else if (end > start && value.endsWith('\n')) end -= value.endsWith('\r\n') && end - start > 1 ? 2 : 1;
  return value.slice(start, end);
}
