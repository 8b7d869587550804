import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type StreamFrame, StreamFrameSchema } from '@yardmaster/contracts';

/**
 * The StreamFrame `{n, data}`, written by hand: it wraps every piece of every answer, and its two fields are a number
 * and bytes, so the general encoder (which copies the data twice) would cost more than the frame within.
 */
export function encodeDataFrame(n: number, data: Uint8Array): Uint8Array {
  const size = 2 + varintLength(n) + varintLength(data.length) + data.length;
  const bytes = new Uint8Array(size);
  bytes[0] = 0x08; // field 1, varint
  let at = writeVarint(bytes, 1, n);
  bytes[at++] = 0x12; // field 2, length-delimited
  at = writeVarint(bytes, at, data.length);
  bytes.set(data, at);
  return bytes;
}

export function encodeFrame(n: number, kind: StreamFrame['kind']): Uint8Array {
  return toBinary(StreamFrameSchema, create(StreamFrameSchema, { n, kind }));
}

/** Any frame; the common one (`n`, then data to the end) without the general decoder. Throws when it is none. */
export function decodeFrame(bytes: Uint8Array): { n: number; kind: StreamFrame['kind'] } {
  if (bytes[0] === 0x08) {
    const [n, afterN] = readVarint(bytes, 1);
    if (bytes[afterN] === 0x12) {
      const [length, start] = readVarint(bytes, afterN + 1);
      if (start + length === bytes.length) return { n, kind: { case: 'data', value: bytes.subarray(start) } };
    }
  }
  return fromBinary(StreamFrameSchema, bytes);
}

function varintLength(value: number): number {
  let length = 1;
  for (; value >= 0x80; value = Math.floor(value / 0x80)) length++;
  return length;
}

function writeVarint(bytes: Uint8Array, at: number, value: number): number {
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes[at++] = (value % 0x80) | 0x80;
  bytes[at++] = value;
  return at;
}

function readVarint(bytes: Uint8Array, at: number): [value: number, next: number] {
  let value = 0;
  for (let factor = 1; factor <= 2 ** 28; factor *= 0x80) {
    const byte = bytes[at++];
    if (byte === undefined) break;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return [value, at];
  }
  return [-1, at];
}
