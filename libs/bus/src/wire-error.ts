import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { ERROR_CLASSES, type ErrorClass, type WireError, WireErrorSchema, YardError } from '@yardmaster/contracts';

/** The message form of any error; the text of a fault that is not a YardError stays here. */
export function toWireError(thrown: unknown): WireError {
  const error = YardError.from(thrown);
  return create(WireErrorSchema, {
    class: error.class,
    code: error.code,
    message: error.message,
    retryAfterMs: error.retryAfterMs ?? 0,
    detailsJson: error.details === undefined ? '' : detailsText(error.details),
  });
}

export const encodeError = (thrown: unknown): Uint8Array<ArrayBuffer> => toBinary(WireErrorSchema, toWireError(thrown));

/** The error that a peer sent; a class that this version does not know becomes INTERNAL. */
export function fromWireError(wire: WireError): YardError {
  const errorClass = Object.hasOwn(ERROR_CLASSES, wire.class) ? (wire.class as ErrorClass) : 'INTERNAL';
  const details = parseDetails(wire.detailsJson);
  return new YardError(errorClass, wire.code || 'YM-INTERNAL', wire.message, {
    ...(wire.retryAfterMs > 0 && { retryAfterMs: wire.retryAfterMs }),
    ...(details && { details }),
  });
}

export function decodeError(bytes: Uint8Array): YardError {
  try {
    return fromWireError(fromBinary(WireErrorSchema, bytes));
  } catch (cause) {
    return new YardError('INTERNAL', 'YM-BAD-ERROR', 'The peer answered with an error that cannot be read.', { cause });
  }
}

/** Details are an extra: what does not survive JSON is left out rather than losing the error itself. */
function detailsText(details: Record<string, unknown>): string {
  try {
    return JSON.stringify(details);
  } catch {
    return '';
  }
}

function parseDetails(text: string): Record<string, unknown> | undefined {
  if (text === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
