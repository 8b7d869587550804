import { createHash } from 'node:crypto';
import { isServerId, type TenantId, tenantId, YardError } from '@yardmaster/contracts';

/** A conversation of a tenant: every key of it carries the hash tag `{tenant:conversation}`, so all lie in one slot. */
export interface ConversationRef {
  tenant: TenantId;
  conversation: string;
}

export interface RunRef extends ConversationRef {
  run: string;
}

const tag = (ref: ConversationRef) => `{${ref.tenant}:${checkedId(ref.conversation)}}`;

/** A run or conversation id as part of a key. Throws INVALID for anything that this server cannot have made. */
export function checkedId(id: string): string {
  if (!isServerId(id)) throw new YardError('INVALID', 'YM-ID', `"${id.slice(0, 60)}" is no run or conversation id.`);
  return id;
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** Every Redis key of this library; ids are checked, so the builders are injective. */
export const keys = {
  history: (ref: ConversationRef) => `ym:h:${tag(ref)}`,
  meta: (ref: ConversationRef) => `ym:m:${tag(ref)}`,
  toolSet: (tenant: TenantId, hash: string) => `ym:m:{${tenant}}:tools:${hash}`,
  queue: (ref: ConversationRef) => `ym:q:${tag(ref)}`,
  run: (ref: RunRef) => `ym:r:${tag(ref)}:${checkedId(ref.run)}`,
  runPrefix: (ref: ConversationRef) => `ym:r:${tag(ref)}:`,
  /** Which conversation of which tenant a run belongs to. */
  runIndex: (run: string) => `ym:ix:${checkedId(run)}`,
  tenantRuns: (tenant: TenantId) => `ym:t:{${tenant}}:runs`,
  tenantState: (tenant: TenantId, state: string) => `ym:t:{${tenant}}:s:${state}`,
  tenantAgent: (tenant: TenantId, agent: string) => `ym:t:{${tenant}}:a:${sha256(agent).slice(0, 16)}`,
  tenantConversation: (tenant: TenantId, conversation: string) => `ym:t:{${tenant}}:c:${checkedId(conversation)}`,
  conversations: (tenant: TenantId) => `ym:t:{${tenant}}:conversations`,
  /** Runs that the queue refused, first come first served. */
  waiting: (tenant: TenantId) => `ym:t:{${tenant}}:waiting`,
  /** Tenants that ever started a run, and those with waiting runs. */
  tenants: 'ym:t:all',
  waitingTenants: 'ym:t:all-waiting',
  idempotency: (tenant: TenantId, key: string) => `ym:idem:{${tenant}}:${sha256(key)}`,
  body: (tenant: TenantId, id: string) => `ym:b:{${tenant}}:${id}`,
  rate: (tenant: TenantId, name: string) => `ym:rate:{${tenant}}:${name}`,
  usage: (tenant: TenantId, window: string) => `ym:use:{${tenant}}:${window}`,
  timers: 'ym:timer:all',
  lead: (name: string) => `ym:lead:${name}`,
} as const;

/** The owner of a run as `runIndex` stores it. */
export const encodeOwner = (ref: ConversationRef) => `${ref.tenant}:${ref.conversation}`;

export function decodeOwner(text: string): ConversationRef {
  const at = text.indexOf(':');
  return { tenant: tenantId(text.slice(0, at)), conversation: text.slice(at + 1) };
}
