import type { AnswerSink } from './answer-sink.js';
import { asArray, asObject, asText, isObject, type JsonObject } from './json-value.js';
import { isErrorObject } from './read-chat.js';
import { readUsage } from './read-usage.js';

/** The body of an `/embeddings` answer: one vector for each input, whatever their order in the body. */
export function readEmbeddings(value: unknown, sink: AnswerSink): void {
  const object = asObject(value);
  if (object === undefined) return;
  sink.setUsage(readUsage(object['usage']));
  if (isErrorObject(object)) {
    sink.fail({ status: 200, body: object });
    return;
  }
  const rows = asArray(object['data']).filter(isObject);
  const vectors = rows
    .map((row, at) => ({ at: typeof row['index'] === 'number' ? row['index'] : at, vector: vectorOf(row) }))
    .sort((a, b) => a.at - b.at)
    .map(({ vector }) => vector);
  if (vectors.length > 0 && vectors.every((vector) => vector.length > 0)) sink.embeddings(vectors);
}

/** Numbers, or the little-endian 32-bit floats that some servers send as base64. */
function vectorOf(row: JsonObject): number[] {
  const value = row['embedding'];
  if (Array.isArray(value)) return value.every((one) => typeof one === 'number') ? value : [];
  const text = asText(value);
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0) return [];
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, i) => view.getFloat32(4 * i, true));
}
