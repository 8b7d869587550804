// What the specs share: services on a folder of their own, and calls as an executor would make them.
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { tenantId, ToolCallSchema } from '@yardmaster/contracts';
import { argsHash, type Tool, type ToolContext, type ToolOutcome } from '@yardmaster/executor-kit';
import { ContentThreads } from './content/content-threads.js';
import { fileTools } from './file-tools.js';
import type { FileServices } from './services.js';
import { CallJournal } from './storage/call-journal.js';
import { Locks } from './storage/locks.js';
import { Quotas } from './storage/quotas.js';

export interface Fixture {
  services: FileServices;
  /** The workspace on the disk. */
  home: string;
  /** A folder beside all workspaces, which no tool may touch. */
  outside: string;
  call(name: string, args: Record<string, unknown>, more?: Partial<ToolContext>): Promise<ToolOutcome>;
  close(): Promise<void>;
}

/** One set for all fixtures of a spec: threads take their time to start, and keep no process alive. */
let threads: ContentThreads | undefined;

export function makeFixture(more: Partial<FileServices> & { quota?: { bytes: number; files: number } } = {}): Fixture {
  const base = mkdtempSync(join(tmpdir(), 'ym-files-'));
  const root = join(base, 'workspaces');
  const home = join(root, 'acme', 'main');
  const outside = join(base, 'outside');
  for (const folder of [home, outside]) mkdirSync(folder, { recursive: true });
  const { quota = { bytes: 0, files: 0 }, ...given } = more;
  const services: FileServices = {
    root,
    limits: { readBytes: 1_000_000, writeBytes: 1_000_000, editBytes: 1_000_000, searchHits: 100 },
    locks: new Locks(),
    quotas: new Quotas(root, quota),
    journal: new CallJournal(join(root, '.executor-files', 'journal'), 100),
    content: (threads ??= new ContentThreads()),
    embed: undefined,
    ripgrep: undefined,
    syntaxGate: false,
    ...given,
  };
  const tools = new Map<string, Tool>(fileTools(services).map((tool) => [tool.name, tool]));
  return {
    services,
    home,
    outside,
    async call(name, args, context = {}) {
      const outcome = await tools.get(name)!.run(args, { ...contextOf(args), ...context });
      return typeof outcome === 'string' ? { output: outcome } : outcome;
    },
    async close() {
      rmSync(base, { recursive: true, force: true });
    },
  };
}

/** A call of its own; give `runId` and `callId` for another delivery of the same one. */
function contextOf(args: Record<string, unknown>): ToolContext {
  const argumentsJson = JSON.stringify(args);
  return {
    tenant: tenantId('acme'),
    runId: randomUUID(),
    callId: '1-0',
    conversationId: '',
    workspace: 'main',
    attempt: 1,
    timeoutMs: 30_000,
    trace: undefined,
    signal: new AbortController().signal,
    call: create(ToolCallSchema, { argumentsJson, argsHash: argsHash(argumentsJson) }),
    output: () => {},
  };
}
