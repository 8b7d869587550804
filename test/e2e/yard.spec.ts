import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';

const PROGRAM = fileURLToPath(new URL('../../services/yard/bin/yard.mjs', import.meta.url));

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

let yard: Stack;
let home: string;

/** The real command as a process of its own, against the stack unless `env` says otherwise. */
function launch(args: string[], options: { env?: NodeJS.ProcessEnv; stdin?: string } = {}) {
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    YM_STATE: yard.stack.state,
    YM_CONTEXTS: join(home, 'contexts.json'),
    ...options.env,
  };
  for (const name of ['YM_API_URL', 'YM_API_KEY', 'YM_CONTEXT', 'FORCE_COLOR'])
    if (options.env?.[name] === undefined) delete env[name];
  const child: ChildProcess = spawn(process.execPath, [PROGRAM, ...args], { env, stdio: 'pipe' });
  child.stdin!.end(options.stdin ?? '');
  let out = '';
  let err = '';
  child.stdout!.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr!.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const ended = new Promise<Ended>((resolve) => child.once('close', (code) => resolve({ code, out, err })));
  return { child, ended, said: () => err };
}
const run = (args: string[], options?: Parameters<typeof launch>[1]) => launch(args, options).ended;
const json = (ended: Ended) => JSON.parse(ended.out) as Record<string, unknown>;

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'yardmaster-cli-'));
  yard = await startStack(
    {
      model: {
        native: true,
        models: ['demo'],
        script: ({ messages }) => {
          const asked = String(messages.findLast((message) => message.role === 'user')?.content ?? '');
          const results = messages.filter((message) => message.role === 'tool').length;
          const call = (command: string) => ({ calls: [{ name: 'shell_run', arguments: { command } }] });
          if (asked === 'fail') return { status: 400, body: { error: { message: 'this model says no' } } };
          if (asked === 'be slow') return results === 0 ? call('sleep 3; echo slept') : { text: 'slept' };
          if (asked === 'touch it')
            return results === 0
              ? { calls: [{ name: 'file_write', arguments: { path: 'touched.txt', content: 'x' } }] }
              : { text: 'touched it' };
          return { text: `answer to: ${asked}` };
        },
      },
    },
    { approvals: { write: 'ask' } },
  );
});
afterAll(async () => {
  await yard?.stop();
  rmSync(home, { recursive: true, force: true });
});

describe('ask and run', () => {
  it('gives the answer alone on stdout, steps on stderr, and reads the task from stdin', async () => {
    const [told, piped] = await Promise.all([
      run(['ask', 'say', 'something']),
      run(['ask', '-'], { stdin: 'piped in' }),
    ]);
    expect(told).toMatchObject({ code: 0, out: 'answer to: say something\n' });
    expect(told.err).toContain('completed in');
    expect(told.err).not.toMatch(/\u001B/);
    expect(piped.out).toBe('answer to: piped in\n');
  });

  it('shows the objects of the API unchanged, and finds runs by a piece of their id', async () => {
    const started = json(await run(['run', 'start', 'hello', '-o', 'json', '--metadata', 'ticket=7']));
    const id = String(started['id']);
    expect(await run(['run', 'result', id])).toMatchObject({ code: 0, out: 'answer to: hello\n' });
    const get = (...args: string[]) => run(['run', 'get', ...args]);
    const [end, middle, yaml, short, several, unknown] = await Promise.all([
      get(id.slice(-8), '-o', 'json'),
      get(id.slice(15, 23), '-o', 'json'),
      get(id, '-o', 'yaml'),
      get(id.slice(-5)),
      get(id.slice(0, 6)),
      get('ffffffffffff'),
    ]);
    expect(json(end)).toEqual(await yard.get(id));
    expect(json(end)['metadata']).toEqual({ ticket: '7' });
    expect(json(middle)['id']).toBe(id);
    expect(yaml.out).toContain(`id: ${id}\n`);
    expect(short).toMatchObject({ code: 2, out: '' });
    expect(short.err).toContain('at least 6 characters');
    expect(several.code).toBe(2);
    expect(several.err).toContain(id);
    expect(unknown.code).toBe(3);
    expect(unknown.err).toContain('yard run list');
  });

  it('prints events as JSON lines, the last one terminal', async () => {
    const id = (await run(['run', 'start', 'x', '-o', 'name'])).out.trim();
    const watched = await run(['run', 'watch', id, '-o', 'jsonl']);
    expect(watched.code).toBe(0);
    const events = watched.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { id?: number; type: string });
    const numbers = events.flatMap((event) => event.id ?? []);
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(events.at(-1)?.type).toBe('run.completed');
  });

  it('tells by its exit code that a run failed, and says the cause first', async () => {
    const asked = await run(['ask', 'fail']);
    expect(asked).toMatchObject({ code: 10, out: '' });
    const id = /run ([0-9a-f-]{36})/.exec(asked.err)![1]!;
    const got = await run(['run', 'get', id]);
    expect(got.out.split('\n')[0]).toMatch(/^Run failed: .*YM-LLM-/);
    expect((await run(['run', 'list', '--agent', 'nobody'])).err).toContain('no run is like that');
    const list = json(await run(['run', 'list', '--state', 'failed', '--since', '1h', '-o', 'json']));
    expect((list['items'] as { id: string }[]).map((item) => item.id)).toContain(id);
  });

  it('leaves the run going on Ctrl-C, and when --timeout is over; cancel ends it', async () => {
    const id = (await run(['run', 'start', 'be slow', '-o', 'name'])).out.trim();
    const watching = launch(['run', 'watch', id]);
    const impatient = run(['run', 'result', id, '--timeout', '1']);
    while (!watching.said().includes('shell_run')) await new Promise((resolve) => setTimeout(resolve, 20));
    watching.child.kill('SIGINT');
    const watched = await watching.ended;
    expect(watched.code).toBe(130);
    expect(watched.err).toContain(`detached, the run goes on; cancel with: yard run cancel ${id}`);
    expect((await impatient).code).toBe(8);
    expect(await run(['run', 'cancel', id, '--reason', 'enough'])).toMatchObject({ code: 0 });
    expect((await run(['run', 'result', id])).code).toBe(11);
    expect((await run(['run', 'cancel', id])).code).toBe(5);
  });

  it('keeps to an idempotency key', async () => {
    const start = (text: string) => run(['run', 'start', text, '--idempotency-key', 'k1', '-o', 'name']);
    const first = await start('once');
    expect((await start('once')).out).toBe(first.out);
    const other = await start('twice');
    expect(other.code).toBe(5);
    expect(other.err).toMatch(/was used at .* with another body/);
  });

  it('says how many runs there are beyond those that it shows, and takes them all', async () => {
    const few = await run(['run', 'list', '--limit', '2', '-o', 'name']);
    expect(few.out.trim().split('\n')).toHaveLength(2);
    expect(few.err).toMatch(/^2 of \d+; more: --limit N or --all\n$/);
    const all = await run(['run', 'list', '--all', '-o', 'name']);
    expect(all.out.trim().split('\n')).toHaveLength(Number(/of (\d+)/.exec(few.err)![1]));
  });
});

describe('approvals', () => {
  it('exits with 13 and the command that approves; the first decision counts', async () => {
    const asked = await run(['ask', 'touch it']);
    expect(asked.code).toBe(13);
    const approve = /yard (approval approve \S+ \S+)/.exec(asked.err)![1]!.split(' ');
    const waiting = json(await run(['approval', 'list', '-o', 'json']));
    expect(waiting['items']).toMatchObject([{ tool: 'file_write', state: 'waiting', run_id: approve[2] }]);
    expect(await run(approve)).toMatchObject({ code: 0 });
    expect(await run(['run', 'result', approve[2]!])).toMatchObject({ code: 0, out: 'touched it\n' });
    const late = await run(['approval', 'deny', ...approve.slice(2)]);
    expect(late.code).toBe(5);
    expect(late.err).toMatch(/approved already, by key \w+ at 20/);
    expect((await run(['approval', 'deny', approve[2]!, '9-9'])).code).toBe(3);
  });
});

describe('other nouns', () => {
  it('asks before something is lost, and does nothing with --dry-run', async () => {
    const [id] = (await run(['conversation', 'list', '-o', 'name'])).out.split('\n') as [string];
    const [refused, shown] = await Promise.all([
      run(['conversation', 'delete', id]),
      run(['conversation', 'delete', id, '--dry-run']),
    ]);
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('--yes');
    expect(shown).toMatchObject({ code: 0, out: `would send DELETE /v1/conversations/${id}\n` });
    expect((await run(['conversation', 'get', id])).code).toBe(0);
    expect((await run(['conversation', 'delete', id, '--yes'])).code).toBe(0);
    expect((await run(['conversation', 'get', id])).code).toBe(3);
  });

  it('registers, tests and removes a tool', async () => {
    const definition = JSON.stringify({
      description: 'Weather of a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      kind: 'weather',
      effect: 'read',
      category: 'network',
    });
    expect(await run(['tool', 'put', 'weather', '-'], { stdin: definition })).toMatchObject({ code: 0 });
    const [good, bad] = await Promise.all([
      run(['tool', 'test', 'weather', '{"city": "Seoul"}']),
      run(['tool', 'test', 'weather', '{"town": "Seoul"}']),
    ]);
    expect(good.code).toBe(0);
    expect(bad.code).toBe(2);
    expect(bad.out).toContain('city');
    expect((await run(['tool', 'delete', 'weather', '-y'])).code).toBe(0);
  });

  it('makes a key that works through a context, and ends it', async () => {
    const key = await run(['key', 'create', 'ci', '--role', 'runs:read']);
    expect(key.out).toMatch(/^ym_demo_\S+\n$/);
    expect(
      (await run(['context', 'add', 'ci', '--api-url', yard.url, '--key-file', '-'], { stdin: key.out })).code,
    ).toBe(0);
    expect((await run(['run', 'list', '--context', 'ci'])).code).toBe(0);
    const denied = await run(['ask', 'x', '--context', 'ci']);
    expect(denied.code).toBe(4);
    expect(denied.err).toContain('YM-ROLE');
    const id = key.out.split('_')[2]!;
    expect((await run(['key', 'revoke', id, '--yes'])).code).toBe(0);
    expect((await run(['run', 'list', '--tenant', 'other'])).code).toBe(2);
  });

  it('prints the curl command with the key left out', async () => {
    const shown = await run(['run', 'list', '--curl']);
    expect(shown.out).toContain('$YM_API_KEY');
    expect(shown.out).not.toContain(yard.key);
    expect(shown.out).toContain(`${yard.url}/v1/runs`);
  });

  it('reads queues, logs, models, usage, and sets quotas', async () => {
    const [queues, logs, models, plan, usage, quota] = await Promise.all([
      run(['queue', 'list', '-o', 'json']),
      run(['logs', 'api', '-n', '5']),
      run(['model', 'list', '-o', 'name']),
      run(['provider', 'plan', '--model', 'demo', '-o', 'json']),
      run(['tenant', 'usage', '-o', 'json']),
      run(['tenant', 'quota', '--tokens-per-day', '1000000', '-o', 'json']),
    ]);
    expect(json(queues)['items']).toContainEqual(
      expect.objectContaining({ name: 'YM_RUN', kind: 'queue', waiting: 0 }),
    );
    expect(logs.out).toMatch(/api +info +.*ready/);
    expect(models.out).toContain('demo\n');
    expect((json(usage)['items'] as unknown[])[0]).toMatchObject({ requests: expect.any(Number) as number });
    expect(json(quota)).toMatchObject({ tokens_per_day: 1_000_000 });
    expect(json(plan)['candidates']).toMatchObject([{ provider: 'model', usable: true }]);
  });

  it('doctor finds a healthy stack healthy, and names what is not', async () => {
    const healthy = await run(['doctor', '-o', 'json']);
    const items = json(healthy)['items'] as { id: string; state: string }[];
    expect(items.length).toBeGreaterThanOrEqual(12);
    expect(items.filter((item) => item.state === 'failed')).toEqual([]);
    expect(healthy.code).toBe(0);
  });
});

describe('the local stack', () => {
  it('says that it runs when it is started again, and what it is', async () => {
    const [up, status] = await Promise.all([run(['dev', 'up']), run(['dev', 'status', '-o', 'json'])]);
    expect(up.code).toBe(0);
    expect(up.err).toContain(`the stack runs already: process ${process.pid}, ${yard.url}`);
    expect(json(status)).toMatchObject({ pid: process.pid, api_url: yard.url });
    expect(status.out).not.toContain(yard.key);
  });

  it('can be interrupted while it comes up, and leaves nothing behind', async () => {
    const state = join(home, 'interrupted');
    const up = launch(['dev', 'up', '--port', '0', '--provider', 'demo'], { env: { YM_STATE: state } });
    while (!up.said().includes('ready nats-server')) await new Promise((resolve) => setTimeout(resolve, 20));
    up.child.kill('SIGINT');
    expect((await up.ended).code).toBe(130);
    expect(existsSync(join(state, 'dev.json'))).toBe(false);
  });
});

describe('an API that is not there', () => {
  it('names the address and the setting, and how to start one', async () => {
    const [nowhere, none] = await Promise.all([
      run(['run', 'list'], { env: { YM_API_URL: 'http://127.0.0.1:9', YM_API_KEY: 'ym_demo_0_0' } }),
      run(['run', 'list'], { env: { YM_STATE: join(home, 'none') } }),
    ]);
    expect(nowhere.code).toBe(7);
    expect(nowhere.err).toMatch(/http:\/\/127\.0\.0\.1:9.*YM_API_URL.*start one with: npm start/);
    expect(none.code).toBe(7);
    expect(none.err).toContain('start one with: npm start');
  });

  it('is not confused by the file of a stack that died', async () => {
    writeFileSync(
      join(home, 'dev.json'),
      JSON.stringify({ pid: 2 ** 22 + 1, api_url: 'http://127.0.0.1:9', api_key: 'ym_demo_0_0' }),
      { mode: 0o600 },
    );
    const dead = await run(['run', 'list'], { env: { YM_STATE: home } });
    expect(dead.code).toBe(7);
    expect(dead.err).toContain('whose process is gone');
  });
});
