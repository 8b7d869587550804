import type { MessageInitShape } from '@bufbuild/protobuf';
import { Injectable } from '@nestjs/common';
import {
  type ListToolsResponseSchema,
  type ResolveResponseSchema,
  type SearchToolsResponseSchema,
  type TenantId,
  type Tool,
  type ValidateResponseSchema,
  YardError,
} from '@yardmaster/contracts';
import { checkArguments, type JsonSchema, nearestName } from '@yardmaster/tool-schema';
import { ToolCatalogue } from './tool-catalogue.js';

const PAGE = 1000;
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const EFFECTS = ['read', 'idempotent', 'unsafe'];
const CATEGORIES = ['read', 'write', 'execute', 'network'];
const STATES = ['active', 'deprecated', 'retired'];

/** What can be asked about tools, and what it takes to register one. */
@Injectable()
export class ToolsService {
  constructor(private readonly catalogue: ToolCatalogue) {}

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
    const tools = this.catalogue.visible(tenant);
    return tools.get(`__${name}`) ?? this.catalogue.get(tenant, name);
  }

  /** Registers a tenant's tool. Throws INVALID with everything that is wrong. */
  async put(tenant: TenantId, tool: Tool | undefined): Promise<Tool> {
    if (tool === undefined) throw new YardError('INVALID', 'YM-TOOL-INVALID', 'The request has no tool.');
    const problems: string[] = [];
    if (!NAME.test(tool.name)) problems.push(`name: "${tool.name.slice(0, 80)}" must match ${NAME.source}`);
    else if (tool.name.startsWith('__')) problems.push('name: names that begin with two underscores are reserved');
    if (tool.description.trim() === '' || tool.description.length > 10_000)
      problems.push('description: 1 to 10000 characters');
    if (!EFFECTS.includes(tool.effect))
      problems.push(
        `effect: must be one of ${EFFECTS.join(', ')} (it has no default: may a call run again when nobody knows how it ended?)`,
      );
    if (!CATEGORIES.includes(tool.category)) problems.push(`category: must be one of ${CATEGORIES.join(', ')}`);
    if (tool.state !== '' && !STATES.includes(tool.state)) problems.push(`state: must be one of ${STATES.join(', ')}`);
    if (!/^[a-z0-9][a-z0-9-]{0,39}$/.test(tool.kind))
      problems.push('kind: the executor kind that runs it, letters, digits and -');
    problems.push(...schemaProblems(tool.parametersJson));
    if (problems.length > 0)
      throw new YardError('INVALID', 'YM-TOOL-INVALID', `The tool cannot be registered: ${problems.join('; ')}.`, {
        details: { name: tool.name, problems },
      });
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
      const tool = visible.get(name) ?? visible.get(`__${name}`);
      if (tool !== undefined) tools.push(tool);
      else unknown[name] = nearestName(name, visible.keys()) ?? '';
    }
    return { tools, unknown };
  }

  search(tenant: TenantId, query: string, limit: number): MessageInitShape<typeof SearchToolsResponseSchema> {
    const words = query
      .toLowerCase()
      .split(/\W+/)
      .filter((word) => word.length > 1);
    const scored = [...this.catalogue.visible(tenant).values()]
      .filter((tool) => tool.kind !== 'meta')
      .map((tool) => {
        const text =
          `${tool.name.replaceAll('_', ' ')} ${tool.description} ${tool.searchHints.join(' ')} ${tool.aliases.join(' ')}`.toLowerCase();
        return { tool, score: words.filter((word) => text.includes(word)).length };
      })
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score || (a.tool.name < b.tool.name ? -1 : 1));
    return { hits: scored.slice(0, limit === 0 ? 5 : limit) };
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

function schemaProblems(json: string): string[] {
  try {
    const schema: unknown = JSON.parse(json);
    if (
      typeof schema !== 'object' ||
      schema === null ||
      Array.isArray(schema) ||
      (schema as { type?: unknown }).type !== 'object'
    )
      return ['parameters: must be a JSON Schema of type object'];
    return [];
  } catch {
    return ['parameters: no valid JSON'];
  }
}
