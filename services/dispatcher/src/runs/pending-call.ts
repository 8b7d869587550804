import { createHash, randomBytes } from 'node:crypto';
import type { Effect } from '@yardmaster/contracts';

/** A call that was made and not answered yet, as the run record keeps it: enough to publish it again after a crash. */
export interface PendingCall {
  /** `<step>-<index>`: the identity of the call within its run. */
  id: string;
  /** The id that the provider knows (its own, or ours where the dialect has none). */
  providerId: string;
  name: string;
  kind: string;
  effect: Effect;
  category: string;
  timeoutMs: number;
  toolHash: string;
  dispatchJson: string;
  /** Arguments after coercion, as JSON text. */
  argumentsJson: string;
  argsHash: string;
  /** History sequence of the assistant message that made the call. */
  historySeq: number;
  /** Part of the result's subject; only the executor that was asked knows it. */
  nonce: string;
  approval?: 'needed' | 'approved' | 'denied';
  approvalReason?: string;
  /** Set where the call has its answer without an executor: it could not be read, is unknown, was refused. */
  answer?: { ok: boolean; output: string; reason: string };
}

export const newNonce = () => randomBytes(16).toString('hex');

/** Canonical JSON: keys sorted at every level, so that equal arguments have one text. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`).join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

/** SHA-256 (hex) of the canonical arguments. */
export const argsHashOf = (args: unknown) => createHash('sha256').update(canonicalJson(args)).digest('hex');
