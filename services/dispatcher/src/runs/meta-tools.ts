import { Injectable } from '@nestjs/common';
import { parseExactJson, type Tool } from '@yardmaster/contracts';
import { ConversationStore, type PendingCall } from '@yardmaster/conversation';
import {
  catalogueOf,
  loadRecord,
  SEARCH_LIMIT,
  type ToolCatalogue,
  ToolSearch,
  type ToolView,
  viewOf,
} from '@yardmaster/tool-render';
import { nearestName, unknownToolText } from '@yardmaster/tool-schema';
import { type CallOutcome, failed, type RoundContext } from './tool-round.js';

/** Of one result; more would be cut in the middle of a definition when it is stored. */
const MOST_CHARS = 18_000;

/**
 * The tools that are about tools, answered here: over the tools of the run and no others. Their results hold the
 * definitions as they are now, so what a model was shown can be drawn again whatever becomes of the registry.
 */
@Injectable()
export class MetaTools {
  private readonly indexes = new WeakMap<ReadonlyMap<string, Tool>, { catalogue: ToolCatalogue; search: ToolSearch }>();

  constructor(private readonly store: ConversationStore) {}

  async run(call: PendingCall, context: RoundContext): Promise<CallOutcome> {
    const started = performance.now();
    const args = parseExactJson(call.argumentsJson) as { query?: string; limit?: number; name?: string };
    const found =
      call.name === '__tool_search'
        ? this.search(args.query ?? '', args.limit ?? SEARCH_LIMIT.default, context.tools)
        : this.describe(args.name ?? '', context.tools);
    if (typeof found === 'string') return failed(found, 'not_found');
    const { shown, left } = fitting(found);
    await this.store.toolSets
      .loaded(
        context,
        shown.map((tool) => tool.name),
      )
      // Only a compaction would need it.
      .catch(() => undefined);
    return {
      ok: true,
      output: shown.length === 0 ? `No tool matches "${args.query ?? ''}". Try other key words.` : loadRecord(shown),
      reason: '',
      durationMs: Math.round(performance.now() - started),
      verdictJson: left === 0 ? '' : JSON.stringify({ left_out: left }),
      outcomeUnknown: false,
    };
  }

  private search(query: string, limit: number, tools: ReadonlyMap<string, Tool>): ToolView[] {
    const { catalogue, search } = this.indexOf(tools);
    return search.search(query, Math.min(limit, SEARCH_LIMIT.max)).flatMap(({ name }) => catalogue.get(name) ?? []);
  }

  private describe(name: string, tools: ReadonlyMap<string, Tool>): ToolView[] | string {
    const { catalogue } = this.indexOf(tools);
    const tool = catalogue.get(name);
    return tool === undefined
      ? unknownToolText(
          name,
          nearestName(
            name,
            catalogue.list().map((one) => one.name),
          ),
        )
      : [tool];
  }

  private indexOf(tools: ReadonlyMap<string, Tool>): { catalogue: ToolCatalogue; search: ToolSearch } {
    let index = this.indexes.get(tools);
    if (index === undefined) {
      const catalogue = catalogueOf([...tools.values()].filter((tool) => tool.kind !== 'meta').map(viewOf));
      index = { catalogue, search: new ToolSearch(catalogue) };
      this.indexes.set(tools, index);
    }
    return index;
  }
}

/** As many as one result has room for, the best first. */
function fitting(tools: readonly ToolView[]): { shown: ToolView[]; left: number } {
  const shown: ToolView[] = [];
  let chars = 0;
  for (const tool of tools) {
    chars += loadRecord([tool]).length;
    if (shown.length > 0 && chars > MOST_CHARS) break;
    shown.push(tool);
  }
  return { shown, left: tools.length - shown.length };
}
