import type { MessageInitShape } from '@bufbuild/protobuf';
import { Injectable } from '@nestjs/common';
import {
  type ListToolsResponseSchema,
  MCP_KIND,
  type ResolveResponseSchema,
  type SearchToolsResponseSchema,
  type TenantId,
  type Tool,
  type ValidateResponseSchema,
  YardError,
} from '@yardmaster/contracts';
import { SEARCH_LIMIT } from '@yardmaster/tool-render';
import { checkArguments, type JsonSchema, nearestName } from '@yardmaster/tool-schema';
import { ToolCatalogue } from './tool-catalogue.js';
import { problemsOf } from './tool-rules.js';

const PAGE = 1000;
const MOST_HITS = 50;

/** What can be asked about tools, and what it takes to register one. */
@Injectable()
export class ToolsService {
  constructor(private readonly catalogue: ToolCatalogue) {}

  /** All tools that a tenant sees, in the order of their names: what a model is shown plays no part here. */
  list(tenant: TenantId, cursor: string, limit: number): MessageInitShape<typeof ListToolsResponseSchema> {
    const all = [...this.catalogue.visible(tenant).values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    const from = cursor === '' ? 0 : all.findIndex((tool) => tool.name > cursor);
    const size = limit === 0 ? PAGE : Math.min(limit, PAGE);
    const tools = from < 0 ? [] : all.slice(from, from + size);
    return {
      tools,
      nextCursor: from >= 0 && from + size < all.length ? tools.at(-1)!.name : '',
      revision: BigInt(this.catalogue.revision),
    };
  }

  get(tenant: TenantId, name: string): Tool {
    return this.catalogue.visible(tenant).get(`__${name}`) ?? this.catalogue.get(tenant, name);
  }

  /** Registers a tenant's tool. Throws INVALID with everything that is wrong, each with its code. */
  async put(tenant: TenantId, tool: Tool | undefined): Promise<Tool> {
    if (tool === undefined) throw new YardError('INVALID', 'YM-TOOL-INVALID', 'The request has no tool.');
    const problems = await problemsOf(tool, this.catalogue.visible(tenant), tenant);
    if (tool.kind === MCP_KIND)
      problems.push({ code: 'bad_field', message: 'kind: "mcp" is for tools of MCP servers (/v1/mcp-servers)' });
    if (problems.length > 0)
      throw new YardError(
        'INVALID',
        'YM-TOOL-INVALID',
        `The tool cannot be registered: ${problems.map(({ message }) => message).join('; ')}.`,
        {
          details: {
            name: tool.name.slice(0, 128),
            codes: [...new Set(problems.map(({ code }) => code))],
            problems: problems.map(({ message }) => message),
          },
        },
      );
    return this.catalogue.put(tenant, tool);
  }

  delete(tenant: TenantId, name: string): Promise<void> {
    return this.catalogue.delete(tenant, name);
  }

  resolve(tenant: TenantId, names: readonly string[]): MessageInitShape<typeof ResolveResponseSchema> {
    const visible = this.catalogue.visible(tenant);
    const tools: Tool[] = [];
    const unknown: Record<string, string> = {};
    for (const name of names) {
      const tool = this.catalogue.find(tenant, name) ?? visible.get(`__${name}`);
      if (tool !== undefined) tools.push(tool);
      else unknown[name] = nearestName(name, visible.keys()) ?? '';
    }
    return { tools, unknown };
  }

  /** The best tools for a query, best first; none rather than weak ones. Retired and deprecated tools are not offered. */
  search(tenant: TenantId, query: string, limit: number): MessageInitShape<typeof SearchToolsResponseSchema> {
    const visible = this.catalogue.visible(tenant);
    const hits = this.catalogue
      .index(tenant)
      .search(query, limit === 0 ? SEARCH_LIMIT.default : Math.min(limit, MOST_HITS));
    // An exact name scores without bound, which JSON cannot say.
    return { hits: hits.map(({ name, score }) => ({ tool: visible.get(name)!, score: Math.min(score, 1e6) })) };
  }

  validate(tenant: TenantId, name: string, argumentsJson: string): MessageInitShape<typeof ValidateResponseSchema> {
    const tool = this.get(tenant, name);
    const verdict = checkArguments(
      { name: tool.name, inputSchema: JSON.parse(tool.parametersJson) as JsonSchema },
      argumentsJson,
    );
    return verdict.ok
      ? { ok: true, argumentsJson: JSON.stringify(verdict.args) }
      : { ok: false, message: verdict.text };
  }
}
