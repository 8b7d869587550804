import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { fromBinary } from '@bufbuild/protobuf';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, type TenantId, type Tool, ToolSchema } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

/** Shared tools live under this key prefix; tenant ids never begin with an underscore. */
const SHARED = '_';

/** The registered tools as this process sees them: a watched, immutable snapshot, so a look-up costs no message. */
@Injectable()
export class ToolSnapshot implements OnApplicationBootstrap {
  private snapshot: KvSnapshot<Tool> | undefined;

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
  }

  /** The active tool that `tenant` sees under `name`: its own first, then a shared one. */
  find(tenant: TenantId, name: string): Tool | undefined {
    const tools = this.snapshot?.current;
    const tool = tools?.get(`${tenant}.${name}`) ?? tools?.get(`${SHARED}.${name}`);
    return tool === undefined || tool.state === 'retired' ? undefined : tool;
  }

  /** All active tools that `tenant` sees, by name. */
  all(tenant: TenantId): Map<string, Tool> {
    const found = new Map<string, Tool>();
    for (const [key, tool] of this.snapshot?.current ?? []) {
      const owner = key.slice(0, key.indexOf('.'));
      if ((owner !== SHARED && owner !== tenant) || tool.state === 'retired') continue;
      if (owner === tenant || !found.has(tool.name)) found.set(tool.name, tool);
    }
    return found;
  }
}
