import type { WireTool } from '@yardmaster/llm-wire';
import { XML_STOP_SEQUENCE } from '@yardmaster/tool-calls';
import {
  CALL_MCP,
  catalogueOf,
  chooseStrategy,
  type ContextRenderer,
  createRenderer,
  harmonyBody,
  META_TOOLS,
  type PinnedTools,
  RenderSession,
  type RenderSpec,
  type Strategy,
  type ToolCatalogue,
  type ToolView,
  definitionOf,
  showTool,
} from '@yardmaster/tool-render';
import { promptInstructions } from '@yardmaster/tool-calls';
import type { Candidate } from '../failover/candidate.js';

/** What one kind of candidate is told of the tools of a request. */
export interface ToolPart {
  /** Names the form, for caches of what is drawn in it. */
  form: string;
  /** Goes behind the system text; '' for native calls. */
  system: string;
  /** Definitions in the form of the OpenAI wire (JSON); '' without any. */
  tools: string;
  /** The `tools` of a provider that has a form of its own. */
  raw: unknown[] | undefined;
  stop: string | undefined;
  /** Draws what is loaded later; undefined where all stands in front. */
  renderer: ContextRenderer | undefined;
}

/** The tools of one request, before any provider is tried. */
export interface RequestTools {
  /** Everything that the model may call now. */
  current: ToolCatalogue;
  /** What stood in front when the conversation began. */
  pinned: PinnedTools | undefined;
  /** Meta tools that the request names itself. */
  meta: readonly ToolView[];
  /** Tools of the caller's own, who runs them. */
  inline: readonly WireTool[];
  /** Is there somebody to answer `tool_search`? */
  deferrable: boolean;
}

type Target = Pick<Candidate, 'family' | 'dialect' | 'render'>;

const DEFERRED_PROTOCOL = `## Tool Use Protocol

To use a tool, reply with a JSON object inside <tool_call> tags, one block per call:

<tool_call>
{"name": "tool_name", "arguments": {"param": "value"}}
</tool_call>

The tools below are a part of all that there are. Find others with tool_search, in English or in the language of the work; their definitions come back in its result. Results arrive in the next user message inside <tool_result> tags.`;

/** Draws the tools for a candidate. Pure: the same tools and the same kind of candidate give the same bytes. */
export function toolPart(tools: RequestTools, target: Target): ToolPart {
  const native = target.dialect === 'native';
  const named = strategyOf(tools, target);
  const front = tools.pinned?.catalogue ?? tools.current;
  const spec = chooseStrategy(specOf(named, target, tools.pinned?.core ?? []), front);
  const renderer = createRenderer(spec);
  if (tools.current.list().length + tools.inline.length + tools.meta.length === 0) return nothing(spec.strategy);
  const deferred = defers(spec);
  // Small sets and strategies that stand in front anyway are drawn anew when the tools change.
  const stays = tools.pinned !== undefined && (deferred || spec.strategy === 'rolling_developer');
  const shown = deferred ? front : catalogueOf([...(stays ? front : tools.current).list(), ...tools.meta]);
  const session = new RenderSession(renderer, stays ? shown : deferred ? tools.current : shown);
  if (stays) session.changeTools(tools.current);
  const { initial } = session.state;
  const form = `${spec.strategy} ${target.family} ${target.dialect} ${deferred ? 'deferred' : 'upfront'}`;
  if (native) {
    const own = target.family === 'anthropic-messages' || spec.strategy === 'openai_native_deferred';
    const wire = [...nativeViews(spec, deferred, session, shown).map(wireTool), ...tools.inline];
    return {
      form,
      system: '',
      tools: JSON.stringify(wire),
      raw: own && initial.tools !== undefined && tools.inline.length === 0 ? session.tools : undefined,
      stop: undefined,
      renderer: deferred ? renderer : undefined,
    };
  }
  return {
    form,
    system: textFront(spec, initial.segments, tools, shown),
    tools: '',
    raw: undefined,
    stop: XML_STOP_SEQUENCE,
    renderer: deferred ? renderer : undefined,
  };
}

const nothing = (strategy: Strategy): ToolPart => ({
  form: strategy,
  system: '',
  tools: '',
  raw: undefined,
  stop: undefined,
  renderer: undefined,
});

/** Where nobody answers a search, or the caller runs tools of its own, everything stands in front. */
function strategyOf({ deferrable, inline }: RequestTools, { render, family, dialect }: Target): Strategy {
  const native = dialect === 'native';
  const chosen = render ?? (native ? 'native_upfront' : 'xml_upfront');
  if (inline.length > 0) return native ? 'native_upfront' : 'xml_upfront';
  if (!deferrable) {
    if (chosen === 'harmony_dispatcher') return 'harmony_upfront';
    if (chosen === 'openai_native_deferred') return 'native_upfront';
    if (chosen === 'claude_deferred') return native ? 'native_upfront' : 'xml_upfront';
  }
  // Definitions in the provider's own form, with what it refuses left out.
  return chosen === 'native_upfront' && family === 'anthropic-messages' && !native ? 'xml_upfront' : chosen;
}

function specOf(strategy: Strategy, { family, dialect }: Target, core: readonly string[]): RenderSpec {
  const native = dialect === 'native';
  switch (strategy) {
    case 'claude_deferred':
      return native && family === 'anthropic-messages'
        ? { strategy, mode: 'api', core, search: 'client' }
        : { strategy, mode: 'text', core, listNames: true };
    case 'openai_native_deferred':
      return { strategy, core };
    case 'harmony_dispatcher':
      return { strategy, metaTools: true };
    case 'rolling_developer':
      return { strategy, format: dialect === 'harmony' ? 'harmony' : 'xml' };
    case 'native_upfront':
      // The form of its own API leaves out what that API refuses.
      return family === 'anthropic-messages' ? { strategy: 'claude_deferred', mode: 'api', core: 'all' } : { strategy };
    case 'harmony_upfront':
    case 'xml_upfront':
      return { strategy };
  }
}

/** Are some tools left for later? */
function defers(spec: RenderSpec): boolean {
  return (
    spec.strategy === 'harmony_dispatcher' ||
    ((spec.strategy === 'claude_deferred' || spec.strategy === 'openai_native_deferred') && spec.core !== 'all')
  );
}

/** The tools of the `tools` field; where the provider has a form of its own they only say that there are tools. */
function nativeViews(
  spec: RenderSpec,
  deferred: boolean,
  session: RenderSession,
  shown: ToolCatalogue,
): readonly ToolView[] {
  if (spec.strategy === 'harmony_dispatcher') return [CALL_MCP, ...META_TOOLS];
  if (!deferred) return shown.list();
  return session.tools === undefined ? [] : META_TOOLS;
}

function textFront(
  spec: RenderSpec,
  segments: readonly string[],
  { inline }: RequestTools,
  shown: ToolCatalogue,
): string {
  switch (spec.strategy) {
    case 'claude_deferred':
      return [DEFERRED_PROTOCOL, ...segments].join('\n\n');
    case 'harmony_upfront':
    case 'harmony_dispatcher':
      return segments.map(harmonyBody).join('\n\n');
    case 'rolling_developer':
      return spec.format === 'xml' ? segments.join('\n\n') : segments.map(harmonyBody).join('\n\n');
    default:
      return inline.length === 0
        ? segments.join('\n\n')
        : promptInstructions([...shown.list().map(definitionOf), ...inline.map((tool) => inlineDefinition(tool))]);
  }
}

function inlineDefinition({ function: { name, description, parameters } }: WireTool) {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parameters: parameters as Record<string, unknown> }),
  };
}

function wireTool(tool: ToolView): WireTool {
  const { name, description, parameters } = showTool(tool);
  return { type: 'function', function: { name, description, parameters } };
}
