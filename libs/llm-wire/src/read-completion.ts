import type { AnswerSink } from './answer-sink.js';
import { asObject, asText } from './json-value.js';
import { isErrorObject } from './read-chat.js';
import { readCompletionUsage } from './read-usage.js';

/** One event, or the body, of llama.cpp's raw `/completion`. Returns true when it ends the answer. */
export function readCompletionObject(value: unknown, sink: AnswerSink, isBody: boolean): boolean {
  const object = asObject(value);
  if (object === undefined) return false;
  if (typeof object['content'] !== 'string' && isErrorObject(object)) {
    sink.fail({ status: 200, body: object });
    return true;
  }
  sink.text(asText(object['content']));
  if (object['stop'] !== true && !(isBody && object['stop'] !== false && typeof object['content'] === 'string'))
    return false;
  sink.setUsage(readCompletionUsage(object));
  const limited = object['stop_type'] === 'limit' || object['stopped_limit'] === true || object['truncated'] === true;
  sink.finishReason(limited ? 'length' : 'stop');
  return true;
}
