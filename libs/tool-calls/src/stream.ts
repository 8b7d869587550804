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
const MAY_END_BLOCK = /[>`\]]/;
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
  private ended: StreamResult | undefined;

  constructor(options: ParseOptions = {}, live = true) {
    const { tools } = options;
    const set = tools === undefined || tools instanceof ToolSet ? tools : new ToolSet(tools);
    this.sink = new AnswerSink(set, String(options.turn ?? 1), live);
    this.options = {
      dialects: new Set(options.dialects ?? CORE_TEXT_DIALECTS),
      inReasoning: options.thinkPrefilled ?? false,
    };
  }

  /** Takes the next piece of the answer. */
  push(chunk: string): StreamEvent[] {
    this.tail += chunk;
    if (this.tail.length < this.wanted && !(this.credit >= this.held.length && MAY_END_BLOCK.test(chunk)))
      return NO_EVENTS;
    if (this.ended) return NO_EVENTS;
    this.read(false);
    return this.sink.drain();
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
    this.tail = '';
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
