import { type AnswerSink } from './answer-sink.js';
import { CodeSpans } from './code-spans.js';
import { type CallBlock, CallBlockReader } from './call-block.js';
import {
  CALL_TAGS,
  REASONING_TAGS,
  isPartialMark,
  nameAttribute,
  opensCall,
  type Tag,
  tagAt,
  turnAt,
} from './marks.js';
import { readMistral, readPythonic, readTokenMark } from './packs.js';
import { readJson } from './read-json.js';
import { shapeCalls } from './call-shape.js';
import { isBlank, skipBlank } from './json-scan.js';
import { type Dialect } from './types.js';

const TOKEN_PACKS: readonly Dialect[] = ['kimi', 'deepseek', 'token_json', 'pythonic'];
const NOWHERE = Number.POSITIVE_INFINITY;
const REASONING_CLOSE = /<\/(?:think|thinking)\s{0,4}>/gi;
/** Where a comment ends; a reasoning block that ends before it was opened in the prompt, and the comment is a part of it. */
const COMMENT_END = /-->|<\/(?:think|thinking)\s{0,4}>/gi;
/** The beginning of a quoted line of Markdown, in a list too. */
const QUOTE = /^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?>/;
/** As much of a line as shows whether it is quoted. */
const LINE_HEAD = 24;
const FENCE_CALL = /^(?:tool_call|toolcall|tool-call|tool_calls|function_call|invoke)$/i;
const FENCE_TOOL = /^tool[ \t]{1,8}([\w.:-]{1,128})$/i;
const WRAPPERS = /^(?:minimax:tool_call|function_calls|antml:function_calls|tool_calls)$/;

const enum State {
  Text,
  Reasoning,
  Fence,
  /** After a made-up tool result: only the end of a reasoning block, which would take all of it back, still counts. */
  Dropped,
}

/** A fence that is the whole answer so far; whether it is a sample or a call shows at the end. */
interface WholeFence {
  raw: string;
  body: string;
}

/**
 * Reads text answers in one forward scan: reasoning, inline code, fences and the calls of all tag dialects.
 * `advance` is given the text that is not consumed yet and says up to where it got.
 */
export class TagReader {
  private state: State;
  private text = '';
  private final = false;
  private readonly spans = new CodeSpans();
  private readonly blocks: CallBlockReader;
  private readonly packs: ReadonlySet<Dialect>;
  /** Whether only blanks and blocks stand before the unconsumed text on its line. */
  private cleanLine = true;
  /** The first characters of the line that the unconsumed text goes on, and how many backslashes end it. */
  private lineHead = '';
  private slashes = 0;
  private wholeFence: WholeFence | undefined;
  private fence: { mark: string; length: number } = { mark: '`', length: 3 };
  private started = false;
  // Where the next mark of each kind is; NOWHERE if there is none.
  private nextLess = -1;
  private nextTick = -1;
  private nextTilde = -1;
  private nextMistral = -1;
  private commentEnd: { at: number; end: number } | undefined;
  /** The line of the last mark: its first index, and the index of the line break that ends it. */
  private line = { start: 0, end: -1 };

  constructor(
    private readonly sink: AnswerSink,
    options: { dialects: ReadonlySet<Dialect>; inReasoning?: boolean; insideFence?: boolean },
  ) {
    this.packs = options.dialects;
    this.state = options.inReasoning ? State.Reasoning : State.Text;
    this.insideFence = options.insideFence ?? false;
    this.blocks = new CallBlockReader(sink, this.packs);
  }

  private readonly insideFence: boolean;

  /** Consumes what can be decided; with `final` everything. Returns the index of the first character that is left. */
  advance(text: string, final: boolean): number {
    this.text = text;
    this.final = final;
    this.spans.reset();
    this.blocks.start(text, final);
    this.nextLess = this.nextTick = this.nextTilde = this.nextMistral = -1;
    this.commentEnd = undefined;
    this.line = { start: 0, end: -1 };
    let at = 0;
    for (;;) {
      const before = at;
      const state = this.state;
      if (state === State.Text) at = this.readText(at);
      else if (state === State.Reasoning) at = this.readReasoning(at);
      else if (state === State.Fence) at = this.readFence(at);
      else at = this.readDropped(at);
      if (at === before && this.state === state) break;
      if (at >= text.length && this.state === state) break;
    }
    if (final) this.finish();
    return at;
  }

  private readText(from: number): number {
    const { text } = this;
    let at = from;
    if (!this.started) {
      const start = skipBlank(text, from);
      if (start >= text.length && !this.final) return from;
      this.started = true;
      if (this.packs.has('pythonic')) {
        const end = readPythonic(text, start, this.final, this.sink);
        if (end === 'need') {
          this.started = false;
          return from;
        }
        if (end >= 0) return end;
      }
    }
    for (;;) {
      const mark = this.nextMark(at);
      if (mark === NOWHERE) {
        this.flush(from, text.length);
        return text.length;
      }
      const step = this.readMark(mark, from);
      if (step === 'need') {
        this.flush(from, mark);
        return mark;
      }
      if (step.kind === 'block') return step.end;
      at = step.end;
    }
  }

  /** Looks at one mark; `from` is where the text starts that is not handed out yet. */
  private readMark(at: number, from: number): Step | 'need' {
    const code = this.text.charCodeAt(at);
    if (code === 0x60) return this.readBackticks(at, from);
    if (code === 0x7e) return this.readTildes(at, from);
    if (code === 0x5b) {
      if (this.isQuoted(at, from)) return this.quoted(at);
      return this.readPack(
        at,
        from,
        readMistral(this.text, at, this.final, this.sink, () => this.take(from, at)),
      );
    }
    return this.readLess(at, from);
  }

  private readLess(at: number, from: number): Step | 'need' {
    const { text } = this;
    const next = text.charCodeAt(at + 1);
    if (next === 0x21) return this.readComment(at);
    const tag = tagAt(text, at);
    if (tag && REASONING_TAGS.has(tag.name) && tag.rest.trim() === '') return this.readReasoningTag(tag, at, from);
    if (!this.final && at + 1 >= text.length) return 'need';
    if (this.isQuoted(at, from)) return this.quoted(at);
    if (next === 0x7c || next === 0xff5c || next === 0x73 || next === 0x53) {
      const turn = turnAt(text, at, this.final);
      if (turn === 'need') return 'need';
      if (turn >= 0) return this.drop(at, from, turn);
    }
    if (next === 0x7c || next === 0xff5c) {
      if (!TOKEN_PACKS.some((pack) => this.packs.has(pack))) return literal(at + 1);
      if (!this.final && isPartialMark(text, at)) return 'need';
      return this.readPack(
        at,
        from,
        readTokenMark(text, at, this.final, this.sink, this.packs, () => this.take(from, at)),
      );
    }
    if (!tag) return !this.final && isPartialMark(text, at) ? 'need' : literal(at + 1);
    if (CALL_TAGS.has(tag.name)) {
      if (opensCall(tag))
        return this.readCall(
          at,
          from,
          this.blocks.tagged(at, tag.end, nameAttribute(tag.rest), this.isCleanLine(at, from)),
        );
      if (!tag.closing) return literal(at + 1);
      this.take(from, at);
      this.sink.markGap();
      return block(tag.end);
    }
    if (!tag.closing && isResult(tag) && this.isCleanLine(at, from)) return this.drop(at, from, tag.end);
    if (tag.name === 'function' && !tag.closing && tag.rest.startsWith('=')) {
      if (!this.isCleanLine(at, from)) return literal(at + 1);
      return this.readCall(at, from, this.blocks.bareFunction(at));
    }
    if (this.packs.has('invoke') && WRAPPERS.test(tag.name)) {
      this.take(from, at);
      this.sink.markGap();
      return block(tag.end);
    }
    return literal(at + 1);
  }

  /** A tag of reasoning counts in quotes too: the worst that may come of it is that a call does not run. */
  private readReasoningTag(tag: Tag, at: number, from: number): Step {
    if (tag.closing) {
      this.take(from, at);
      this.releaseFence();
      this.sink.takeBack();
    } else {
      this.flush(from, at);
      this.state = State.Reasoning;
    }
    return block(tag.end);
  }

  /** What stands in a comment is not said to anyone; one that does not end hides the rest of the answer. */
  private readComment(at: number): Step | 'need' {
    const { text } = this;
    if (!text.startsWith('<!--', at)) return !this.final && text.length - at < 4 ? 'need' : literal(at + 1);
    if (!this.commentEnd || this.commentEnd.at < at + 2) {
      COMMENT_END.lastIndex = at + 2;
      const found = COMMENT_END.exec(text);
      this.commentEnd = found
        ? { at: found.index, end: COMMENT_END.lastIndex }
        : { at: text.length + 4, end: text.length };
    }
    const { at: close, end } = this.commentEnd;
    if (close > text.length) {
      if (!this.final) return 'need';
    } else if (text.charCodeAt(close) === 0x3c) return literal(at + 4);
    this.sink.countQuoted(text.slice(at, end));
    return literal(end);
  }

  /** A mark in a quoted line or behind a backslash: text. */
  private quoted(at: number): Step | 'need' {
    if (this.text.charCodeAt(at) === 0x3c) {
      if (!this.final && isPartialMark(this.text, at)) return 'need';
      const tag = tagAt(this.text, at);
      if (tag && opensCall(tag)) this.sink.countQuoted(this.text.slice(at, tag.end));
    }
    return literal(at + 1);
  }

  /** From here on the answer is made up: a result, or a turn of somebody else. */
  private drop(at: number, from: number, end: number): Step {
    this.take(from, at);
    this.sink.noteFabricated();
    this.state = State.Dropped;
    return block(end);
  }

  private readCall(at: number, from: number, found: CallBlock | 'need'): Step | 'need' {
    if (found === 'need') return 'need';
    if (found.kind === 'text') return literal(found.end);
    this.take(from, at);
    found.commit();
    return block(found.end);
  }

  private readPack(at: number, from: number, end: number | 'need'): Step | 'need' {
    if (end === 'need') return 'need';
    if (end < 0) return literal(at + 1);
    return block(end);
  }

  private readBackticks(at: number, from: number): Step | 'need' {
    const { text } = this;
    let end = at + 1;
    while (end < text.length && text.charCodeAt(end) === 0x60) end++;
    if (end === text.length && !this.final) return 'need';
    const length = end - at;
    if (length >= 3 && this.isCleanLine(at, from)) {
      const fence = this.openFence(at, end, '`', from);
      if (fence !== undefined) return fence;
    }
    const close = this.spans.close(text, end, length, this.final);
    if (close === 'need') return 'need';
    if (close < 0) return literal(end);
    this.sink.countQuoted(text.slice(at, close));
    return literal(close);
  }

  private readTildes(at: number, from: number): Step | 'need' {
    const { text } = this;
    let end = at;
    while (end < text.length && text.charCodeAt(end) === 0x7e) end++;
    if (end === text.length && !this.final) return 'need';
    if (!this.isCleanLine(at, from)) return literal(end);
    return this.openFence(at, end, '~', from) ?? literal(end);
  }

  private openFence(at: number, afterMark: number, mark: string, from: number): Step | 'need' | undefined {
    const { text } = this;
    let lineEnd = text.indexOf('\n', afterMark);
    if (lineEnd < 0) {
      // An info string is short; a long line of other text need not be waited for.
      if (!this.final && text.length - afterMark < 400) return 'need';
      lineEnd = text.length;
    }
    const info = text.slice(afterMark, lineEnd).trim();
    if (mark === '`' && info.includes('`')) return undefined;
    const length = afterMark - at;
    const bodyStart = Math.min(lineEnd + 1, text.length);
    const tool = FENCE_TOOL.exec(info)?.[1];
    if (this.packs.has('fenced') && (tool !== undefined || FENCE_CALL.test(info))) {
      return this.readCall(at, from, this.blocks.fenced(at, bodyStart, { mark, length }, tool));
    }
    if (this.sink.isEmpty && !this.wholeFence && !this.insideFence && skipBlank(text, from) >= at) {
      const first = skipBlank(text, bodyStart);
      if (first >= text.length && !this.final) return 'need';
      if (text[first] === '<' || text[first] === '{') {
        const close = closingFence(text, bodyStart, mark, length);
        if (!close || (!this.final && close.end === text.length)) {
          if (!this.final) return 'need';
        } else {
          this.take(from, at);
          this.wholeFence = { raw: text.slice(at, close.end), body: text.slice(bodyStart, close.at) };
          this.cleanLine = false;
          this.lineHead = mark;
          this.slashes = 0;
          return block(close.end);
        }
      }
    }
    this.flush(from, bodyStart);
    this.state = State.Fence;
    this.fence = { mark, length };
    return block(bodyStart);
  }

  private readFence(from: number): number {
    const { text } = this;
    const marked = text.indexOf(this.fence.mark, from) >= 0;
    const close = marked ? closingFence(text, from, this.fence.mark, this.fence.length) : undefined;
    if (close && (this.final || close.end < text.length)) {
      this.sink.countQuoted(text.slice(from, close.at));
      this.flush(from, close.end);
      this.state = State.Text;
      return close.end;
    }
    const end = this.final ? text.length : text.lastIndexOf('\n', close ? close.at - 1 : text.length) + 1;
    if (end <= from) return from;
    this.sink.countQuoted(text.slice(from, end));
    this.flush(from, end);
    return end;
  }

  private readReasoning(from: number): number {
    const { text } = this;
    REASONING_CLOSE.lastIndex = from;
    const close = text.indexOf('<', from) < 0 ? null : REASONING_CLOSE.exec(text);
    if (close) {
      this.sink.addReasoning(text.slice(from, close.index));
      this.sink.endReasoning();
      this.state = State.Text;
      return REASONING_CLOSE.lastIndex;
    }
    let end = text.length;
    if (!this.final) {
      const last = text.lastIndexOf('<');
      if (last >= from && text.length - last < 24) end = last;
    }
    this.sink.addReasoning(text.slice(from, end));
    return end;
  }

  private readDropped(from: number): number {
    const { text } = this;
    REASONING_CLOSE.lastIndex = from;
    if (REASONING_CLOSE.test(text)) {
      this.wholeFence = undefined;
      this.sink.takeBack();
      this.state = State.Text;
      return REASONING_CLOSE.lastIndex;
    }
    if (this.final) return text.length;
    const last = text.lastIndexOf('<');
    return last >= from && text.length - last < 24 ? last : text.length;
  }

  private finish(): void {
    const fence = this.wholeFence;
    this.wholeFence = undefined;
    if (!fence) return;
    if (this.sink.isEmpty && this.callInFence(fence.body)) return;
    this.sink.countQuoted(fence.raw);
    this.sink.addText(fence.raw);
  }

  /** A fence that is the whole answer and holds exactly one call is that call. */
  private callInFence(body: string): boolean {
    const start = skipBlank(body, 0);
    if (body[start] === '{') return this.bareCall(body, start);
    const probe = this.sink.probe();
    const options = { dialects: this.packs, insideFence: true };
    new TagReader(probe, options).advance(body, true);
    const { text, calls, errors } = probe.result();
    const one = calls.length + errors.length === 1 && (calls.length === 1 || errors[0]!.kind === 'schema');
    if (!one || text !== '') return false;
    new TagReader(this.sink, options).advance(body, true);
    return true;
  }

  private bareCall(body: string, start: number): boolean {
    const reading = readJson(body, start);
    if (reading.status !== 'ok' || skipBlank(body, reading.end) < body.length) return false;
    const call = reading.value as Record<string, unknown>;
    const args = call['arguments'] ?? call['parameters'];
    const onlyCall = Object.keys(call).every((key) => ['name', 'arguments', 'parameters', 'id', 'type'].includes(key));
    if (!onlyCall || typeof args !== 'object' || typeof call['name'] !== 'string') return false;
    if (!this.sink.isRegistered(call['name'])) return false;
    this.sink.addShaped(shapeCalls(call, reading.literals, body), body);
    return true;
  }

  /** Hands out text; a fence that was held back turns out to be a part of a longer answer. */
  private flush(from: number, to: number): void {
    if (to <= from) return;
    const piece = this.text.slice(from, to);
    this.cleanLine = lineIsClean(piece, piece.length, this.cleanLine);
    const lineBreak = piece.lastIndexOf('\n');
    if (lineBreak >= 0) this.lineHead = piece.slice(lineBreak + 1, lineBreak + 1 + LINE_HEAD);
    else if (this.lineHead.length < LINE_HEAD) this.lineHead += piece.slice(0, LINE_HEAD - this.lineHead.length);
    const slashes = backslashesBefore(piece, piece.length, 0);
    this.slashes = slashes === piece.length ? this.slashes + slashes : slashes;
    if (this.wholeFence && skipBlank(piece, 0) === piece.length) {
      this.wholeFence.raw += piece;
      return;
    }
    this.releaseFence();
    this.sink.addText(piece);
  }

  /** Hands out the text before a block that is about to be taken out. */
  private take(from: number, at: number): void {
    this.flush(from, at);
    this.releaseFence();
  }

  private releaseFence(): void {
    if (!this.wholeFence) return;
    this.sink.countQuoted(this.wholeFence.raw);
    this.sink.addText(this.wholeFence.raw);
    this.wholeFence = undefined;
  }

  private isCleanLine(at: number, from: number): boolean {
    for (let before = at - 1; before >= from; before--) {
      const code = this.text.charCodeAt(before);
      if (code === 0x0a) return true;
      if (!isBlank(code)) return false;
    }
    return this.cleanLine;
  }

  /** Whether the mark at `at` is in a quoted line, or escaped by a backslash. */
  private isQuoted(at: number, from: number): boolean {
    const { text } = this;
    const slashes = backslashesBefore(text, at, from);
    if ((at - slashes === from ? this.slashes + slashes : slashes) % 2 === 1) return true;
    if (at > this.line.end) {
      const end = find(text, '\n', at);
      this.line = { start: text.lastIndexOf('\n', at - 1) + 1, end };
    }
    const { start } = this.line;
    if (start > from) return QUOTE.test(text.slice(start, Math.min(at, start + LINE_HEAD)));
    return QUOTE.test(this.lineHead + text.slice(from, Math.min(at, from + LINE_HEAD)));
  }

  private nextMark(at: number): number {
    if (this.nextLess < at) this.nextLess = find(this.text, '<', at);
    if (this.nextTick < at) this.nextTick = find(this.text, '`', at);
    if (this.nextTilde < at) this.nextTilde = this.findTildes(at);
    let next = Math.min(this.nextLess, this.nextTick, this.nextTilde);
    if (this.packs.has('mistral')) {
      if (this.nextMistral < at) this.nextMistral = find(this.text, '[', at);
      next = Math.min(next, this.nextMistral);
    }
    return next;
  }

  private findTildes(at: number): number {
    const found = this.text.indexOf('~~~', at);
    if (found >= 0) return found;
    // Up to two tildes at the end may become a fence.
    if (!this.final && this.text.endsWith('~'))
      return Math.max(at, this.text.length - (this.text.endsWith('~~') ? 2 : 1));
    return NOWHERE;
  }
}

/** A result as we write them, in any order of its attributes, or as Hermes and Qwen are trained to expect them. */
function isResult({ name, rest }: Tag): boolean {
  return name === 'tool_response' ? rest.trim() === '' : name === 'tool_result' && /\sname\s{0,4}=/.test(rest);
}

type Step = { kind: 'literal' | 'block'; end: number };

/** It was text: look on after it. */
function literal(end: number): Step {
  return { kind: 'literal', end };
}

/** It was taken out of the text. */
function block(end: number): Step {
  return { kind: 'block', end };
}

function find(text: string, mark: string, at: number): number {
  const found = text.indexOf(mark, at);
  return found < 0 ? NOWHERE : found;
}

function backslashesBefore(text: string, at: number, from: number): number {
  let start = at;
  while (start > from && text.charCodeAt(start - 1) === 0x5c) start--;
  return at - start;
}

function lineIsClean(text: string, end: number, before: boolean): boolean {
  for (let at = end - 1; at >= 0; at--) {
    const code = text.charCodeAt(at);
    if (code === 0x0a) return true;
    if (!isBlank(code)) return false;
  }
  return before;
}

const CLOSING_FENCE = /^[ \t]*(`{3,}|~{3,})[ \t]*\r?$/gm;

/** The line that closes a fence; `from` must be the start of a line. */
export function closingFence(
  text: string,
  from: number,
  mark: string,
  length: number,
): { at: number; end: number } | undefined {
  CLOSING_FENCE.lastIndex = from;
  for (let hit = CLOSING_FENCE.exec(text); hit; hit = CLOSING_FENCE.exec(text)) {
    const run = hit[1]!;
    if (run[0] === mark && run.length >= length) return { at: hit.index, end: hit.index + hit[0].length };
  }
  return undefined;
}
