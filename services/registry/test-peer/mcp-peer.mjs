// An MCP server for tests that does what it is told to do wrong, spoken by hand so that it can: `node mcp-peer.mjs STATE
// stdio|http [PORT]`. STATE is a JSON file that is read for every answer:
// {tools, pageSize?, sameCursor?, authorization?: [accepted tokens], mute?, deep?, long?}. `mute` answers nothing; for
// "@deep@" and "@long@" in its answers stand so many levels of objects, and so many letters. Over HTTP it keeps what it saw in STATE.seen.
import { appendFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createHash, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createConnection } from 'node:net';
import { createInterface } from 'node:readline';

const [file, mode, port] = process.argv.slice(2);
const state = () => {
  for (let tries = 1; ; tries++) {
    try {
      return JSON.parse(readFileSync(file, 'utf8'));
    } catch (error) {
      // It is being written just now.
      if (tries === 1000) throw error;
    }
  }
};
const sha256 = (value) => (value === undefined ? null : createHash('sha256').update(value).digest('hex'));
const text = (value) => ({
  content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }],
});
const fault = (code, message) => ({ error: { code, message } });
let kept = [];
const written = (message) => {
  const { deep = 0, long = 0 } = state();
  return JSON.stringify(message)
    .replaceAll('"@deep@"', () => '{"a":'.repeat(deep) + '{}' + '}'.repeat(deep))
    .replaceAll('"@long@"', () => `"${'x'.repeat(long)}"`);
};
// Not the pid: every sandbox counts its own.
const PROCESS = randomUUID();

const CALLS = {
  echo: (args) => text(args.text ?? ''),
  whoami: (_, session) =>
    // Hashed: a credential itself does not get through.
    text({ token: sha256(session.token), process: PROCESS, session: session.id ?? null }),
  keep: (args) => text((kept.push(args.text), kept)),
  sad: () => ({ ...text('the tool says that it failed'), isError: true }),
  unknown: () => fault(-32602, 'MCP error -32602: Tool unknown not found'),
  internal: () => fault(-32603, 'the database is away'),
  leak: (_, session) =>
    fault(-32603, `bad token ${session.token} (${Buffer.from(String(session.token)).toString('base64')})`),
  right: () => ({ ...text('21 degrees'), structuredContent: { degrees: 21 } }),
  wrong: () => ({ ...text('warm'), structuredContent: { degrees: 'warm' } }),
  none: () => text('no structure'),
  slow: (args) => new Promise((resolve) => setTimeout(() => resolve(text('slow')), args.ms ?? 60_000)),
  // Ends before it answers, the first time in the life of `args.mark`.
  die: (args) => {
    if (existsSync(args.mark)) return text(`survived, call ${statSync(args.mark).size + 1}`);
    appendFileSync(args.mark, 'x');
    process.exit(1);
  },
  env: () => text(Object.keys(process.env).sort()),
  read: (args) => {
    try {
      return text(readFileSync(args.path, 'utf8').slice(0, 200));
    } catch (error) {
      return { ...text(error.code), isError: true };
    }
  },
  write: (args) => {
    try {
      writeFileSync(args.path, args.text ?? 'x');
      return text('written');
    } catch (error) {
      return { ...text(error.code), isError: true };
    }
  },
  connect: (args) =>
    new Promise((resolve) => {
      const socket = createConnection({ host: '127.0.0.1', port: args.port }, () => resolve(text('connected')));
      socket.on('error', (error) => resolve({ ...text(error.code), isError: true }));
    }),
  hog: () => {
    const hoard = [];
    for (;;) hoard.push(Buffer.alloc(16 << 20, 1));
  },
};

async function answer(message, session) {
  const { id, method, params = {} } = message;
  if (state().mute) return undefined;
  if (id === undefined) return undefined;
  const say = (result) => ({ jsonrpc: '2.0', id, ...('error' in result ? result : { result }) });
  if (method === 'initialize')
    return say({
      protocolVersion: '2025-06-18',
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'peer', version: '1' },
    });
  if (method === 'tools/list') {
    const { tools, pageSize = 1000, sameCursor } = state();
    const from = Number(params.cursor ?? 0);
    const next = sameCursor ? '1' : from + pageSize < tools.length ? String(from + pageSize) : undefined;
    return say({ tools: tools.slice(from, from + pageSize), ...(next === undefined ? {} : { nextCursor: next }) });
  }
  if (method === 'tools/call') {
    const run = CALLS[params.name];
    if (run === undefined) return say({ ...text(`MCP error -32602: Tool ${params.name} not found`), isError: true });
    return say(await run(params.arguments ?? {}, session));
  }
  if (method === 'ping') return say({});
  return say(fault(-32601, `Method not found: ${method}`));
}

if (mode === 'stdio') {
  const send = (message) => process.stdout.write(`${written(message)}\n`);
  const session = { token: process.env.PEER_TOKEN };
  process.stderr.write('the peer begins\n');
  createInterface({ input: process.stdin }).on('line', (line) => {
    void answer(JSON.parse(line), session).then((reply) => reply && send(reply));
  });
  process.stdin.on('end', () => process.exit(0));
  let before = statSync(file).mtimeMs;
  setInterval(() => {
    const now = statSync(file).mtimeMs;
    if (now !== before) send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
    before = now;
  }, 50);
} else {
  let sessions = 0;
  createServer(async (request, response) => {
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1];
    const id = request.headers['mcp-session-id'];
    appendFileSync(`${file}.seen`, `${JSON.stringify({ token: token ?? null, session: id ?? null })}\n`);
    const { authorization, status } = state();
    const refuse = (code) => response.writeHead(code, { 'content-type': 'text/plain' }).end(`no: ${token}`);
    if (status !== undefined) return refuse(status);
    if (authorization !== undefined && !authorization.includes(token)) return refuse(401);
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const message = JSON.parse(body);
    const own = message.method === 'initialize' ? `s${++sessions}` : id;
    const reply = await answer(message, { token, id: own });
    if (reply === undefined) return response.writeHead(202).end();
    response.writeHead(200, { 'content-type': 'application/json', ...(own && { 'mcp-session-id': own }) });
    response.end(written(reply));
  }).listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'));
}
