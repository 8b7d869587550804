import type { TenantId } from './ids.js';

const LEVELS = ['auto', 'session', 'always', 'deny'] as const;
/** How often a person has to agree to calls: never, once in a conversation, every time; or they may not be made. */
export type ApprovalLevelName = (typeof LEVELS)[number];

const CATEGORIES = ['read', 'write', 'execute', 'network'] as const;

/** What a tenant decided about approvals; what is absent is as the platform's configuration says. */
export interface TenantApprovals {
  by_category: Partial<Record<(typeof CATEGORIES)[number], ApprovalLevelName>>;
  /** Goes before the level of the category. */
  by_tool: Record<string, ApprovalLevelName>;
  /** Tools that nobody may call and no model is shown, whatever was granted. */
  denied: string[];
  /** Is there anybody to ask? Without, what would be asked is denied. */
  can_ask: boolean;
}

export const NO_TENANT_APPROVALS: TenantApprovals = { by_category: {}, by_tool: {}, denied: [], can_ask: true };

/** Key of a tenant's approvals in the bucket of tenants. */
export const tenantApprovalsName = (tenant: TenantId) => `${tenant}.approvals`;

/**
 * The approvals in an entry of the bucket of tenants; undefined for an entry of another kind, `unreadable` for one that
 * is not what it should be: then nothing may be called that needs a decision.
 */
export function readTenantApprovals(value: Uint8Array, name: string): TenantApprovals | 'unreadable' | undefined {
  if (!name.endsWith('.approvals') || name.split('.').length !== 2) return undefined;
  try {
    const stored: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value));
    return isTenantApprovals(stored) ? { ...NO_TENANT_APPROVALS, ...stored } : 'unreadable';
  } catch {
    return 'unreadable';
  }
}

/** Is it a policy? A level or a category that nobody knows makes it none. */
export function isTenantApprovals(value: unknown): value is Partial<TenantApprovals> {
  if (!isRecord(value)) return false;
  const { by_category = {}, by_tool = {}, denied = [], can_ask = true, ...others } = value;
  return (
    Object.keys(others).length === 0 &&
    isRecord(by_category) &&
    Object.entries(by_category).every(([key, level]) => isCategory(key) && isLevel(level)) &&
    isRecord(by_tool) &&
    Object.values(by_tool).every(isLevel) &&
    Array.isArray(denied) &&
    denied.every((tool) => typeof tool === 'string') &&
    typeof can_ask === 'boolean'
  );
}

const isLevel = (value: unknown) => (LEVELS as readonly unknown[]).includes(value);
const isCategory = (value: string) => (CATEGORIES as readonly string[]).includes(value);
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
