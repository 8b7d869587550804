import {
  create,
  type DescMessage,
  fromBinary,
  fromJson,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
  toBinary,
  toJsonString,
} from '@bufbuild/protobuf';
import type { Msg, MsgHdrs } from '@nats-io/transport-node';
import { HEADERS, YardError } from '@yardmaster/contracts';

const text = new TextDecoder('utf-8', { fatal: true });
const bytes = new TextEncoder();

/** The bytes of a message given as a plain object or as a message. */
export function encode<M extends DescMessage>(schema: M, message: MessageInitShape<M>): Uint8Array<ArrayBuffer> {
  return toBinary(schema, create(schema, message));
}

/** An answer that is encoded already: a handler that gives the same one often need not have it encoded each time. */
export class Encoded<M extends DescMessage> {
  constructor(
    readonly schema: M,
    readonly bytes: Uint8Array<ArrayBuffer>,
  ) {}

  static of<M extends DescMessage>(schema: M, message: MessageInitShape<M>): Encoded<M> {
    return new Encoded(schema, encode(schema, message));
  }
}

/** The JSON form, for executors that speak no protobuf (`Ym-Encoding: json`). */
export function encodeJson<M extends DescMessage>(schema: M, message: MessageInitShape<M>): Uint8Array<ArrayBuffer> {
  return bytes.encode(toJsonString(schema, create(schema, message)));
}

/**
 * The value of a header, by its exact name. What the client's own `get` leaves behind, lists of all names at each call,
 * was a quarter of the garbage of a service that answers much.
 */
export function headerOf({ headers }: Pick<Msg, 'headers'>, name: string): string | undefined {
  if (headers !== undefined) for (const [key, values] of headers) if (key === name) return values[0];
  return undefined;
}

/** Does this message carry the JSON form? */
export const isJson = (message: Pick<Msg, 'headers'>) => headerOf(message, HEADERS.encoding) === 'json';

/** The message in a payload, binary or JSON as its header says. Throws INVALID when it is neither. */
export function decode<M extends DescMessage>(schema: M, message: Pick<Msg, 'data' | 'headers'>): MessageShape<M> {
  try {
    if (!isJson(message)) return fromBinary(schema, message.data);
    return fromJson(schema, JSON.parse(text.decode(message.data)) as JsonValue, { ignoreUnknownFields: true });
  } catch (cause) {
    throw new YardError('INVALID', 'YM-UNDECODABLE', `The payload is no ${schema.typeName}.`, { cause });
  }
}

/** Headers that are written once and never read here: the client's own class copies them twice per message. */
export class HeaderBlock {
  readonly #encoded: Uint8Array;

  constructor(pairs: Iterable<readonly [string, string]>) {
    let block = 'NATS/1.0\r\n';
    for (const [name, value] of pairs) block += `${name}: ${value.replace(/[\r\n]+/g, ' ')}\r\n`;
    this.#encoded = bytes.encode(`${block}\r\n`);
  }

  encode(): Uint8Array {
    return this.#encoded;
  }

  /** As the client's type; its publish calls nothing but `encode`. */
  static of(pairs: Iterable<readonly [string, string]>): MsgHdrs {
    return new HeaderBlock(pairs) as unknown as MsgHdrs;
  }
}
