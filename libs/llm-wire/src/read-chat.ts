import type { AnswerSink } from './answer-sink.js';
import type { CallFragment } from './call-collector.js';
import { asArray, asObject, asText, isObject, type JsonObject } from './json-value.js';
import { readUsage } from './read-usage.js';

/** One event of a chat stream, or the body of a chat answer: both hold choices with a delta or a message. */
export function readChatObject(value: unknown, sink: AnswerSink): void {
  const object = asObject(Array.isArray(value) ? value[0] : value);
  if (object === undefined) return;
  readUsageOf(object, sink);
  const choice = firstChoice(object['choices']);
  if (isErrorObject(object)) {
    if (choice !== undefined) readContent(choice, sink);
    sink.fail({ status: 200, body: object });
    return;
  }
  if (choice === undefined) return;
  readContent(choice, sink);
  sink.setUsage(readUsage(choice['usage']));
  if (isObject(choice['error'])) sink.fail({ status: 200, body: choice });
  sink.finishReason(choice['finish_reason'] ?? asObject(choice['delta'])?.['finish_reason']);
}

function readUsageOf(object: JsonObject, sink: AnswerSink): void {
  sink.setUsage(readUsage(object['usage']) ?? readUsage(asObject(object['x_groq'])?.['usage']));
}

/** A body or event that tells of a failure, though its HTTP status was 200. */
export function isErrorObject(object: JsonObject): boolean {
  const error = object['error'];
  if (isObject(error) || (typeof error === 'string' && error !== '')) return true;
  if (object['type'] === 'error' || object['object'] === 'error') return true;
  const base = asObject(object['base_resp'])?.['status_code'];
  if (typeof base === 'number' && base !== 0) return true;
  // The flat form of some gateways: {code, message} and no answer at all.
  return object['choices'] === undefined && typeof object['message'] === 'string' && object['output'] === undefined;
}

/** The only choice that counts; others would be alternatives that nobody asked for. */
function firstChoice(choices: unknown): JsonObject | undefined {
  const list = asArray(choices).filter(isObject);
  return list.find((choice) => choice['index'] === undefined || choice['index'] === null || choice['index'] === 0);
}

function readContent(choice: JsonObject, sink: AnswerSink): void {
  const message = asObject(choice['delta']) ?? asObject(choice['message']);
  if (message === undefined) {
    sink.text(asText(choice['text']));
    return;
  }
  for (const field of ['reasoning_content', 'reasoning', 'thinking'] as const) {
    sink.reasoning(reasoningText(message[field]), field);
  }
  sink.reasoning(asArray(message['reasoning_details']).map(detailText).join(''), 'reasoning_details');
  const content = message['content'];
  if (typeof content === 'string') sink.text(content);
  else if (Array.isArray(content)) for (const part of content) readPart(part, sink);
  else if (isObject(content)) readPart(content, sink);
  if (typeof message['refusal'] === 'string' && (content === null || content === undefined || content === '')) {
    sink.text(message['refusal']);
  }
  const calls = asArray(message['tool_calls']).filter(isObject);
  if (calls.length > 0) sink.call(calls.map(toFragment));
  const legacy = asObject(message['function_call']);
  if (legacy !== undefined && calls.length === 0) sink.call([{ index: 0, ...functionOf(legacy) }]);
}

function readPart(part: unknown, sink: AnswerSink): void {
  if (typeof part === 'string') {
    sink.text(part);
    return;
  }
  if (!isObject(part)) return;
  const type = part['type'];
  if (type === 'text' || type === 'output_text') sink.text(asText(part['text']));
  else if (type === 'thinking' || type === 'reasoning') {
    sink.reasoning(reasoningText(part['thinking'] ?? part['reasoning'] ?? part['text'] ?? part['content']), 'part');
  }
}

/** Text, a list of text parts, or an object around one of them. */
function reasoningText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map((item) => (typeof item === 'string' ? item : detailText(item))).join('');
  return isObject(value) ? asText(value['text'] ?? value['content']) : '';
}

function detailText(detail: unknown): string {
  return isObject(detail) ? asText(detail['text'] ?? detail['summary'] ?? detail['thinking']) : '';
}

function toFragment(call: JsonObject): CallFragment {
  const fragment: CallFragment = functionOf(asObject(call['function']) ?? call);
  if (typeof call['index'] === 'number') fragment.index = call['index'];
  if (typeof call['id'] === 'string') fragment.id = call['id'];
  else if (typeof call['id'] === 'number') fragment.id = String(call['id']);
  return fragment;
}

function functionOf(value: JsonObject): CallFragment {
  const fragment: CallFragment = { arguments: value['arguments'] ?? value['parameters'] ?? value['input'] };
  if (typeof value['name'] === 'string') fragment.name = value['name'];
  return fragment;
}
