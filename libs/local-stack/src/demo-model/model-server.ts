import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { plan } from './plan.js';
import { complaint, type ModelRequest, turnsOf, type Voice, voiceOf } from './request.js';
import { type Reaction, type Script, scripted } from './script.js';

/** Models by what they do: the demo itself, one that is always overloaded, one that always fails. */
export const DEMO_MODELS = ['demo', 'demo-busy', 'demo-broken'] as const;

export interface ModelOptions {
  script?: Script;
  port?: number;
  /** Ignores the field `tools` (`xml`), or the system prompt's instructions (`native`), as real servers may. */
  voice?: Voice;
  /** Between the chunks of a stream, in milliseconds, so that people can see it. */
  chunkDelayMs?: number;
}

/** One request as the server saw it. */
export interface Seen {
  path: string;
  headers: IncomingMessage['headers'];
  body: ModelRequest;
  /** True once the caller closed the connection before the answer was complete. */
  abandoned: boolean;
  /** Status that was answered; undefined while nothing was. */
  status: number | undefined;
}

export interface DemoModel {
  /** Base URL for an OpenAI client: `http://127.0.0.1:PORT/v1`. */
  url: string;
  port: number;
  /** Requests to chat/completions, oldest first, the last thousand. */
  seen: Seen[];
  /** Replaces the script; numbers start from 0 again. */
  play(script: Script | undefined): void;
  stop(): Promise<void>;
}

const HEADERS = { 'x-yardmaster-demo': 'scripted demo model' };

/** Starts the scripted OpenAI-compatible demo model on loopback. It refuses malformed histories, as strict servers do. */
export async function startModel(options: ModelOptions = {}): Promise<DemoModel> {
  let script = options.script;
  let number = 0;
  const seen: Seen[] = [];
  // Connections that the script cuts: their end is our doing and not the caller's.
  const cut = new WeakSet<ServerResponse>();
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) fail(response, 500, 'server_error', String(error));
      else response.destroy();
    });
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://demo').pathname;
    if (request.method === 'GET' && path === '/health') return send(response, 200, { status: 'ok' });
    if (request.method === 'GET' && path === '/v1/models')
      return send(response, 200, {
        object: 'list',
        data: DEMO_MODELS.map((id) => ({ id, object: 'model', created: 0, owned_by: 'yardmaster-demo' })),
      });
    if (request.method !== 'POST' || path !== '/v1/chat/completions')
      return fail(response, 404, 'not_found', `there is no ${request.method} ${path} here`);
    let body: ModelRequest;
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      body = JSON.parse(Buffer.concat(chunks).toString()) as ModelRequest;
    } catch {
      return fail(response, 400, 'invalid_request_error', 'the body is not valid JSON');
    }
    const entry: Seen = { path, headers: request.headers, body, abandoned: false, status: undefined };
    seen.push(entry);
    if (seen.length > 1000) seen.shift();
    response.on('close', () => {
      entry.abandoned = !response.writableFinished && !cut.has(response);
    });
    const malformed = complaint(body);
    if (malformed !== undefined) {
      entry.status = 400;
      return fail(response, 400, 'invalid_request_error', malformed);
    }
    const reaction = (await scripted(script, body, number++)) ?? itself(body);
    await react(response, body, reaction, entry);
  }

  function itself(body: ModelRequest): Reaction {
    if (body.model === 'demo-busy')
      return {
        status: 503,
        headers: { 'retry-after': '30' },
        body: errorBody('overloaded', 'the demo model is busy, on purpose'),
      };
    if (body.model === 'demo-broken')
      return { status: 500, body: errorBody('server_error', 'the demo model is broken, on purpose') };
    const { tools } = voiceOf(body, options.voice);
    return { chunkDelayMs: options.chunkDelayMs ?? 0, ...plan(turnsOf(body), tools) };
  }

  async function react(response: ServerResponse, body: ModelRequest, reaction: Reaction, entry: Seen): Promise<void> {
    if (reaction.hang) return;
    if (reaction.delayMs) await sleep(reaction.delayMs);
    if (reaction.cutAfter !== undefined) cut.add(response);
    if (reaction.cutAfter === 0) {
      response.destroy();
      return;
    }
    entry.status = reaction.status ?? 200;
    if (reaction.status !== undefined && reaction.status !== 200) {
      response.writeHead(reaction.status, { ...HEADERS, 'content-type': 'application/json', ...reaction.headers });
      const { body: text = errorBody('error', `status ${reaction.status}, as scripted`) } = reaction;
      response.end(typeof text === 'string' ? text : JSON.stringify(text));
      return;
    }
    const { voice } = voiceOf(body, options.voice);
    const answer = voice === 'xml' ? inTags(reaction) : reaction;
    if (body.stream || reaction.raw !== undefined) await stream(response, body, answer);
    else send(response, 200, complete(body, answer), reaction.headers);
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  server.unref();
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    seen,
    play(next) {
      script = next;
      number = 0;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const errorBody = (type: string, message: string) => ({ error: { message, type, param: null, code: type } });

function send(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { ...HEADERS, 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

function fail(response: ServerResponse, status: number, type: string, message: string): void {
  send(response, status, errorBody(type, message));
}

/** The same answer in tags: calls become text. */
function inTags(reaction: Reaction): Reaction {
  const { calls = [], ...rest } = reaction;
  if (calls.length === 0) return reaction;
  const blocks = calls.map(({ name, arguments: args }) => {
    const text = typeof args === 'string' ? args : JSON.stringify(args);
    return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${text}}\n</tool_call>`;
  });
  return {
    finishReason: 'stop',
    ...rest,
    text: [reaction.text ?? '', ...blocks].filter((part) => part !== '').join('\n'),
  };
}

let calls = 0;

function parts(body: ModelRequest, { text, reasoning, calls: asked, finishReason, usage }: Reaction) {
  const toolCalls = asked?.map(({ id, name, arguments: args }) => ({
    id: id ?? `call_demo_${++calls}`,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  }));
  const prompt = Math.ceil(JSON.stringify(body.messages).length / 4);
  const completion = Math.ceil((JSON.stringify([text, reasoning, toolCalls]).length + 1) / 4);
  const { prompt_tokens, completion_tokens } = usage ?? { prompt_tokens: prompt, completion_tokens: completion };
  return {
    text: text ?? '',
    reasoning,
    toolCalls,
    finish: finishReason ?? (toolCalls?.length ? 'tool_calls' : 'stop'),
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  };
}

const envelope = (body: ModelRequest, object: string) => ({
  id: `chatcmpl-demo-${Date.now().toString(36)}`,
  object,
  created: Math.floor(Date.now() / 1000),
  model: body.model,
  system_fingerprint: 'yardmaster-demo',
});

function complete(body: ModelRequest, reaction: Reaction): unknown {
  const { text, reasoning, toolCalls, finish, usage } = parts(body, reaction);
  const message = {
    role: 'assistant',
    content: text === '' && toolCalls?.length ? null : text,
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...(toolCalls?.length && { tool_calls: toolCalls }),
  };
  return {
    ...envelope(body, 'chat.completion'),
    choices: [{ index: 0, message, finish_reason: finish, logprobs: null }],
    usage,
  };
}

async function stream(response: ServerResponse, body: ModelRequest, reaction: Reaction): Promise<void> {
  response.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream', ...reaction.headers });
  if (reaction.raw !== undefined) {
    response.end(reaction.raw);
    return;
  }
  let sent = 0;
  for (const chunk of chunksOf(body, reaction)) {
    if (sent === reaction.hangAfter) return;
    if (sent === reaction.cutAfter) {
      response.destroy();
      return;
    }
    if (sent > 0 && reaction.chunkDelayMs) await sleep(reaction.chunkDelayMs);
    if (response.destroyed) return; // the caller has gone
    response.write(`data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`);
    sent++;
  }
  response.end();
}

function* chunksOf(body: ModelRequest, reaction: Reaction): Generator<unknown> {
  const { text, reasoning, toolCalls, finish, usage } = parts(body, reaction);
  const base = envelope(body, 'chat.completion.chunk');
  const chunk = (delta: unknown, finishReason: string | null = null) => ({
    ...base,
    choices: [{ index: 0, delta, finish_reason: finishReason, logprobs: null }],
  });
  yield chunk({ role: 'assistant', content: '' });
  for (const piece of pieces(reasoning ?? '')) yield chunk({ reasoning_content: piece });
  for (const piece of pieces(text)) yield chunk({ content: piece });
  for (const [index, call] of (toolCalls ?? []).entries()) {
    yield chunk({
      tool_calls: [{ index, id: call.id, type: 'function', function: { name: call.function.name, arguments: '' } }],
    });
    for (const piece of pieces(call.function.arguments))
      yield chunk({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  if (reaction.noEnd) return;
  yield chunk({}, finish);
  if (body.stream_options?.include_usage) yield { ...base, choices: [], usage };
  yield '[DONE]';
}

/** Text as a model streams it: about a word at a time, never inside a character. */
const pieces = (text: string): string[] => text.match(/\s*\S{1,12}|\s+/gu) ?? [];
