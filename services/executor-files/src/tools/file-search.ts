import type { Tool, ToolContext, ToolOutcome } from '@yardmaster/executor-kit';
import type { HeldFolder } from '../paths/held-folder.js';
import { Pace } from '../pace.js';
import { type Place, resolve } from '../paths/workspace.js';
import { pathError, refusal, shown } from '../refusal.js';
import { ownMatcher } from '../search/own-matcher.js';
import { ripgrepMatcher } from '../search/ripgrep-matcher.js';
import type { Hit, Matcher, Query, Target } from '../search/search.js';
import { type FileServices, workspaceOf } from '../services.js';
import { ignoreAbove } from '../walk/ignore-above.js';
import { MAX_DEPTH, walk } from '../walk/walk.js';
import { hasLoneSurrogate } from '../text/surrogates.js';
import { fileTool } from './definition.js';

interface SearchArguments {
  pattern: string;
  path?: string;
  regex?: boolean;
}

/** Files held open for one go of the matcher. */
const BATCH = 256;
/** Files opened at once. */
const OPENING = 32;

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
  /** Named and not opened yet; their folders are still held. */
  #named: { folder: HeldFolder; name: string; path: string }[] = [];
  #files = 0;
  #tooLarge = 0;
  #unreadable = 0;
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
      this.#named.push({ folder: place.folder, name: place.name, path: place.path });
      await this.#open();
      return this.#match();
    }
    const folder = await place.folder.folder(place.name);
    try {
      const { signal } = this.context;
      const ignore = await ignoreAbove(workspaceOf(this.services, this.context), place.path, new Pace(signal));
      const onIncomplete = () => void this.#incomplete++;
      const beforeLeaving = () => this.#open();
      const options = { depth: MAX_DEPTH, signal, ignore, onIncomplete, beforeLeaving };
      for await (const entry of walk(folder, place.path, options)) {
        if (entry.kind !== 'file' || entry.ignored) continue;
        this.#named.push(entry);
        if (this.#named.length >= OPENING) await this.#open();
        if (this.#batch.length >= BATCH) await this.#match();
        if (this.#hits.length > this.#limit) return;
      }
      await this.#open();
      await this.#match();
    } finally {
      await folder.close();
    }
  }

  async #open(): Promise<void> {
    const named = this.#named;
    this.#named = [];
    const opened = await Promise.allSettled(named.map((entry) => this.#openOne(entry)));
    for (const one of opened) if (one.status === 'fulfilled' && one.value !== undefined) this.#batch.push(one.value);
    const failed = opened.find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  }

  async #openOne({ folder, name, path }: { folder: HeldFolder; name: string; path: string }) {
    const handle = await folder.file(name).catch((error: NodeJS.ErrnoException) => {
      // Nothing may be left out in silence: only what is gone or has become a link is no file to search.
      if (error.code === 'EMFILE' || error.code === 'ENFILE') throw error;
      if (error.code === 'EACCES' || error.code === 'EPERM') this.#unreadable++;
      return undefined;
    });
    const stat = await handle?.stat().catch(() => undefined);
    if (handle === undefined) return undefined;
    if (stat?.isFile() === true && stat.size <= this.services.limits.readBytes) {
      this.#files++;
      return { path, handle } satisfies Target;
    }
    if (stat?.isFile() === true) this.#tooLarge++;
    await handle.close();
    return undefined;
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
            content: this.services.content,
            context: this.context,
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
    if (this.#unreadable > 0) notes.push(`(${this.#unreadable} files cannot be read, by their permissions)`);
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
