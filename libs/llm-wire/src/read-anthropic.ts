import type { AnswerSink } from './answer-sink.js';
import { asArray, asObject, asText, isObject, type JsonObject } from './json-value.js';
import { readAnthropicUsage } from './read-usage.js';
import type { ThinkingBlock } from './wire-types.js';

interface OpenBlock {
  type: string;
  thinking: string[];
  signature: string;
  call: number;
}

/** Reads the Anthropic Messages API: a body, or its stream of content blocks. */
export class AnthropicReader {
  private readonly open = new Map<unknown, OpenBlock>();
  private calls = 0;

  constructor(private readonly sink: AnswerSink) {}

  /** Returns true when the event ends the answer. */
  onEvent(value: unknown, event: string): boolean {
    const object = asObject(value);
    if (object === undefined) return false;
    switch (asText(object['type']) || event) {
      case 'message_start':
        this.sink.setUsage(readAnthropicUsage(asObject(object['message'])?.['usage'], this.sink.usage));
        return false;
      case 'content_block_start':
        this.startBlock(object['index'], asObject(object['content_block']) ?? {});
        return false;
      case 'content_block_delta':
        this.delta(object['index'], asObject(object['delta']) ?? {});
        return false;
      case 'content_block_stop':
        this.stopBlock(object['index']);
        return false;
      case 'message_delta':
        this.sink.setUsage(readAnthropicUsage(object['usage'], this.sink.usage));
        this.sink.finishReason(asObject(object['delta'])?.['stop_reason']);
        return false;
      case 'message_stop':
        return true;
      case 'error':
        this.sink.fail({ status: 200, body: object });
        return true;
      case 'message':
        this.onBody(object);
        return true;
      default:
        if (isObject(object['error'])) {
          this.sink.fail({ status: 200, body: object });
          return true;
        }
        return false;
    }
  }

  onBody(value: unknown): void {
    const message = asObject(Array.isArray(value) ? value[0] : value);
    if (message === undefined) return;
    if (message['type'] === 'error' || isObject(message['error'])) {
      this.sink.fail({ status: 200, body: message });
      return;
    }
    this.sink.setUsage(readAnthropicUsage(message['usage'], this.sink.usage));
    asArray(message['content']).forEach((block, index) => {
      if (!isObject(block)) return;
      this.startBlock(index, block);
      this.stopBlock(index);
    });
    this.sink.finishReason(message['stop_reason']);
  }

  private startBlock(index: unknown, block: JsonObject): void {
    const type = asText(block['type']);
    const open: OpenBlock = { type, thinking: [], signature: asText(block['signature']), call: -1 };
    this.open.set(index, open);
    if (type === 'text') this.sink.text(asText(block['text']));
    else if (type === 'thinking') this.think(open, asText(block['thinking']));
    else if (type === 'redacted_thinking')
      this.sink.thinkingBlock({ type: 'redacted_thinking', data: asText(block['data']) });
    else if (type === 'tool_use') {
      open.call = this.calls++;
      const input = asObject(block['input']);
      // A stream starts with an empty input and sends the text; a body holds the whole.
      const whole = input !== undefined && Object.keys(input).length > 0 ? input : undefined;
      this.sink.call([{ index: open.call, id: asText(block['id']), name: asText(block['name']), arguments: whole }]);
    }
  }

  private delta(index: unknown, delta: JsonObject): void {
    const open = this.open.get(index);
    if (open === undefined) return;
    const type = delta['type'];
    if (type === 'text_delta') this.sink.text(asText(delta['text']));
    else if (type === 'thinking_delta') this.think(open, asText(delta['thinking']));
    else if (type === 'signature_delta') open.signature += asText(delta['signature']);
    else if (type === 'input_json_delta' && open.call >= 0) {
      this.sink.call([{ index: open.call, arguments: asText(delta['partial_json']) }]);
    }
  }

  private think(open: OpenBlock, text: string): void {
    open.thinking.push(text);
    this.sink.reasoning(text, 'thinking');
  }

  private stopBlock(index: unknown): void {
    const open = this.open.get(index);
    this.open.delete(index);
    if (open?.type !== 'thinking') return;
    const block: ThinkingBlock = { type: 'thinking', thinking: open.thinking.join('') };
    if (open.signature !== '') block.signature = open.signature;
    this.sink.thinkingBlock(block);
  }
}
