import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type DemoModel, type Script, startModel } from '@yardmaster/local-stack';
import { stringify } from 'yaml';
import { DEMO_TENANT, LocalStack, type StackOptions } from '../../services/yard/src/stack/local-stack.js';
import type { RunView, StoredEvent } from '../api-views.ts';

/** Times that let a test see a redelivery without waiting for it: the defaults are for production. */
export const QUICK: NodeJS.ProcessEnv = {
  YM_DISPATCHER_LEASE_MS: '3000',
  YM_DISPATCHER_ACK_WAIT_MS: '2000',
  YM_EXECUTOR_FILES_ACK_WAIT_MS: '2000',
  YM_EXECUTOR_SHELL_ACK_WAIT_MS: '2000',
  YM_DISPATCHER_SWEEP_MS: '300',
};

export interface ProviderOptions {
  native: boolean;
  script?: Script;
  [key: string]: unknown;
}

export interface Stack {
  stack: LocalStack;
  models: Record<string, DemoModel>;
  url: string;
  key: string;
  /** Writes files into the default workspace of the demo tenant. */
  put(files: Record<string, string>): void;
  file(path: string): string;
  api(path: string, init?: RequestInit & { json?: unknown }): Promise<Response>;
  start(body: Record<string, unknown>): Promise<RunView>;
  get(run: string): Promise<RunView>;
  /** Waits until the run is over (or waits for a person), for at most `ms`. */
  settled(run: string, ms?: number): Promise<RunView>;
  events(run: string, after?: number): Promise<StoredEvent[]>;
  stop(): Promise<void>;
}

export const OVER = ['completed', 'failed', 'cancelled', 'incomplete'];

/** All services as separate processes against real servers, with scripted models as providers. */
export async function startStack(
  providers: Record<string, ProviderOptions>,
  options: Partial<StackOptions> & {
    agents?: Record<string, unknown>;
    routing?: Record<string, unknown>;
    approvals?: Record<string, string>;
    /** More of the configuration file. */
    config?: Record<string, unknown>;
  } = {},
): Promise<Stack> {
  const state = mkdtempSync(join(tmpdir(), 'yardmaster-e2e-'));
  const models: Record<string, DemoModel> = {};
  const entries: Record<string, unknown> = {};
  for (const [name, { native, script, ...config }] of Object.entries(providers)) {
    models[name] = await startModel({ voice: native ? 'native' : 'xml', ...(script === undefined ? {} : { script }) });
    entries[name] = {
      kind: 'openai',
      base_url: models[name].url,
      auth: 'none',
      native_tools: native,
      demo: true,
      ...config,
    };
  }
  const { agents = {}, routing = {}, config = {}, approvals = {}, ...stackOptions } = options;
  const yaml = stringify({
    providers: entries,
    routing: { default_model: 'demo', providers: Object.keys(providers), retries: 0, backoff_ms: 10, ...routing },
    agents,
    approvals,
    ...config,
  });
  const stopModels = () => Promise.all(Object.values(models).map((model) => model.stop()));
  let stack: LocalStack;
  try {
    stack = await LocalStack.start({
      state,
      model: { yaml, words: '', model: 'demo', demo: true },
      apiPort: 0,
      ackWaitMs: 2000,
      onProgress: () => {},
      ...stackOptions,
      env: { ...QUICK, ...stackOptions.env },
    });
  } catch (error) {
    await stopModels();
    throw error;
  }
  const key = stack.file.api_key;
  const workspace = join(state, 'workspaces', DEMO_TENANT, 'default');
  const api = (path: string, { json, ...init }: RequestInit & { json?: unknown } = {}) =>
    fetch(`${stack.file.api_url}${path}`, {
      ...init,
      ...(json === undefined ? {} : { method: init.method ?? 'POST', body: JSON.stringify(json) }),
      headers: {
        authorization: `Bearer ${key}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(init.headers as Record<string, string>),
      },
    });
  const jsonOf = async <T>(response: Response): Promise<T> => {
    const text = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${text}`);
    return JSON.parse(text) as T;
  };
  const get = async (run: string) => jsonOf<RunView>(await api(`/v1/runs/${run}`));
  return {
    stack,
    models,
    url: stack.file.api_url,
    key,
    put(files) {
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(workspace, path)), { recursive: true });
        writeFileSync(join(workspace, path), content);
      }
    },
    file: (path) => join(workspace, path),
    api,
    start: async (body) => jsonOf<RunView>(await api('/v1/runs', { json: body })),
    get,
    async settled(run, ms = 30_000) {
      const until = Date.now() + ms;
      for (;;) {
        const view = await get(run);
        if ([...OVER, 'waiting_approval'].includes(view.state)) return view;
        if (Date.now() > until) throw new Error(`run ${run} is still ${view.state} after ${ms} ms`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async events(run, after = 0) {
      const found: StoredEvent[] = [];
      for (let last = after; ;) {
        const page = await jsonOf<{ items: StoredEvent[] }>(
          await api(`/v1/runs/${run}/events?after=${last}`, { headers: { accept: 'application/json' } }),
        );
        if (page.items.length === 0) return found;
        found.push(...page.items);
        last = found.at(-1)!.id;
      }
    },
    async stop() {
      await stack.stop();
      await stopModels();
      rmSync(state, { recursive: true, force: true });
    },
  };
}

/** Reads an SSE body until it ends, `limit` stored events have come, or `signal` aborts. */
export async function readSse(response: Response, limit = Number.POSITIVE_INFINITY): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  let buffer = '';
  for await (const chunk of response.body!.pipeThrough(
    new TextDecoderStream() as never,
  ) as unknown as AsyncIterable<string>) {
    buffer += chunk;
    for (let end; (end = buffer.indexOf('\n\n')) >= 0; buffer = buffer.slice(end + 2)) {
      const lines = buffer.slice(0, end).split('\n');
      const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
      if (data.length === 0) continue;
      const event = JSON.parse(data.join('\n')) as StoredEvent;
      if (lines.some((line) => line.startsWith('id: '))) events.push(event);
      if (events.length >= limit) return events;
    }
  }
  return events;
}

/** Every call of a history has one result right after it, in order; no result stands alone. */
export function wellFormed(
  items: { type: string; tool_calls?: { id: string }[]; results?: { tool_call_id: string }[] }[],
): boolean {
  return items.every((item, index) => {
    if (item.type === 'assistant_tool_calls') {
      const next = items[index + 1];
      return (
        next?.type === 'tool_results' &&
        JSON.stringify(next.results!.map((r) => r.tool_call_id)) === JSON.stringify(item.tool_calls!.map((c) => c.id))
      );
    }
    return item.type !== 'tool_results' || items[index - 1]?.type === 'assistant_tool_calls';
  });
}
