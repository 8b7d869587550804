import { Injectable } from '@nestjs/common';
import { BUILT_IN_EXECUTORS, type Tool } from '@yardmaster/contracts';
import { type ConversationRef, ConversationStore, type ConversationTools } from '@yardmaster/conversation';
import {
  catalogueOf,
  compareNames,
  isSmallSet,
  pinnedText,
  toolsChangedText,
  type ToolSetChange,
  viewOf,
} from '@yardmaster/tool-render';
import type { RunPlan } from './run-plan.js';

/** What stands in front of a conversation's prompts, and what its models have to be told before the next answer. */
export interface Front {
  /** Key of the pinned set; '' while all tools are shown and nothing is pinned. */
  key: string;
  notice: string | undefined;
}

/**
 * Pins the tools of a conversation at its first request, if they are too many to be shown: whatever the registry does
 * after that is told at the tail, and the bytes in front stay what they were.
 */
@Injectable()
export class ToolFront {
  private readonly small = new WeakMap<ReadonlyMap<string, Tool>, boolean>();

  constructor(private readonly store: ConversationStore) {}

  /** Says what to tell; `told` has to be called when that is in the history. `known`: what was read with the lease. */
  async look(ref: ConversationRef, plan: RunPlan, known?: ConversationTools): Promise<Front> {
    known ??= await this.store.toolSets.of(ref);
    const now = hashesOf(plan);
    if (known.pinned === undefined) {
      if (this.isSmall(plan)) return { key: '', notice: undefined };
      const tools = shownTools(plan);
      const core = tools
        .filter((tool) => (BUILT_IN_EXECUTORS as readonly string[]).includes(tool.kind))
        .map((tool) => tool.name);
      // What a model had loaded before a compaction took it out of the history stands in front from now on.
      const key = await this.store.toolSets.pin(ref, pinnedText(tools.map(viewOf), [...core, ...known.loaded]), now);
      return { key, notice: undefined };
    }
    await this.store.toolSets.keep(known.pinned);
    const change = changeBetween(known.told, now);
    const changed = change.added.length + change.removed.length > 0;
    return { key: known.pinned, notice: changed ? toolsChangedText(change) : undefined };
  }

  async told(ref: ConversationRef, plan: RunPlan): Promise<void> {
    await this.store.toolSets.told(ref, hashesOf(plan));
  }

  private isSmall(plan: RunPlan): boolean {
    let small = this.small.get(plan.tools);
    if (small === undefined)
      this.small.set(plan.tools, (small = isSmallSet(catalogueOf(shownTools(plan).map(viewOf)))));
    return small;
  }
}

function shownTools(plan: RunPlan): Tool[] {
  const named = new Set(plan.named);
  return [...plan.tools.values()].filter((tool) => named.has(tool.name) && tool.kind !== 'meta');
}

/** The beginning of a hash is enough to see that a definition is another one. */
function hashesOf(plan: RunPlan): Record<string, string> {
  return Object.fromEntries(shownTools(plan).map((tool) => [tool.name, tool.hash.slice(0, 16)]));
}

/** A changed definition is one that went and one that came. */
function changeBetween(before: Record<string, string>, after: Record<string, string>): ToolSetChange {
  const differs = (one: Record<string, string>, other: Record<string, string>) =>
    Object.entries(one)
      .filter(([name, hash]) => other[name] !== hash)
      .map(([name]) => name)
      .sort(compareNames);
  return { added: differs(after, before), removed: differs(before, after) };
}
