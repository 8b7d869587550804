import type { ToolContext } from '@yardmaster/executor-kit';
import type { ContentThreads } from './content/content-threads.js';
import type { Workspace } from './paths/workspace.js';
import type { CallJournal } from './storage/call-journal.js';
import type { Locks } from './storage/locks.js';
import type { Quotas } from './storage/quotas.js';

/** Sizes in bytes, as configured. */
export interface FileLimits {
  readBytes: number;
  writeBytes: number;
  editBytes: number;
  /** Hits of one search. */
  searchHits: number;
}

/** Vectors of texts, on behalf of a call; resolves to undefined where no provider has them. */
export type Embed = (texts: string[], context: ToolContext) => Promise<number[][] | undefined>;

/** What the tools work with. */
export interface FileServices {
  /** Folder of all workspaces. */
  root: string;
  limits: FileLimits;
  locks: Locks;
  quotas: Quotas;
  journal: CallJournal;
  content: ContentThreads;
  /** Vectors for the embedding pass of a call, which only ranks what other passes found; undefined: nobody has any. */
  embed: Embed | undefined;
  /** The ripgrep program; undefined: files are searched by our own code. */
  ripgrep: string | undefined;
  /** Refuse an approximate edit after which the file has more syntax errors than before. */
  syntaxGate: boolean;
}

export const workspaceOf = (services: FileServices, { tenant, workspace }: ToolContext): Workspace => ({
  root: services.root,
  tenant,
  workspace,
});
