import { CallCollector, type CallFragment } from './call-collector.js';
import { classifyFailure } from './classify-failure.js';
import type { Failure, FailureVerdict } from './failure-verdict.js';
import { ThinkFilter } from './think-filter.js';
import type {
  AnswerMarks,
  FinishReason,
  ReadOptions,
  ThinkingBlock,
  Usage,
  WireAnswer,
  WireEvent,
} from './wire-types.js';

/** Where a piece of reasoning was found. The first place that holds any is the only one read: others repeat it. */
export type ReasoningSource = 'reasoning_content' | 'reasoning' | 'thinking' | 'reasoning_details' | 'part';

const FINISH: Record<string, FinishReason> = {
  stop: 'stop',
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  stop_token: 'stop',
  complete: 'stop',
  completed: 'stop',
  finished: 'stop',
  pause_turn: 'stop',
  done: 'stop',
  word: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  max_new_tokens: 'length',
  model_length: 'length',
  model_context_window_exceeded: 'length',
  limit: 'length',
  truncated: 'length',
  tool_calls: 'tool_calls',
  tool_call: 'tool_calls',
  tool_use: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  content_filtered: 'content_filter',
  safety: 'content_filter',
  recitation: 'content_filter',
  refusal: 'content_filter',
  sensitive: 'content_filter',
  blocklist: 'content_filter',
  prohibited_content: 'content_filter',
  spii: 'content_filter',
  error: 'error',
  network_error: 'error',
  insufficient_system_resource: 'error',
  engine_overloaded: 'error',
  malformed_function_call: 'error',
  abort: 'error',
  cancelled: 'error',
};

/** Vendor values of a finish reason in our five; an unknown value is a stop. */
export function mapFinishReason(value: string): FinishReason {
  return FINISH[value.toLowerCase()] ?? 'stop';
}

/** Collects one answer, whatever family it comes from, and says what is new as events. */
export class AnswerSink {
  private events: WireEvent[] = [];
  private texts: string[] = [];
  private reasonings: string[] = [];
  private inline: string[] = [];
  private inlineShown = false;
  private inlineBlocks = 0;
  private source: ReasoningSource | undefined;
  private lastUsage: Usage | null = null;
  private usageTold = true;
  private reason: FinishReason | undefined;
  private failure: FailureVerdict | undefined;
  private readonly blocks: ThinkingBlock[] = [];
  private readonly marks: AnswerMarks = {};
  private readonly calls: CallCollector;
  private readonly filter: ThinkFilter | undefined;
  private closed = false;
  private vectors: number[][] | undefined;

  constructor(private readonly options: ReadOptions) {
    this.calls = new CallCollector(
      (event) => this.events.push(event),
      options.newId ?? (() => `call_${crypto.randomUUID().replaceAll('-', '').slice(0, 24)}`),
    );
    if (options.inlineThink !== false) {
      this.filter = new ThinkFilter(
        {
          text: (piece) => this.addText(piece),
          think: (piece) => this.addInline(piece),
          thinkEnd: () => this.endInlineBlock(),
          loneClose: (tail, cut) => this.textWasReasoning(tail, cut),
        },
        options.thinkPrefilled,
      );
    }
  }

  /** True once nothing further can change the answer. */
  get isClosed(): boolean {
    return this.closed;
  }

  get hasFinishReason(): boolean {
    return this.reason !== undefined;
  }

  get usage(): Usage | null {
    return this.lastUsage;
  }

  /** True once there is text or a call to show. */
  get hasOutput(): boolean {
    return this.texts.length > 0 || this.calls.size > 0 || this.vectors !== undefined;
  }

  text(piece: string): void {
    if (piece === '' || this.closed) return;
    if (this.filter === undefined) this.addText(piece);
    else this.filter.push(piece);
  }

  reasoning(piece: string, source: ReasoningSource): void {
    if (piece === '' || this.closed) return;
    this.source ??= source;
    if (this.source !== source) return;
    this.filter?.splitElsewhere();
    this.addReasoning(piece);
  }

  thinkingBlock(block: ThinkingBlock): void {
    if (this.closed) return;
    this.blocks.push(block);
    this.events.push({ type: 'thinking_block', block });
  }

  call(fragments: readonly CallFragment[]): void {
    if (fragments.length === 0 || this.closed) return;
    this.filter?.callBegins();
    this.calls.addAll(fragments);
  }

  embeddings(vectors: number[][]): void {
    if (!this.closed) this.vectors = vectors;
  }

  setUsage(usage: Usage | null): void {
    if (usage === null || this.closed) return;
    this.lastUsage = usage;
    this.usageTold = false;
  }

  finishReason(value: unknown): void {
    if (typeof value !== 'string' || value === '' || this.closed) return;
    this.reason = mapFinishReason(value);
    if (this.reason === 'error')
      this.fail({ status: 200, body: { error: { type: value, message: 'the answer ended with an error' } } });
  }

  /** The provider said, or we found, that the answer is broken. */
  fail(failure: Failure): void {
    if (this.closed) return;
    const provider = this.options.provider;
    this.failWith(classifyFailure(provider === undefined ? failure : { provider, ...failure }));
  }

  failWith(verdict: FailureVerdict): void {
    if (this.closed) return;
    this.filter?.end();
    this.closed = true;
    this.failure = verdict;
    this.tellUsage();
    this.events.push({ type: 'error', failure: verdict });
  }

  /** The answer is over. Without a finish seen before it was cut, and that is an error. */
  close(complete: boolean): void {
    if (this.closed) return;
    if (!complete) {
      this.failWith({
        class: 'retry',
        reason: 'truncated',
        status: 200,
        text: 'the stream ended before the answer did',
      });
      return;
    }
    this.filter?.end();
    this.calls.finish();
    const reason = this.deriveReason();
    const empty = this.texts.length === 0 || this.texts.join('').trim() === '';
    const mayFallBack = this.options.reasoningFallback !== false && reason !== 'content_filter';
    // A block that the prompt opened and nothing closed: the model did not think this time, or thought in vain.
    const unsplit = this.inlineBlocks === 0 || (this.filter?.isInPrefilled === true && reason !== 'length');
    if (empty && mayFallBack && this.calls.size === 0 && unsplit && this.reasonings.length > 0) {
      this.marks.textFromReasoning = true;
      this.addText(this.reasonings.join(''));
    }
    this.reason = reason;
    this.closed = true;
    this.tellUsage();
    this.events.push({ type: 'finish', reason, marks: { ...this.marks } });
  }

  /** What is new since the last call. */
  take(): WireEvent[] {
    const events = this.events;
    if (events.length > 0) this.events = [];
    return events;
  }

  answer(): WireAnswer {
    const answer: WireAnswer = {
      text: this.texts.join(''),
      reasoning: this.reasonings.join(''),
      calls: this.failure === undefined ? this.calls.result() : [],
      finish_reason: this.failure !== undefined || !this.closed ? 'error' : (this.reason ?? 'stop'),
      usage: this.lastUsage,
      thinking_blocks: this.blocks,
      marks: { ...this.marks },
    };
    if (this.failure !== undefined) answer.error = this.failure;
    else if (this.vectors !== undefined) answer.embeddings = this.vectors;
    return answer;
  }

  private deriveReason(): FinishReason {
    const said = this.reason ?? 'stop';
    if (this.calls.size > 0) return said === 'stop' ? 'tool_calls' : said;
    return said === 'tool_calls' ? 'stop' : said;
  }

  private addText(piece: string): void {
    this.texts.push(piece);
    this.events.push({ type: 'text', text: piece });
  }

  private addReasoning(piece: string): void {
    this.reasonings.push(piece);
    this.events.push({ type: 'reasoning', text: piece });
  }

  private addInline(piece: string): void {
    this.inline.push(piece);
    // Beside a reasoning field the block may be its copy, which only its end can tell. Otherwise it is shown at once.
    if (this.source === undefined) this.showInline();
  }

  /** White space at both ends of a block is not shown; between blocks stands one line break. */
  private showInline(): void {
    const text = this.inline.join('');
    const body = this.inlineShown ? text : text.trimStart();
    const end = body.trimEnd();
    if (end === '') {
      this.inline = body === '' ? [] : [body];
      return;
    }
    this.inline = end.length === body.length ? [] : [body.slice(end.length)];
    this.addReasoning(this.inlineShown || this.reasonings.length === 0 ? end : `\n${end}`);
    this.inlineShown = true;
  }

  private endInlineBlock(): void {
    this.inlineBlocks++;
    this.marks.inlineThink = true;
    const block = squeeze(this.inline.join(''));
    if (block !== '' && !squeeze(this.reasonings.join('')).includes(block)) this.showInline();
    this.inline = [];
    this.inlineShown = false;
  }

  private textWasReasoning(tail: string, cut: number): void {
    this.inlineBlocks++;
    this.marks.inlineThink = true;
    const shown = this.texts.join('');
    const block = (shown.slice(0, shown.length - cut) + tail).trim();
    this.texts = [];
    const before = this.reasonings.join('');
    const known = before !== '' && squeeze(before).includes(squeeze(block));
    if (block !== '' && !known) this.reasonings.push(before === '' ? block : `\n${block}`);
    this.events.push({ type: 'text_was_reasoning', reasoning: this.reasonings.join('') });
  }

  private tellUsage(): void {
    if (this.usageTold || this.lastUsage === null) return;
    this.usageTold = true;
    this.events.push({ type: 'usage', usage: this.lastUsage });
  }
}

function squeeze(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
