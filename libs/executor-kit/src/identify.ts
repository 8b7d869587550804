import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { subjectToken, type TenantId, tenantId, type ToolCall, ToolCallSchema } from '@yardmaster/contracts';

/** What a result needs to be found by whoever waits for it. */
export type CallIdentity = Pick<ToolCall, 'runId' | 'callId' | 'argsHash' | 'historySeq' | 'nonce'> & {
  tenant: TenantId;
};

/** The identity of a call, if all of it can be part of a subject. */
export function identityOf(call: Omit<CallIdentity, 'tenant'>, tenant: string): CallIdentity | undefined {
  try {
    for (const token of [call.runId, call.callId, call.nonce]) subjectToken(token);
    const { runId, callId, argsHash, historySeq, nonce } = call;
    return { tenant: tenantId(tenant), runId, callId, argsHash, historySeq, nonce };
  } catch {
    return undefined;
  }
}

/**
 * As much of a call's identity as can be read from bytes (or JSON text) that are no whole ToolCall, so that its run
 * gets a failed result instead of waiting for one that never comes.
 */
export function salvage(data: Uint8Array, json: boolean): Omit<CallIdentity, 'tenant'> {
  const found = { runId: '', callId: '', argsHash: '', historySeq: 0n, nonce: '' };
  try {
    if (json) {
      const value = JSON.parse(new TextDecoder().decode(data)) as Record<string, unknown>;
      const text = (...names: string[]) =>
        names.map((name) => value[name]).find((field) => typeof field === 'string') ?? '';
      found.runId = text('runId', 'run_id');
      found.callId = text('callId', 'call_id');
      found.argsHash = text('argsHash', 'args_hash');
      found.nonce = text('nonce');
      const sequence = value['historySeq'] ?? value['history_seq'];
      if (/^\d{1,19}$/.test(String(sequence))) found.historySeq = BigInt(String(sequence));
      return found;
    }
    const { runId, callId, argsHash, historySeq, nonce } = ToolCallSchema.field;
    const reader = new BinaryReader(data);
    while (reader.pos < reader.len) {
      const [number, type] = reader.tag();
      if (type === WireType.LengthDelimited) {
        const text = new TextDecoder().decode(reader.bytes());
        if (number === runId.number) found.runId = text;
        else if (number === callId.number) found.callId = text;
        else if (number === argsHash.number) found.argsHash = text;
        else if (number === nonce.number) found.nonce = text;
      } else if (type === WireType.Varint && number === historySeq.number) found.historySeq = BigInt(reader.uint64());
      else reader.skip(type, number);
    }
  } catch {
    // What was read before the damage counts.
  }
  return found;
}
