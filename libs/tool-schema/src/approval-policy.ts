import { type ApprovalGrant, grantProblem } from './approval-grant.js';

export type ToolCategory = 'read' | 'write' | 'execute' | 'network';

/** How often someone has to agree: never, once in a session, every time; or the tool may not be called at all. */
export type ApprovalLevel = 'auto' | 'session' | 'always' | 'deny';

/** What has to be known of a tool to decide about a call of it. */
export interface ApprovalSubject {
  name: string;
  /** Anything but the four known categories is taken for `execute`. */
  category: string;
  /** SHA-256 of the definition; grants are bound to it. */
  definitionHash: string;
  /** What whoever registered the tool asks for, whatever the category says; it may only raise the level. */
  approval?: ApprovalLevel;
  annotations?: { readOnly?: boolean; destructive?: boolean; openWorld?: boolean };
  /** Annotations of a server that nobody vouched for may only raise the level. */
  annotationsTrusted?: boolean;
}

/** What a tenant decided; levels of tools go before levels of categories. */
export interface ApprovalPolicy {
  byCategory?: Partial<Record<ToolCategory, ApprovalLevel>>;
  byTool?: Readonly<Record<string, ApprovalLevel>>;
}

export interface ApprovalRequest {
  tool: ApprovalSubject;
  /** The arguments as they will be executed, coerced. */
  args: Record<string, unknown>;
  tenant: string;
  principal: string;
  session: string;
  /** Undefined when the policy could not be read. */
  policy: ApprovalPolicy | undefined;
  /** Tools that an administrator forbade. */
  denied?: Iterable<string>;
  /** Undefined when the grants could not be read. */
  grants: Iterable<ApprovalGrant> | undefined;
  /** Whether someone can be asked. */
  canAsk: boolean;
  /** Milliseconds since 1970. */
  now: number;
}

/** What happens to a call, and why: all of it belongs into the audit record. */
export interface ApprovalDecision {
  decision: 'allow' | 'ask' | 'deny';
  level: ApprovalLevel;
  reason: string;
  /** The grant that allowed it. */
  grant?: string;
}

const BY_CATEGORY: Readonly<Record<ToolCategory, ApprovalLevel>> = {
  read: 'auto',
  write: 'session',
  execute: 'always',
  network: 'session',
};
const ORDER: readonly ApprovalLevel[] = ['auto', 'session', 'always', 'deny'];

/**
 * Whether a call may run. Fails closed: what cannot be read, is not known or cannot be asked is a no. An
 * administrator's no goes above every grant.
 */
export function decideApproval(request: ApprovalRequest): ApprovalDecision {
  const { tool, policy, grants } = request;
  if ([...(request.denied ?? [])].includes(tool.name)) {
    return { decision: 'deny', level: 'deny', reason: 'an administrator forbids this tool' };
  }
  if (!policy) return { decision: 'deny', level: 'deny', reason: 'the approval policy cannot be read' };
  const level = approvalLevel(tool, policy);
  if (level === 'deny') return { decision: 'deny', level, reason: 'the policy forbids this tool' };
  if (level === 'auto') return { decision: 'allow', level, reason: `${tool.category} needs no approval` };
  if (!grants) return { decision: 'deny', level, reason: 'the grants cannot be read' };

  // One yes for everything is not enough where every call differs: commands, and hosts that are talked to.
  const narrow = level === 'always' || categoryOf(tool) === 'network';
  const problems: string[] = [];
  for (const grant of grants) {
    if (grant.tool !== tool.name) continue;
    const problem = grantProblem(grant, request, narrow);
    if (problem === undefined) return { decision: 'allow', level, reason: 'granted before', grant: grant.id };
    problems.push(`grant ${grant.id}: ${problem}`);
  }
  const why = problems.length > 0 ? `; ${problems.slice(0, 5).join('; ')}` : '';
  if (!request.canAsk) return { decision: 'deny', level, reason: `needs approval and nobody can be asked${why}` };
  return { decision: 'ask', level, reason: `needs approval${why}` };
}

/** Whether a tenant's models are shown the tool at all. */
export function isHidden(tool: ApprovalSubject, policy: ApprovalPolicy, denied: Iterable<string> = []): boolean {
  return [...denied].includes(tool.name) || approvalLevel(tool, policy) === 'deny';
}

/** How often someone has to agree to calls of a tool. */
export function approvalLevel(tool: ApprovalSubject, policy: ApprovalPolicy): ApprovalLevel {
  const category = categoryOf(tool);
  const { readOnly, destructive, openWorld } = tool.annotations ?? {};
  const chosen = ownLevel(policy.byTool, tool.name) ?? ownLevel(policy.byCategory, category);
  let level = chosen ?? BY_CATEGORY[category];
  // A tenant's own word is not lowered by what a server says about itself, trusted or not.
  if (chosen === undefined && tool.annotationsTrusted && readOnly && category === 'write') level = BY_CATEGORY.read;
  if (destructive) level = higher(level, tool.annotationsTrusted ? 'session' : 'always');
  if (openWorld && category !== 'network') level = higher(level, 'session');
  return tool.approval === undefined ? level : higher(level, known(tool.approval));
}

function categoryOf(tool: ApprovalSubject): ToolCategory {
  return tool.category in BY_CATEGORY ? (tool.category as ToolCategory) : 'execute';
}

function ownLevel(levels: Readonly<Record<string, ApprovalLevel>> | undefined, key: string): ApprovalLevel | undefined {
  return levels && Object.hasOwn(levels, key) ? known(levels[key]) : undefined;
}

/** A level that nobody knows is a no. */
function known(level: unknown): ApprovalLevel {
  return ORDER.includes(level as ApprovalLevel) ? (level as ApprovalLevel) : 'deny';
}

function higher(a: ApprovalLevel, b: ApprovalLevel): ApprovalLevel {
  return ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b;
}
