import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serverEnv } from './find-server.ts';

export const SERVER = process.env['YM_LLAMA_SERVER'] ?? '';
const MODEL = process.env['YM_LLAMA_MODEL'] ?? '';
/** Key of every server here. */
export const KEY = 'sk-llama-test-5b1d';

export interface LlamaOptions {
  contextSize?: number;
  slots?: number;
  /** Vectors instead of the chat template with tools. */
  embeddings?: boolean;
  /** Else a free one. */
  port?: number;
}

export interface Llama {
  url: string;
  /** Resolves when the model is loaded. */
  loaded: Promise<void>;
  json<T>(path: string, body?: unknown): Promise<{ status: number; body: T }>;
  /** Values of `/metrics` by name. */
  metrics(): Promise<Record<string, number>>;
  slots(): Promise<{ id: number; is_processing: boolean; n_ctx: number }[]>;
  stop(): Promise<void>;
}

/** A port that nobody had a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/**
 * The arguments of charts/llama, on this machine's loopback and without a GPU; `flags.spec.ts` compares them with the
 * chart's template.
 */
export function chartArgs(port: number, keyFile: string, { contextSize = 4096, slots = 2 }: LlamaOptions): string[] {
  return [
    ...['--host', '127.0.0.1', '--port', String(port), '--model', MODEL, '--alias', 'tiny'],
    ...['--ctx-size', String(contextSize), '--parallel', String(slots), '--no-kv-unified', '--n-gpu-layers', '0'],
    ...['--metrics', '--no-ui', '--offline', '--api-key-file', keyFile, '--cache-ram', '0', '--no-cache-idle-slots'],
    '--jinja',
  ];
}

/** Starts a server; it answers, with 503, long before it has loaded its model. */
export async function startLlama(options: LlamaOptions = {}): Promise<Llama> {
  if (SERVER === '' || MODEL === '')
    throw new Error('run this through "npm run test:llama": it finds server and model');
  const port = options.port ?? (await freePort());
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-llama-'));
  const keyFile = join(folder, 'key');
  writeFileSync(keyFile, KEY);
  const kind = options.embeddings
    ? ['--embeddings', '--pooling', 'mean']
    : ['--chat-template-file', fileURLToPath(new URL('tools.jinja', import.meta.url))];
  const child: ChildProcess = spawn(SERVER, [...chartArgs(port, keyFile, options), ...kind], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: serverEnv(SERVER),
  });
  let said = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (bytes) => (said = (said + String(bytes)).slice(-4000)));
  let ended: string | undefined;
  child.once('exit', (code, signal) => (ended = `llama-server ended (${code ?? signal}):\n${said}`));
  const url = `http://127.0.0.1:${port}`;
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const get = async (path: string) => (await fetch(`${url}${path}`, { headers })).text();
  const load = async () => {
    for (;;) {
      if (ended !== undefined) throw new Error(ended);
      const status = await fetch(`${url}/health`).then(
        (response) => (void response.text(), response.status),
        () => 0,
      );
      if (status === 200) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const loaded = load();
  loaded.catch(() => undefined);
  return {
    url,
    loaded,
    json: async <T>(path: string, body?: unknown) => {
      const response = await fetch(`${url}${path}`, {
        headers,
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      });
      return { status: response.status, body: (await response.json()) as T };
    },
    metrics: async () => {
      const lines = (await get('/metrics')).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
      return Object.fromEntries(lines.map((line) => line.split(' ')).map(([name, value]) => [name!, Number(value)]));
    },
    slots: async () => JSON.parse(await get('/slots')) as { id: number; is_processing: boolean; n_ctx: number }[],
    stop: async () => {
      if (ended === undefined) {
        const gone = once(child, 'exit');
        child.kill('SIGTERM');
        // It does not listen to SIGTERM while it reads a long prompt.
        const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
        await gone;
        clearTimeout(timer);
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
