import type { Tool, ToolContext, ToolOutcome } from '@yardmaster/executor-kit';
import type { HeldFolder } from '../paths/held-folder.js';
import { type Place, resolve } from '../paths/workspace.js';
import { pathError, refusal, shown } from '../refusal.js';
import { ownMatcher } from '../search/own-matcher.js';
import { ripgrepMatcher } from '../search/ripgrep-matcher.js';
import type { Hit, Matcher, Query, Target } from '../search/search.js';
import { type FileServices, workspaceOf } from '../services.js';
import { ignoreAbove } from '../walk/ignore-above.js';
import { MAX_DEPTH, walk } from '../walk/walk.js';
import { hasLoneSurrogate } from '../text/decode.js';
import { fileTool } from './definition.js';

interface SearchArguments {
  pattern: string;
  path?: string;
  regex?: boolean;
}

/** Files held open for one go of the matcher. */
const BATCH = 128;

/** `file_search`: `path:line: text` for each matching line. Links are not followed, binary files are left out. */
export const fileSearch = (services: FileServices): Tool =>
  fileTool<SearchArguments>('file_search', async ({ pattern, path = '.', regex = false }, context) => {
    if (/[\n\r]/.test(pattern))
      throw refusal(
        'invalid_input',
        'The pattern holds a line end, but lines are searched one by one: search for one line of it.',
      );
    if (hasLoneSurrogate(pattern)) throw refusal('invalid_input', 'The pattern holds half of a surrogate pair.');
    const place = await resolve(workspaceOf(services, context), path, { follow: true });
    const search = new Search(services, context, { pattern, regex });
    try {
      await search.run(place);
    } catch (error) {
      throw pathError(error, path);
    } finally {
      await search.letGo();
      await place.folder.close();
    }
    return search.outcome();
  });

class Search {
  readonly #matcher: Matcher;
  readonly #hits: Hit[] = [];
  readonly #limit: number;
  #batch: Target[] = [];
  #files = 0;
  #tooLarge = 0;
  #incomplete = 0;

  constructor(
    private readonly services: FileServices,
    private readonly context: ToolContext,
    private readonly what: Pick<Query, 'pattern' | 'regex'>,
  ) {
    this.#matcher = services.ripgrep === undefined ? ownMatcher : ripgrepMatcher(services.ripgrep);
    this.#limit = services.limits.searchHits;
  }

  async run(place: Place): Promise<void> {
    const found = await place.folder.look(place.name);
    if (found === undefined) throw refusal('not_found', `There is no "${shown(place.path)}" in the workspace.`);
    if (!found.isDirectory()) {
      await this.#add(place.folder, place.name, place.path);
      return this.#match();
    }
    const folder = await place.folder.folder(place.name);
    try {
      const { signal } = this.context;
      const ignore = await ignoreAbove(workspaceOf(this.services, this.context), place.path);
      const onIncomplete = () => void this.#incomplete++;
      for await (const entry of walk(folder, place.path, { depth: MAX_DEPTH, signal, ignore, onIncomplete })) {
        if (entry.kind !== 'file' || entry.ignored) continue;
        await this.#add(entry.folder, entry.name, entry.path);
        if (this.#batch.length >= BATCH) await this.#match();
        if (this.#hits.length > this.#limit) break;
      }
      await this.#match();
    } finally {
      await folder.close();
    }
  }

  async #add(folder: HeldFolder, name: string, path: string): Promise<void> {
    const handle = await folder.file(name).catch(() => undefined);
    if (handle === undefined) return;
    // From here on letGo closes it.
    this.#batch.push({ path, handle });
    const stat = await handle.stat();
    if (stat.isFile() && stat.size <= this.services.limits.readBytes) {
      this.#files++;
      return;
    }
    if (stat.isFile()) this.#tooLarge++;
    this.#batch.pop();
    await handle.close();
  }

  async #match(): Promise<void> {
    // One more than is shown tells whether there are more.
    const wanted = this.#limit + 1 - this.#hits.length;
    try {
      if (wanted > 0 && this.#batch.length > 0)
        this.#hits.push(
          ...(await this.#matcher(this.#batch, {
            ...this.what,
            wanted,
            maxBytes: this.services.limits.readBytes,
            signal: this.context.signal,
          })),
        );
    } finally {
      await this.letGo();
    }
  }

  async letGo(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    await Promise.all(batch.map(({ handle }) => handle.close()));
  }

  outcome(): ToolOutcome {
    const hits = this.#hits.slice(0, this.#limit);
    const cut = this.#hits.length > this.#limit;
    const notes: string[] = [];
    if (hits.length === 0) notes.push(`Not found in ${this.#files} files.`);
    if (cut) notes.push(`(more than ${this.#limit} lines: search for something rarer, or in a folder)`);
    if (this.#tooLarge > 0) notes.push(`(${this.#tooLarge} files are too large and were not searched)`);
    if (this.#incomplete > 0) notes.push(`(${this.#incomplete} folders could not be searched whole)`);
    const lines = hits.map(({ path, line, text }) => `${shown(path)}:${line}: ${text}`);
    return {
      output: [...lines, ...notes].join('\n'),
      verdict: {
        hits: hits.length,
        cut,
        files: this.#files,
        too_large: this.#tooLarge,
        with: this.services.ripgrep === undefined ? 'own' : 'ripgrep',
      },
    };
  }
}
