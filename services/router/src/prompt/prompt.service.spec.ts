import { create } from '@bufbuild/protobuf';
import type { Bus, KvListener, KvSnapshot } from '@yardmaster/bus';
import type { ConversationStore } from '@yardmaster/conversation';
import { ChatRequestSchema, tenantId, type Tool, ToolSchema } from '@yardmaster/contracts';
import type { Health } from '@yardmaster/service-kit';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { RouterConfig } from '../config.js';
import type { Candidate } from '../failover/candidate.js';
import { PromptService } from './prompt.service.js';

const acme = tenantId('acme');
const candidate = { provider: 'p', model: 'm', dialect: 'native', family: 'openai-chat', quirks: {} } as Candidate;

/** A bucket that a test writes, with as many revisions as writes. */
class Bucket implements KvSnapshot<Tool> {
  current: ReadonlyMap<string, Tool> = new Map();
  revision = 0;
  private readonly listeners = new Set<KvListener<Tool>>();
  get(key: string) {
    return this.current.get(key);
  }
  onChange(listener: KvListener<Tool>) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
  stop() {}
  put(key: string, more: { state?: string } = {}) {
    const name = key.split('.')[1]!;
    const tool = create(ToolSchema, {
      name,
      description: name,
      parametersJson: '{"type":"object"}',
      kind: 'crm',
      ...more,
    });
    this.current = new Map(this.current).set(key, tool);
    this.revision++;
    for (const listener of this.listeners) listener(this, new Set([key]));
  }
}

let bucket: Bucket;
let prompts: PromptService;
beforeEach(async () => {
  bucket = new Bucket();
  prompts = new PromptService(
    { watch: () => Promise.resolve(bucket) } as unknown as Bus,
    { windowCache: () => ({ window: () => Promise.resolve([]) }) } as unknown as ConversationStore,
    { prefixCache: 10, windowItems: 10 } as RouterConfig,
    { metrics: new Registry() } as Health,
  );
  await prompts.onApplicationBootstrap();
});
afterEach(() => void vi.useRealTimers());

/** Names of the tools that a request is drawn with. */
async function drawn(tools: string[], more: object = {}): Promise<string[]> {
  const request = create(ChatRequestSchema, { runId: 'r', conversationId: 'c', model: 'm', tools, ...more });
  const { renderer } = await prompts.load(acme, request);
  const { input } = (await renderer(candidate))!;
  const sent = JSON.parse((input.tools as string | undefined) ?? '[]') as { function: { name: string } }[];
  return sent.map((one) => one.function.name);
}

it('waits for changes of the registry that the dispatcher has seen already', async () => {
  bucket.put('acme.old');
  const drawing = drawn(['old', 'new'], { toolsRevision: 2n });
  await new Promise((resolve) => setImmediate(resolve));
  bucket.put('acme.new');
  expect(await drawing).toEqual(['new', 'old']);
});

it('does not wait twice for what never comes', async () => {
  vi.useFakeTimers();
  bucket.put('acme.old');
  const drawing = drawn(['old', 'lost'], { toolsRevision: 9n });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(await drawing).toEqual(['old']);
  // Nobody moves the clock now.
  expect(await drawn(['old'], { toolsRevision: 9n })).toEqual(['old']);
});

it('leaves out of a run what went since its dispatcher looked; other requests are told', async () => {
  bucket.put('acme.kept');
  bucket.put('_.hidden');
  bucket.put('acme.hidden', { state: 'retired' });
  expect(await drawn(['kept', 'gone', 'hidden'])).toEqual(['kept']);
  await expect(drawn(['gone'], { runId: '', conversationId: '' })).rejects.toMatchObject({ code: 'YM-TOOL-UNKNOWN' });
  await expect(drawn(['hidden'], { runId: '', conversationId: '' })).rejects.toMatchObject({ code: 'YM-TOOL-UNKNOWN' });
});
