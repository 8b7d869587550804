import { AnswerSink, type StreamEvent } from './answer-sink.js';
import { HarmonyReader, startsLikeHarmony } from './harmony-reader.js';
import { TagReader } from './tag-reader.js';
import { ToolSet } from './tool-set.js';
import { CORE_TEXT_DIALECTS, type Dialect, type ParseResult, type ToolDefinition } from './types.js';

export interface ParseOptions {
  /** Forms to look for; hermes, qwen_xml and fenced unless said otherwise. */
  dialects?: Iterable<Dialect>;
  /** Only these may be called, with arguments that fit. Without tools, names and arguments pass as they are. */
  tools?: ToolSet | readonly ToolDefinition[];
  /** The template of this deployment opens the reasoning block in the prompt: the answer begins inside of it. */
  thinkPrefilled?: boolean;
  /** Makes the ids of text calls unique beyond one answer: `call_<turn>_<n>`. */
  turn?: string | number;
}

/** The final result of a stream, and the events that were still held back. */
export type StreamResult = ParseResult & { events: StreamEvent[] };

/** Below this, what is held back is looked at again with every chunk; above, only when it is worth it. */
const SMALL = 64;
/** Shortest piece of prose worth an event of its own while more is coming. */
const MIN_DELTA = 16;
/** Longest tag that ends a block, `</function_call>` with a few blanks. */
const LONGEST_CLOSE = 24;
const LESS = 0x3c;
const GREATER = 0x3e;
const BACKTICK = 0x60;
const NO_EVENTS: StreamEvent[] = [];

/**
 * Reads an answer as it arrives. `push` hands out text and reasoning that is certain to be such; calls come with
 * `end()` only, since a late `</think>` or prose after a fence can still take them back. Never throws.
 */
export class ToolCallStream {
  private readonly sink: AnswerSink;
  private readonly options: { dialects: ReadonlySet<Dialect>; inReasoning: boolean };
  private reader: TagReader | HarmonyReader | undefined;
  /** What is not consumed yet; `tail` is what came in since it was last looked at. */
  private held = '';
  private tail = '';
  private wanted = MIN_DELTA;
  /** Characters that may be looked at once more for the sake of promptness, so that all work stays linear. */
  private credit = 4096;
  /** Where in the tail the last `<` and the last run of backticks are. */
  private lastLess = -1000;
  private ticks = 0;
  private ticksEnd = -1;
  private ended: StreamResult | undefined;
  private looked = 0;

  constructor(options: ParseOptions = {}, live = true) {
    const { tools } = options;
    const set = tools === undefined || tools instanceof ToolSet ? tools : new ToolSet(tools);
    this.sink = new AnswerSink(set, String(options.turn ?? 1), live);
    this.options = {
      dialects: new Set(options.dialects ?? CORE_TEXT_DIALECTS),
      inReasoning: options.thinkPrefilled ?? false,
    };
  }

  /** How many characters were looked at so far, repeats included: the measure of the work that streaming costs. */
  get charactersRead(): number {
    return this.looked;
  }

  /** Takes the next piece of the answer. */
  push(chunk: string): StreamEvent[] {
    this.tail += chunk;
    if (this.tail.length < this.wanted && (this.wanted <= SMALL || !this.mayEndBlock(chunk))) return NO_EVENTS;
    if (this.ended) return NO_EVENTS;
    this.read(false);
    return this.sink.drain();
  }

  /**
   * Whether the block that is held back may have ended with this piece, so that it is worth a look before it has
   * doubled. Decided from the piece alone: looking into the collected tail would copy it each time.
   */
  private mayEndBlock(chunk: string): boolean {
    const length = this.tail.length;
    if (chunk.length === 1) {
      const code = chunk.charCodeAt(0);
      if (code === LESS) this.lastLess = length - 1;
      else if (code === BACKTICK) {
        this.ticks = length - 1 === this.ticksEnd ? this.ticks + 1 : 1;
        this.ticksEnd = length;
        if (this.ticks < 3) return false;
      } else if (code !== GREATER || length - this.lastLess > LONGEST_CLOSE) return false;
      return code !== LESS && this.credit >= this.held.length;
    }
    const less = chunk.lastIndexOf('<');
    if (less >= 0) this.lastLess = length - chunk.length + less;
    const ends = chunk.includes('>') ? length - this.lastLess <= LONGEST_CLOSE + chunk.length : chunk.includes('``');
    return ends && this.credit >= this.held.length;
  }

  /** The answer is complete: everything that was found, in its final form. */
  end(): StreamResult {
    if (!this.ended) {
      this.read(true);
      const events = this.sink.drain();
      this.ended = { ...this.sink.result(), events };
    }
    return this.ended;
  }

  private read(final: boolean): void {
    const text = this.held === '' ? this.tail : this.held + this.tail;
    this.credit += this.tail.length - this.held.length;
    this.looked += text.length;
    this.tail = '';
    this.lastLess = -1000;
    this.ticks = 0;
    this.ticksEnd = -1;
    if (!this.reader) {
      const harmony = this.options.dialects.has('harmony') && startsLikeHarmony(text, final);
      if (harmony === 'need') {
        this.hold(text);
        return;
      }
      this.reader = harmony ? new HarmonyReader(this.sink) : new TagReader(this.sink, this.options);
    }
    const consumed = this.reader.advance(text, final);
    this.hold(text.slice(consumed));
  }

  private hold(rest: string): void {
    this.held = rest;
    this.wanted = rest.length <= SMALL ? MIN_DELTA : rest.length;
  }
}

/** Reads a complete answer: the same as pushing it in any number of pieces. Never throws. */
export function parseToolCalls(raw: string, options: ParseOptions = {}): ParseResult {
  const stream = new ToolCallStream(options, false);
  stream.push(raw);
  const { events: _events, ...result } = stream.end();
  return result;
}
