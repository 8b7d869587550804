import { AnswerSink } from './answer-sink.js';
import { tryParse } from './json-value.js';
import { AnthropicReader } from './read-anthropic.js';
import { readChatObject } from './read-chat.js';
import { readCompletionObject } from './read-completion.js';
import { readEmbeddings } from './read-embeddings.js';
import { ResponsesReader } from './read-responses.js';
import { FramingError, SseDecoder } from './sse-lines.js';
import {
  BODY_CAP_BYTES,
  LINE_CAP_BYTES,
  type ReadOptions,
  type Usage,
  type WireAnswer,
  type WireEvent,
  type WireFamily,
} from './wire-types.js';

/** Reads what one family sends; `event` returns true when the protocol says that the answer is over. */
interface Reader {
  event(value: unknown, name: string): boolean;
  body(value: unknown): void;
  /** Whether a finish reason alone makes an answer whole, or only the protocol's last event. */
  finishReasonSuffices: boolean;
}

function readerOf(family: WireFamily, sink: AnswerSink, { maxTokens }: ReadOptions): Reader {
  switch (family) {
    case 'openai-chat':
      return {
        event: (value) => (readChatObject(value, sink), false),
        body: (value) => readChatObject(value, sink),
        finishReasonSuffices: true,
      };
    case 'openai-responses': {
      const reader = new ResponsesReader(sink, maxTokens);
      return {
        event: (value, name) => reader.onEvent(value, name),
        body: (value) => reader.onBody(value),
        finishReasonSuffices: true,
      };
    }
    case 'anthropic-messages': {
      const reader = new AnthropicReader(sink);
      return {
        event: (value, name) => reader.onEvent(value, name),
        body: (value) => reader.onBody(value),
        finishReasonSuffices: false,
      };
    }
    case 'llamacpp-completion':
      return {
        event: (value) => readCompletionObject(value, sink, false),
        body: (value) => void readCompletionObject(value, sink, true),
        finishReasonSuffices: true,
      };
    case 'openai-embeddings':
      return {
        event: () => false,
        body: (value) => readEmbeddings(value, sink),
        finishReasonSuffices: true,
      };
  }
}

/**
 * The answer of one provider as it comes from the socket, in pieces cut anywhere. Never throws; a stream that ends
 * before its answer does ends as an error, whatever it brought.
 */
export class WireStream {
  private readonly sink: AnswerSink;
  private readonly reader: Reader;
  private readonly sse: SseDecoder;
  private readonly bodyCap: number;
  private readonly bodyDecoder = new TextDecoder();
  private body: string[] | undefined;
  private sniffed = false;
  private bytes = 0;
  private done = false;
  private skippedEvents = 0;

  constructor(family: WireFamily, options: ReadOptions = {}) {
    this.sink = new AnswerSink(options);
    this.reader = readerOf(family, this.sink, options);
    this.bodyCap = options.bodyCapBytes ?? BODY_CAP_BYTES;
    this.sse = new SseDecoder((data, event) => this.onData(data, event), options.lineCapBytes ?? LINE_CAP_BYTES);
  }

  /** True once the protocol's last event has come: the socket need not be read any further. */
  get isDone(): boolean {
    return this.done || this.sink.isClosed;
  }

  /** True once a finish reason has come; the rest can only be usage. */
  get hasFinishReason(): boolean {
    return this.sink.hasFinishReason;
  }

  /** The usage told so far, also of an answer that breaks off. */
  get usage(): Usage | null {
    return this.sink.usage;
  }

  /** True once there is text or a call. */
  get hasOutput(): boolean {
    return this.sink.hasOutput;
  }

  /** Events whose data was no JSON; they were skipped. */
  get skipped(): number {
    return this.skippedEvents;
  }

  push(bytes: Uint8Array): WireEvent[] {
    if (this.isDone) return this.sink.take();
    this.bytes += bytes.byteLength;
    if (this.bytes > this.bodyCap) {
      this.sink.failWith({
        class: 'next_provider',
        reason: 'rejected',
        status: 200,
        text: 'the answer is larger than the cap',
      });
      return this.sink.take();
    }
    if (!this.sniffed) this.sniff(bytes);
    if (this.body !== undefined) {
      this.body.push(this.bodyDecoder.decode(bytes, { stream: true }));
      return [];
    }
    try {
      this.sse.push(bytes);
    } catch (error) {
      if (!(error instanceof FramingError)) throw error;
      this.sink.failWith({ class: 'next_provider', reason: 'rejected', status: 200, text: error.message });
    }
    return this.sink.take();
  }

  /** The socket is closed, orderly or not: what is there now is all there is. */
  end(): WireEvent[] {
    if (this.sink.isClosed) return this.sink.take();
    if (this.body !== undefined) {
      this.body.push(this.bodyDecoder.decode());
      this.readBody(this.body.join(''));
      return this.sink.take();
    }
    if (!this.done) {
      try {
        this.sse.end();
      } catch (error) {
        if (!(error instanceof FramingError)) throw error;
      }
    }
    this.sink.close(this.done || (this.reader.finishReasonSuffices && this.sink.hasFinishReason));
    return this.sink.take();
  }

  /** Everything so far; with `error` set unless the answer ended well. */
  answer(): WireAnswer {
    return this.sink.answer();
  }

  /** For `normaliseBody`: the text is a whole body, not a stream. */
  readBody(text: string): void {
    const value = tryParse(text.replace(/^\uFEFF/, '').trim());
    if (value === undefined) {
      this.sink.failWith({ class: 'retry', reason: 'truncated', status: 200, text: 'the body is no JSON' });
      return;
    }
    this.reader.body(value);
    this.sink.close(this.sink.hasFinishReason || this.sink.hasOutput);
  }

  /** A provider without streaming answers a stream request with one JSON body. */
  private sniff(bytes: Uint8Array): void {
    for (const byte of bytes) {
      // White space and the bytes of a BOM say nothing yet.
      if (byte === 32 || byte === 10 || byte === 13 || byte === 9 || byte === 0xef || byte === 0xbb || byte === 0xbf)
        continue;
      this.sniffed = true;
      if (byte === 0x7b || byte === 0x5b) this.body = [];
      return;
    }
  }

  private onData(data: string, event: string): void {
    if (this.isDone) return;
    const text = data.trim();
    if (text === '[DONE]') {
      this.done = true;
      return;
    }
    const value = tryParse(text);
    if (value !== undefined) {
      this.onValue(value, event);
      return;
    }
    // Servers that forget the blank line make several events look like one.
    let found = false;
    if (text.includes('\n')) {
      for (const line of text.split('\n')) {
        const one = line.trim();
        if (one === '[DONE]') this.done = true;
        const lineValue = one === '' || this.isDone ? undefined : tryParse(one);
        if (lineValue === undefined) continue;
        found = true;
        this.onValue(lineValue, event);
      }
    }
    if (found) return;
    if (event === 'error') this.sink.fail({ status: 200, body: text });
    else this.skippedEvents++;
  }

  private onValue(value: unknown, event: string): void {
    if (this.isDone) return;
    if (event === 'error') {
      this.sink.fail({ status: 200, body: value });
      return;
    }
    if (this.reader.event(value, event)) this.done = true;
  }
}

/** A whole answer that did not come as a stream; never throws. */
export function normaliseBody(family: WireFamily, text: string, options: ReadOptions = {}): WireAnswer {
  const stream = new WireStream(family, options);
  if (text.length > (options.bodyCapBytes ?? BODY_CAP_BYTES)) {
    stream.push(new Uint8Array(0));
    return {
      ...stream.answer(),
      error: { class: 'next_provider', reason: 'rejected', status: 200, text: 'the answer is larger than the cap' },
    };
  }
  stream.readBody(text);
  return stream.answer();
}
