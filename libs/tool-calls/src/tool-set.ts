import { nearestName } from '@yardmaster/tool-schema';
import { type ToolDefinition } from './types.js';

const PREFIX = /^(?:functions?|tools?)[.:/]/;

/** The tools that one answer may call, ready for look-up. Build it once for a list that many answers are read against. */
export class ToolSet {
  private readonly byName = new Map<string, ToolDefinition>();
  private folded: Map<string, ToolDefinition | null> | undefined;

  constructor(tools: Iterable<ToolDefinition>) {
    for (const tool of tools) this.byName.set(tool.name, tool);
  }

  get size(): number {
    return this.byName.size;
  }

  names(): string[] {
    return [...this.byName.keys()];
  }

  /** The tool of exactly this name. */
  get(name: string): ToolDefinition | undefined {
    return this.byName.get(name);
  }

  /**
   * The tool that a model's spelling stands for: exact, without a `functions.` prefix, or in other letter case and with
   * `-` for `_` where exactly one tool fits. Anything else is no tool.
   */
  resolve(written: string): ToolDefinition | undefined {
    const name = written.trim();
    const exact = this.byName.get(written) ?? this.byName.get(name);
    if (exact) return exact;
    const bare = name.replace(PREFIX, '');
    return this.byName.get(bare) ?? this.fold(name) ?? this.fold(bare);
  }

  /** The registered name that was probably meant. */
  nearest(written: string): string | undefined {
    return nearestName(written.trim().replace(PREFIX, '').slice(0, 200), this.byName.keys());
  }

  private fold(name: string): ToolDefinition | undefined {
    if (!this.folded) {
      this.folded = new Map();
      for (const tool of this.byName.values()) {
        const key = foldName(tool.name);
        this.folded.set(key, this.folded.has(key) ? null : tool);
      }
    }
    return this.folded.get(foldName(name)) ?? undefined;
  }
}

/** Only ASCII letters: other alphabets have look-alikes that lower-casing would make equal. */
function foldName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => letter.toLowerCase()).replaceAll('-', '_');
}
