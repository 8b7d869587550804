import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { Registry, YardError } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import type { PendingCall } from '@yardmaster/conversation';
import { type CallOutcome, failed, type RoundContext } from './tool-round.js';

const REGISTRY_TIMEOUT_MS = 5_000;

/** The tools that are about tools: answered by the registry, needing no executor. */
@Injectable()
export class MetaTools {
  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async run(call: PendingCall, context: RoundContext): Promise<CallOutcome> {
    const started = performance.now();
    const args = JSON.parse(call.argumentsJson) as { query?: string; limit?: number; name?: string };
    try {
      const output =
        call.name === '__tool_search'
          ? await this.search(args.query ?? '', args.limit ?? 5, context)
          : await this.describe(args.name ?? '', context);
      return {
        ok: true,
        output,
        reason: '',
        durationMs: Math.round(performance.now() - started),
        verdictJson: '',
        outcomeUnknown: false,
      };
    } catch (error) {
      return failed(YardError.from(error).message, 'failed');
    }
  }

  private async search(query: string, limit: number, context: RoundContext): Promise<string> {
    const answer = await this.bus.request(
      Registry.search,
      context.tenant,
      { query, limit },
      { timeoutMs: REGISTRY_TIMEOUT_MS, signal: context.signal },
    );
    if (answer.hits.length === 0) return `No tool matches "${query}". Try other key words.`;
    return answer.hits.flatMap((hit) => (hit.tool ? [definitionOf(hit.tool)] : [])).join('\n');
  }

  private async describe(name: string, context: RoundContext): Promise<string> {
    const tool = await this.bus.request(
      Registry.get,
      context.tenant,
      { name },
      { timeoutMs: REGISTRY_TIMEOUT_MS, signal: context.signal },
    );
    return definitionOf(tool);
  }
}

function definitionOf(tool: { name: string; description: string; parametersJson: string }): string {
  return JSON.stringify({
    name: tool.name,
    description: tool.description,
    parameters: JSON.parse(tool.parametersJson) as unknown,
  });
}
