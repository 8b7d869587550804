import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import {
  BUCKETS,
  NO_TENANT_APPROVALS,
  readTenantApprovals,
  type TenantApprovals,
  tenantApprovalsName,
  type TenantId,
  type Tool,
  type ToolCategory,
} from '@yardmaster/contracts';
import { BUS, PlatformConfigFile } from '@yardmaster/service-kit';
import { type ApprovalLevel, type ApprovalPolicy, type ApprovalSubject, isHidden } from '@yardmaster/tool-schema';

const CATEGORIES: readonly ToolCategory[] = ['read', 'write', 'execute', 'network'];
/** What `ask` in the configuration means: as often as makes sense for what calls of the category can do. */
const ASK: Readonly<Record<ToolCategory, ApprovalLevel>> = {
  read: 'always',
  write: 'session',
  execute: 'always',
  network: 'session',
};

/** What holds for one tenant at one moment. */
export interface PolicyNow {
  /** Undefined when it cannot be read: then nothing is allowed that needs a decision. */
  policy: ApprovalPolicy | undefined;
  denied: readonly string[];
  canAsk: boolean;
}

/** The platform's approvals with those of the tenant on top. A category that the platform denies stays denied. */
@Injectable()
export class TenantPolicies implements OnApplicationBootstrap {
  private snapshot: KvSnapshot<TenantApprovals | 'unreadable' | undefined> | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly platform: PlatformConfigFile,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(BUCKETS.tenants, readTenantApprovals);
  }

  of(tenant: TenantId): PolicyNow {
    const own =
      this.snapshot === undefined
        ? 'unreadable'
        : (this.snapshot.get(tenantApprovalsName(tenant)) ?? NO_TENANT_APPROVALS);
    if (own === 'unreadable') return { policy: undefined, denied: [], canAsk: false };
    const configured = this.platform.current.approvals;
    const byCategory: Partial<Record<ToolCategory, ApprovalLevel>> = {};
    for (const category of CATEGORIES) {
      const platform = configured[category] ?? 'allow';
      const level = platform === 'allow' ? 'auto' : platform === 'ask' ? ASK[category] : 'deny';
      byCategory[category] = level === 'deny' ? 'deny' : (own.by_category[category] ?? level);
    }
    return {
      policy: { byCategory, byTool: own.by_tool },
      denied: own.denied,
      canAsk: own.can_ask,
    };
  }

  /** Does the operator forbid the category of this tool? Then no word of a tenant about the tool opens it. */
  forbids(tool: Tool): boolean {
    return this.platform.current.approvals[categoryOf(tool)] === 'deny';
  }

  /** Is the tool kept from the models of this tenant? */
  hides(tenant: TenantId, tool: Tool): boolean {
    const { policy, denied } = this.of(tenant);
    return this.forbids(tool) || (policy !== undefined && isHidden(subjectOf(tool), policy, denied));
  }
}

const categoryOf = (tool: Tool): ToolCategory =>
  CATEGORIES.includes(tool.category as ToolCategory) ? (tool.category as ToolCategory) : 'execute';

/** What the decision about a call has to know of its tool. */
export function subjectOf(tool: Tool): ApprovalSubject {
  return {
    name: tool.name,
    category: tool.category,
    definitionHash: tool.hash,
    ...(tool.alwaysAsk ? { approval: 'always' as const } : {}),
    ...(tool.annotationsJson === ''
      ? {}
      : { annotations: JSON.parse(tool.annotationsJson) as NonNullable<ApprovalSubject['annotations']> }),
    annotationsTrusted: tool.annotationsTrusted,
  };
}
