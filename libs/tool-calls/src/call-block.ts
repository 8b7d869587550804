import { type AnswerSink } from './answer-sink.js';
import { type ShapedCall, shapeCalls } from './call-shape.js';
import { isPartialMark, callCloseAt, nextCallClose, nextStop, opensCall, tagAt } from './marks.js';
import { skipBlank } from './json-scan.js';
import {
  type BlockReading,
  GLM,
  INVOKE,
  type ParameterSyntax,
  QWEN,
  ValueEnds,
  readParameters,
} from './parameter-block.js';
import { readJson } from './read-json.js';
import { mayStillChange } from './tolerant-json.js';
import { type Dialect } from './types.js';

const FUNCTION_OPEN = /<function\s{0,2}=\s{0,2}["']?([^<>"'\n]{1,128})["']?\s{0,2}>/iy;
const INVOKE_PARAMETER = /<parameter\s{1,4}name\s{0,2}=/iy;
const INVOKE_INSIDE = /<(?:antml:)?invoke\s[^<>]{0,256}>/iy;
const GLM_NAME = /([\w.:-]{1,128})\s{0,64}(?=<arg_key>)/y;
const GLM_BARE = /([\w.:-]{1,128})\s{0,64}(?=<\/tool_call>)/y;
/** A few words, a fence, or both before the JSON of a call. */
const LEAD = /([^<>{}[\]`]{1,120})?(?:```[\w-]{0,20}[ \t]{0,8}\r?\n?)?\s{0,16}(?=[{[])/y;
const FENCE_END = /`{3,}[ \t]*/y;
/** A few words between the JSON and the close tag. */
const TAIL = /[^<]{1,120}(?=<)/y;

/** A call block, or the finding that it is none. Nothing is handed out before `commit`. */
export type CallBlock = { kind: 'text'; end: number } | { kind: 'block'; end: number; commit: () => void };

type Closer = { kind: 'tag' } | { kind: 'fence'; mark: string; length: number };

/** Reads one call block at a time: what stands between a mark that opens a call and the place where the call ends. */
export class CallBlockReader {
  private text = '';
  private final = false;
  private readonly ends = { qwen: new ValueEnds(), invoke: new ValueEnds(), glm: new ValueEnds() };
  private nextClose: { at: number; end: number } | 'none' | undefined;
  private nextCloseFrom = 0;

  constructor(
    private readonly sink: AnswerSink,
    private readonly dialects: ReadonlySet<Dialect>,
  ) {}

  /** A new text to read from; what was remembered about places is forgotten. */
  start(text: string, final: boolean): void {
    this.text = text;
    this.final = final;
    this.ends.qwen.reset();
    this.ends.invoke.reset();
    this.ends.glm.reset();
    this.nextClose = undefined;
  }

  /** The block that the call tag at `at` opens; its body starts at `from`. */
  tagged(at: number, from: number, name: string | undefined, cleanLine: boolean): CallBlock | 'need' {
    const { text } = this;
    const start = skipBlank(text, from);
    if (start >= text.length) {
      return this.final
        ? this.unreadable('unterminated', 'the answer ends right after the opening tag', at, start, start)
        : 'need';
    }
    const char = text[start];
    if (char === '{' || char === '[') return this.json(at, start, { kind: 'tag' }, name);
    if (char === '<') return this.taggedMarkup(at, from, start, name, cleanLine);
    const glm = this.glm(at, start);
    if (glm !== undefined) return glm;
    LEAD.lastIndex = start;
    const lead = LEAD.exec(text);
    if (lead)
      return this.json(at, LEAD.lastIndex, { kind: 'tag' }, name, lead[1] === undefined ? undefined : { cleanLine });
    if (!this.final && text.length - start < 200 && !text.slice(start).includes('<')) return 'need';
    return this.mention(at, from, start, cleanLine);
  }

  private taggedMarkup(
    at: number,
    from: number,
    start: number,
    name: string | undefined,
    cleanLine: boolean,
  ): CallBlock | 'need' {
    const { text } = this;
    const close = callCloseAt(text, start);
    if (close >= 0) {
      if (name !== undefined) return this.done(close, () => this.addCall(name, {}, at, close));
      return this.unreadable('malformed_json', 'the call is empty', at, start, close);
    }
    FUNCTION_OPEN.lastIndex = start;
    if (FUNCTION_OPEN.test(text)) return this.functions(at, start);
    if (name !== undefined) {
      INVOKE_PARAMETER.lastIndex = start;
      if (INVOKE_PARAMETER.test(text)) return this.parameterBlock(at, name, this.parameters(start, INVOKE, name));
    }
    const tag = tagAt(text, start);
    if (!tag && !this.final && isPartialMark(text, start)) return 'need';
    // A doubled opening tag, or a wrapper around `<invoke name=…>`.
    INVOKE_INSIDE.lastIndex = start;
    if ((tag && opensCall(tag) && name === undefined) || INVOKE_INSIDE.test(text)) return this.done(start, () => {});
    return this.mention(at, from, start, cleanLine);
  }

  /** One or more `<function=NAME>` blocks inside of a call tag. */
  private functions(at: number, start: number): CallBlock | 'need' {
    const commits: (() => void)[] = [];
    const all = (end: number) => this.done(end, () => commits.forEach((commit) => commit()));
    let from = start;
    for (;;) {
      FUNCTION_OPEN.lastIndex = from;
      const opened = FUNCTION_OPEN.exec(this.text);
      if (!opened) return all(from);
      const name = opened[1]!.trim();
      const reading = this.parameters(FUNCTION_OPEN.lastIndex, QWEN, name);
      const block = this.parameterBlock(commits.length === 0 ? at : from, name, reading);
      if (block === 'need') return 'need';
      if (block.kind === 'text') return all(from);
      commits.push(block.commit);
      if (reading.status !== 'ok' || block.end !== reading.end || reading.closed === 'call') return all(block.end);
      from = skipBlank(this.text, block.end);
      FUNCTION_OPEN.lastIndex = from;
      if (!FUNCTION_OPEN.test(this.text)) return all(block.end);
    }
  }

  /** A `<function=NAME>` block without the outer tag: a call only if it stands alone on its lines and is registered. */
  bareFunction(at: number): CallBlock | 'need' {
    const { text } = this;
    FUNCTION_OPEN.lastIndex = at;
    const opened = FUNCTION_OPEN.exec(text);
    if (!opened) return !this.final && isPartialMark(text, at) ? 'need' : { kind: 'text', end: at + 1 };
    const name = opened[1]!.trim();
    const from = FUNCTION_OPEN.lastIndex;
    if (!this.sink.isRegistered(name)) return { kind: 'text', end: from };
    const reading = this.parameters(from, QWEN, name);
    if (reading.status === 'need') return 'need';
    if (reading.status !== 'ok') return { kind: 'text', end: Math.max(from, Math.min(reading.at, text.length)) };
    let end = reading.end;
    if (reading.closed === 'block') {
      const after = skipBlank(text, end);
      const close = callCloseAt(text, after);
      if (close >= 0) end = close;
      else {
        if (!this.final && (after >= text.length || isPartialMark(text, after))) return 'need';
        const rest = text.slice(end, after);
        if (after < text.length && !rest.includes('\n')) return { kind: 'text', end };
      }
    }
    return this.done(end, () => this.addCall(name, reading.args, at, end, reading));
  }

  /** The block that a call fence opens; `tool` is the name that stands in its info string. */
  fenced(
    at: number,
    from: number,
    fence: { mark: string; length: number },
    tool: string | undefined,
  ): CallBlock | 'need' {
    const { text } = this;
    const closer: Closer = { kind: 'fence', ...fence };
    let start = skipBlank(text, from);
    const tag = text[start] === '<' ? tagAt(text, start) : undefined;
    if (tag && opensCall(tag)) start = skipBlank(text, tag.end);
    if (start >= text.length) {
      return this.final
        ? this.unreadable('unterminated', 'the answer ends right after the fence', at, start, start)
        : 'need';
    }
    if (text[start] === '{' || text[start] === '[') return this.json(at, start, closer, tool);
    if (!this.final && isPartialMark(text, start) && text[start] === '<') return 'need';
    const close = this.closingFence(start, closer);
    if (close === 'need') return 'need';
    if (tool !== undefined && close !== undefined && start === close.at) {
      return this.done(close.end, () => this.addCall(tool, {}, at, close.end));
    }
    return this.unreadable('malformed_json', 'expected the JSON of a call', at, start, close?.end ?? text.length);
  }

  /**
   * Reads JSON values from `start` up to the end of the block. After `words` an explicit close tag is needed: without
   * one, a sentence about the protocol that goes on with a sample would be a call.
   */
  private json(
    at: number,
    start: number,
    closer: Closer,
    name: string | undefined,
    words?: { cleanLine: boolean },
  ): CallBlock | 'need' {
    const { text } = this;
    const shaped: ShapedCall[] = [];
    const repairs: string[] = words ? ['words_around'] : [];
    const closes = closer.kind === 'tag' ? (place: number) => callCloseAt(text, place) >= 0 : undefined;
    const ok = (end: number): CallBlock =>
      this.done(end, () => {
        for (const rule of repairs) this.sink.countRepair(rule);
        this.sink.addShaped(shaped, text.slice(at, Math.min(end, at + 1000)));
      });
    const failed = (place: number, message: string, end?: number): CallBlock | 'need' => {
      const block = this.badBody(at, start, place, message, closer, end);
      if (block === 'need' || block.kind === 'text') return block;
      return this.done(block.end, () => {
        this.sink.addShaped(shaped, text.slice(at, Math.min(block.end, at + 1000)));
        block.commit();
      });
    };
    const open = (end: number): CallBlock =>
      words && !words.cleanLine
        ? { kind: 'text', end: start }
        : this.unreadable('malformed_json', 'words before the JSON and no close tag after it', at, start, end);
    let from = start;
    for (;;) {
      const reading = readJson(text, from, closes);
      if (reading.status === 'cut') {
        if (!this.final) return 'need';
        const block = this.unreadable(
          'unterminated',
          'the call ends before its JSON is complete',
          at,
          reading.at,
          text.length,
        );
        return this.done(text.length, () => {
          this.sink.addShaped(shaped, text.slice(at, at + 1000));
          block.commit();
        });
      }
      if (reading.status === 'bad') {
        if (!this.final && mayStillChange(reading, text)) return 'need';
        return failed(reading.at, reading.message, reading.end);
      }
      repairs.push(...reading.repairs);
      const input = text.slice(from, Math.min(reading.end, from + 1000));
      const found = shapeCalls(
        reading.value,
        reading.literals,
        input,
        name,
        name === undefined ? undefined : this.sink.parameterNames(name),
      );
      let after = skipBlank(text, reading.end);
      if (after >= text.length) {
        if (!this.final) return 'need';
        if (words) return open(after);
        shaped.push(...found);
        return ok(after);
      }
      if (text[after] === '}' && closer.kind === 'tag') {
        const close = this.closeAfterFence(skipBlank(text, after + 1));
        if (close === 'need') return 'need';
        if (close < 0) return failed(after, "unexpected '}' after the end of the JSON");
        shaped.push(...found);
        repairs.push('extra_brace');
        return ok(close);
      }
      shaped.push(...found);
      if (text[after] === ',') after = skipBlank(text, after + 1);
      if (text[after] === '{') {
        from = after;
        continue;
      }
      if (!this.final && after >= text.length - 1) return 'need';
      const end = closer.kind === 'tag' ? this.endOfTag(reading.end) : this.endOfFence(reading.end, closer);
      if (end === 'need') return 'need';
      return words && end === reading.end ? open(end) : ok(end);
    }
  }

  /** Where a tag block ends whose JSON ends at `from`: after its close tag, or right there if it has none. */
  private endOfTag(from: number): number | 'need' {
    const { text } = this;
    const close = this.closeAfterFence(skipBlank(text, from));
    if (close === 'need' || close >= 0) return close;
    const after = skipBlank(text, from);
    if (text[after] === '<') {
      // The answer may have been cut inside of the close tag.
      return this.final && '</tool_call>'.startsWith(text.slice(after, after + 13)) ? text.length : from;
    }
    TAIL.lastIndex = after;
    if (TAIL.test(text)) {
      const tail = callCloseAt(text, TAIL.lastIndex);
      if (tail >= 0) return tail;
      return !this.final && isPartialMark(text, TAIL.lastIndex) ? 'need' : from;
    }
    return !this.final && text.length - after <= 120 ? 'need' : from;
  }

  /** The end of the close tag at `at`, a closing fence before it skipped; -1 if there is none. */
  private closeAfterFence(at: number): number | 'need' {
    const { text } = this;
    FENCE_END.lastIndex = at;
    const place = FENCE_END.test(text) ? skipBlank(text, FENCE_END.lastIndex) : at;
    const close = callCloseAt(text, place);
    if (close >= 0) return close;
    return !this.final && (place >= text.length || (text[place] === '<' && isPartialMark(text, place))) ? 'need' : -1;
  }

  private endOfFence(from: number, closer: Closer & { kind: 'fence' }): number | 'need' {
    let place = skipBlank(this.text, from);
    const close = callCloseAt(this.text, place);
    if (close >= 0) place = close;
    const fence = this.closingFence(place, closer);
    return fence === 'need' ? 'need' : (fence?.end ?? from);
  }

  private closingFence(
    from: number,
    closer: Closer & { kind: 'fence' },
  ): { at: number; end: number } | 'need' | undefined {
    const found = nextClosingFence(this.text, from, closer.mark, closer.length);
    if (found ? !this.final && found.end === this.text.length : !this.final) return 'need';
    return found;
  }

  private glm(at: number, start: number): CallBlock | 'need' | undefined {
    const { text } = this;
    GLM_NAME.lastIndex = start;
    const named = GLM_NAME.exec(text);
    if (named) {
      const name = named[1]!;
      return this.parameterBlock(at, name, this.parameters(GLM_NAME.lastIndex, GLM, name));
    }
    if (!this.dialects.has('glm')) return undefined;
    GLM_BARE.lastIndex = start;
    const bare = GLM_BARE.exec(text);
    if (!bare || !this.sink.isAllowed(bare[1]!)) return undefined;
    const close = callCloseAt(text, GLM_BARE.lastIndex);
    return this.done(close, () => this.addCall(bare[1]!, {}, at, close));
  }

  private parameters(from: number, syntax: ParameterSyntax, name: string): BlockReading {
    const ends = syntax === QWEN ? this.ends.qwen : syntax === INVOKE ? this.ends.invoke : this.ends.glm;
    return readParameters(this.text, from, syntax, this.sink.parameterNames(name), ends, this.final);
  }

  private parameterBlock(at: number, name: string, reading: BlockReading): CallBlock | 'need' {
    const { text } = this;
    if (reading.status === 'need') return 'need';
    if (reading.status === 'cut') {
      return this.unreadable('unterminated', 'the call ends before it is complete', at, reading.at, text.length, name);
    }
    if (reading.status === 'bad')
      return this.badBody(at, at, reading.at, reading.message, { kind: 'tag' }, reading.end, name);
    let end = reading.end;
    if (reading.closed === 'block') {
      const after = skipBlank(text, end);
      const close = callCloseAt(text, after);
      if (close >= 0) end = close;
      else if (!this.final && (after >= text.length || isPartialMark(text, after))) return 'need';
    }
    return this.done(end, () => this.addCall(name, reading.args, at, end, reading));
  }

  private addCall(
    name: string,
    args: unknown,
    at: number,
    end: number,
    reading?: BlockReading & { status: 'ok' },
  ): void {
    for (const rule of reading?.repairs ?? []) this.sink.countRepair(rule);
    const input = this.text.slice(at, Math.min(end, at + 1000));
    if (reading?.twice) {
      const { parameter, at: place } = reading.twice;
      const message = `the parameter ${parameter} is given twice, with different values`;
      const body = this.text.slice(at, Math.max(place, Math.min(end, at + 1000)));
      this.sink.addUnreadable('malformed_json', message, body, place - at, name);
      return;
    }
    this.sink.addCall({ name, args, input, ...(reading?.textValues ? { textValues: true } : {}) });
  }

  /** A call tag whose body is no call: a failed call, or only a mention in a sentence. */
  private mention(at: number, from: number, start: number, cleanLine: boolean): CallBlock | 'need' {
    const { text } = this;
    const stop = nextStop(text, start);
    if (!stop) {
      if (!this.final) return 'need';
      if (!cleanLine) return { kind: 'text', end: from };
      return this.unreadable('unterminated', 'the call ends before it is complete', at, start, text.length);
    }
    if (stop.closesCall) return this.unreadable('malformed_json', 'expected the JSON of a call', at, start, stop.end);
    if (!cleanLine) return { kind: 'text', end: from };
    return this.unreadable('malformed_json', 'expected the JSON of a call', at, start, stop.at);
  }

  /**
   * A body that cannot be read: what follows is looked at again only after the first close mark behind the place where
   * reading failed (or behind the value, if its end is known), since text before it may be inside of a string.
   */
  private badBody(
    at: number,
    start: number,
    place: number,
    message: string,
    closer: Closer,
    end?: number,
    name?: string,
  ): CallBlock | 'need' {
    const from = end ?? place;
    const body = Math.min(start, place);
    if (closer.kind === 'fence') {
      const fence = this.closingFence(from, closer);
      if (fence === 'need') return 'need';
      return this.unreadable('malformed_json', message, body, place, fence?.end ?? this.text.length, name);
    }
    if (
      this.nextClose === undefined ||
      from < this.nextCloseFrom ||
      (this.nextClose !== 'none' && this.nextClose.at < from)
    ) {
      this.nextClose = nextCallClose(this.text, from) ?? 'none';
      this.nextCloseFrom = from;
    }
    if (this.nextClose === 'none' && !this.final) return 'need';
    const resume = this.nextClose === 'none' ? this.text.length : this.nextClose.end;
    return this.unreadable('malformed_json', message, body, place, resume, name);
  }

  private unreadable(
    kind: 'malformed_json' | 'unterminated',
    message: string,
    at: number,
    place: number,
    end: number,
    name?: string,
  ): CallBlock & { kind: 'block' } {
    const body = this.text.slice(at, Math.max(place, Math.min(end, at + 1000)));
    return this.done(end, () => this.sink.addUnreadable(kind, message, body, place - at, name));
  }

  private done(end: number, commit: () => void): CallBlock & { kind: 'block' } {
    return { kind: 'block', end, commit };
  }
}

const CLOSING_FENCE = /(?:^|\n)[ \t]*(`{3,}|~{3,})[ \t]*(?=\r?\n|$)/g;

function nextClosingFence(
  text: string,
  from: number,
  mark: string,
  length: number,
): { at: number; end: number } | undefined {
  // The JSON may be followed by the fence on the same line.
  CLOSING_FENCE.lastIndex = Math.max(0, from);
  const here = /[ \t]*(`{3,}|~{3,})[ \t]*(?=\r?\n|$)/y;
  here.lastIndex = from;
  const direct = here.exec(text);
  if (direct && direct[1]![0] === mark && direct[1]!.length >= length) {
    return { at: from, end: here.lastIndex };
  }
  for (let hit = CLOSING_FENCE.exec(text); hit; hit = CLOSING_FENCE.exec(text)) {
    const run = hit[1]!;
    if (run[0] === mark && run.length >= length) {
      return { at: hit.index + hit[0].indexOf(run), end: hit.index + hit[0].length };
    }
  }
  return undefined;
}
