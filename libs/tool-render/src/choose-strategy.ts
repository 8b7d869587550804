import { type RenderSpec } from './create-renderer.js';
import { type ToolCatalogue } from './tool-view.js';
import { showTool } from './view-schema.js';

/** Up to this many tools, or this many tokens of definitions, deferring costs a turn and saves nothing. */
const FEW_TOOLS = 10;
const FEW_TOKENS = 3000;

/** About how many tokens a text is: four letters each, one for each character of Korean, Japanese or Chinese. */
export function roughTokens(text: string): number {
  const wide = text.match(/[\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff]/g)?.length ?? 0;
  return Math.ceil((text.length - wide) / 4) + wide;
}

/** Whether all tools are shown from the start, whatever the strategy of the provider. */
export function isSmallSet(catalogue: ToolCatalogue): boolean {
  const tools = catalogue.list();
  if (tools.length <= FEW_TOOLS) return true;
  let tokens = 0;
  for (const tool of tools) {
    tokens += roughTokens(JSON.stringify(showTool(tool)));
    if (tokens > FEW_TOKENS) return false;
  }
  return true;
}

/**
 * The strategy that is really used: the one of the provider entry, or its form with everything in front when the tools
 * are few or small.
 */
export function chooseStrategy(spec: RenderSpec, catalogue: ToolCatalogue): RenderSpec {
  if (!isSmallSet(catalogue)) return spec;
  switch (spec.strategy) {
    case 'claude_deferred': {
      // Without deferred tools a search has nothing to find.
      const { search: _search, ...rest } = spec;
      return { ...rest, core: 'all' };
    }
    case 'openai_native_deferred':
      return { ...spec, core: 'all' };
    case 'harmony_dispatcher':
      return { strategy: 'harmony_upfront', instructions: spec.instructions ?? null };
    case 'harmony_upfront':
    case 'rolling_developer':
    case 'xml_upfront':
    case 'native_upfront':
      return spec;
  }
}
