import type { AgentConfig, PlatformConfig } from '@yardmaster/service-kit';
import type { RunRecord } from '@yardmaster/conversation';
import { type StartRun, type TenantId, type Tool, YardError } from '@yardmaster/contracts';
import { ToolSet } from '@yardmaster/tool-calls';
import { CALL_MCP, definitionOf, META_TOOL_NAMES } from '@yardmaster/tool-render';
import type { RunLimits } from './limits.js';
import type { ToolSnapshot } from './tool-snapshot.js';

/** What a run is made of, once its specification, its agent and the platform's configuration are put together. */
export interface RunPlan {
  agent: AgentConfig;
  model: string;
  system: string;
  /** What the model may call, by the name that it knows; meta tools lose their underscores. */
  tools: ReadonlyMap<string, Tool>;
  /** The same for the reader of answers: names and schemas. What was shown of a tool plays no part. */
  toolSet: ToolSet;
  /** Names of the tools of this run, as registered; how much of them is shown is the router's decision. */
  named: readonly string[];
  limits: RunLimits;
  workspace: string;
}

export interface PlanDefaults {
  maxIterations: number;
  runTimeoutMs: number;
}

/** Meta tools are registered with underscores, closed to tenants, and shown without. */
export const exposedName = (registered: string) => registered.replace(/^__/, '');

/**
 * Throws NOT_FOUND when the agent is not there, or a tool that the run names; of a run that has `begun` such a tool is
 * left out: its model is told that it went, like any other.
 */
export function planRun(
  spec: StartRun,
  record: RunRecord,
  config: PlatformConfig,
  tools: Pick<ToolSnapshot, 'find' | 'all'>,
  defaults: PlanDefaults,
  hides: (tool: Tool) => boolean = () => false,
  begun = false,
): RunPlan {
  const agent = agentOf(spec, config);
  const named = spec.tools.length > 0 ? spec.tools : agent.tools;
  const found = new Map<string, Tool>();
  if (named === undefined) {
    for (const tool of tools.all(record.tenant).values())
      if (tool.kind !== 'meta' && tool.state !== 'deprecated') found.set(tool.name, tool);
  } else
    for (const name of named) {
      const tool = tools.find(record.tenant, name) ?? tools.find(record.tenant, `__${name}`);
      // Under its own name, by which models are shown it, whichever alias the run uses.
      if (tool !== undefined) found.set(exposedName(tool.name), tool);
      else if (!begun) throw unknownTool(record.tenant, name, tools);
    }
  // What nobody may call is not shown either.
  for (const [name, tool] of found) if (hides(tool)) found.delete(name);
  const registered = [...found.values()].map((tool) => tool.name);
  // Tools that are not shown from the start are found by these two.
  if (found.size > 0)
    for (const [exposed, name] of Object.entries(META_TOOL_NAMES)) {
      const tool = tools.find(record.tenant, name);
      if (tool !== undefined && !found.has(exposed)) found.set(exposed, tool);
    }
  const limits = spec.limits;
  const timeoutMs =
    limits?.timeoutS !== undefined
      ? limits.timeoutS * 1000
      : agent.limits?.timeout_s !== undefined
        ? agent.limits.timeout_s * 1000
        : defaults.runTimeoutMs;
  return {
    agent,
    model: spec.model ?? agent.model ?? config.routing.default_model ?? '',
    system: spec.system ?? agent.system ?? '',
    tools: found,
    toolSet: toolSetOf(found),
    named: registered,
    limits: {
      maxIterations: limits?.maxIterations ?? agent.limits?.max_iterations ?? defaults.maxIterations,
      maxTokens: limits?.maxTokens !== undefined ? Number(limits.maxTokens) : agent.limits?.max_tokens,
      maxCostUsd: limits?.maxCostUsd ?? agent.limits?.max_cost_usd,
      deadlineMs: record.createdMs + timeoutMs,
    },
    workspace: spec.workspace ?? 'default',
  };
}

function agentOf(spec: StartRun, config: PlatformConfig): AgentConfig {
  if (spec.agent === undefined) return {};
  const agent = config.agents[spec.agent];
  if (agent === undefined)
    throw new YardError('NOT_FOUND', 'YM-AGENT-UNKNOWN', `There is no agent "${spec.agent}".`, {
      details: { name: spec.agent, known: Object.keys(config.agents) },
    });
  return agent;
}

function unknownTool(tenant: TenantId, name: string, tools: Pick<ToolSnapshot, 'all'>): YardError {
  return new YardError('NOT_FOUND', 'YM-TOOL-UNKNOWN', `There is no tool "${name}".`, {
    details: { name, known: [...tools.all(tenant).keys()].filter((known) => !known.startsWith('__')).sort() },
  });
}

const toolSets = new Map<string, ToolSet>();

/** One for each set of definitions: compiling schemas is dear, and most runs have the tools of the last one. */
function toolSetOf(tools: ReadonlyMap<string, Tool>): ToolSet {
  const key = [...tools].map(([name, tool]) => `${name} ${tool.hash}`).join('\n');
  let set = toolSets.get(key);
  if (set === undefined) {
    set = new ToolSet([
      // The form in which some models call every tool; it is taken apart before anything is run.
      ...(tools.size === 0 ? [] : [definitionOf(CALL_MCP)]),
      ...[...tools].map(([name, tool]) => ({
        name,
        description: tool.description,
        parameters: JSON.parse(tool.parametersJson) as Record<string, unknown>,
      })),
    ]);
    if (toolSets.size >= 200) toolSets.clear();
    toolSets.set(key, set);
  }
  return set;
}
