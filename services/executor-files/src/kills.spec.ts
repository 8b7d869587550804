import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Fixture, makeFixture } from './fixture.js';

// Another process makes the calls, from the built files, and is killed.
const PROGRAM = `
const from = (file) => import(new URL(file, process.argv[1]));
const [{ fileTools }, { CallJournal }, { Locks }, { Quotas }, { ContentThreads }] = await Promise.all([
  from('file-tools.js'), from('storage/call-journal.js'), from('storage/locks.js'), from('storage/quotas.js'),
  from('content/content-threads.js')]);
const [, , root, calls, forever] = process.argv;
const limit = 10_000_000;
const tools = fileTools({
  root, limits: { readBytes: limit, writeBytes: limit, editBytes: limit, searchHits: 10 }, locks: new Locks(),
  quotas: new Quotas(root, { bytes: 0, files: 0 }), journal: new CallJournal(root + '/.executor-files/journal', 100),
  content: new ContentThreads(), embed: undefined, ripgrep: undefined, syntaxGate: false,
});
for (let round = 0; ; round++) {
  for (const { name, args, runId } of JSON.parse(calls)) {
    if (args.content?.length === 1) args.content = args.content.repeat(1_500_000 + round);
    const outcome = await tools.find((tool) => tool.name === name).run(args, {
      tenant: 'acme', workspace: 'main', runId: runId + (round || ''), callId: '1-0', attempt: 1,
      signal: new AbortController().signal, call: { argumentsJson: JSON.stringify(args), argsHash: '' } });
    if (round === 0) console.log(JSON.stringify(outcome));
  }
  if (forever !== 'forever') break;
}
process.exit(0);
`;
const BUILT = new URL('../dist/', import.meta.url).href;

let files: Fixture;
beforeEach(() => (files = makeFixture()));
afterEach(() => files.close());

const at = (path: string) => join(files.home, path);
interface Call {
  name: string;
  args: Record<string, unknown>;
  runId: string;
}

function start(calls: Call[], env: Record<string, string>, forever = ''): ChildProcess {
  return spawn(
    process.execPath,
    ['--input-type=module', '-e', PROGRAM, BUILT, files.services.root, JSON.stringify(calls), forever],
    { cwd: new URL('..', import.meta.url), env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] },
  );
}
const ended = (child: ChildProcess) =>
  new Promise<NodeJS.Signals | number | null>((resolve) =>
    child.once('close', (code, signal) => resolve(signal ?? code)),
  );
const leftovers = () => readdirSync(files.home, { recursive: true }).filter((name) => String(name).includes('.ym-'));

const OLD = 'import os\nprint(os.name)\n';
const NEW = 'import os\nimport os.path\nprint(os.name)\n';

it.each(['files.journal.begun', 'files.temporary.written', 'files.renamed', 'files.journal.done'])(
  'killed at %s an edit is there or not, and delivered again it is there once',
  async (point) => {
    writeFileSync(at('a.py'), OLD);
    const args = { path: 'a.py', old_string: 'import os\n', new_string: 'import os\nimport os.path\n' };
    const call = { name: 'file_edit', args, runId: 'run-1' };
    expect(await ended(start([call], { YM_FAILPOINT: point }))).toBe('SIGKILL');
    const made = point === 'files.renamed' || point === 'files.journal.done';
    expect(readFileSync(at('a.py'), 'utf8')).toBe(made ? NEW : OLD);
    const again = await files.call('file_edit', args, { runId: 'run-1', attempt: 2, callId: '1-0' });
    expect(again.verdict).toMatchObject({ status: made ? 'already_applied' : 'applied' });
    expect(again.output).toContain('+import os.path');
    expect([readFileSync(at('a.py'), 'utf8'), leftovers()]).toEqual([NEW, []]);
  },
);

it('a change of another after the kill is not overwritten: the outcome is unclear', async () => {
  writeFileSync(at('a'), 'old');
  const call = { name: 'file_write', args: { path: 'a', content: 'new' }, runId: 'run-1' };
  expect(await ended(start([call], { YM_FAILPOINT: 'files.renamed' }))).toBe('SIGKILL');
  writeFileSync(at('a'), 'of another');
  expect(await files.call('file_write', call.args, { runId: 'run-1', attempt: 2 })).toMatchObject({
    ok: false,
    reason: 'unclear',
    outcomeUnknown: true,
  });
  expect(readFileSync(at('a'), 'utf8')).toBe('of another');
});

it.each(['files.journal.begun', 'files.linked', 'files.renamed'])(
  'killed at %s a move loses nothing, and delivered again it is done',
  async (point) => {
    writeFileSync(at('from'), 'x');
    const call = { name: 'file_move', args: { from: 'from', to: 'to' }, runId: 'run-1' };
    expect(await ended(start([call], { YM_FAILPOINT: point }))).toBe('SIGKILL');
    expect(existsSync(at('from')) || existsSync(at('to'))).toBe(true);
    expect((await files.call('file_move', call.args, { runId: 'run-1', attempt: 2 })).ok).toBeUndefined();
    expect(readdirSync(files.home)).toEqual(['to']);
  },
);

it.each(['files.journal.begun', 'files.deleted'])(
  'killed at %s a delete is done when it is delivered again',
  async (point) => {
    mkdirSync(at('folder/in'), { recursive: true });
    writeFileSync(at('folder/in/a'), 'x');
    const call = { name: 'file_delete', args: { path: 'folder', recursive: true }, runId: 'run-1' };
    expect(await ended(start([call], { YM_FAILPOINT: point }))).toBe('SIGKILL');
    expect((await files.call('file_delete', call.args, { runId: 'run-1', attempt: 2 })).ok).toBeUndefined();
    expect(readdirSync(files.home)).toEqual([]);
  },
);

it('killed at any moment a large file is the old one or the new', async () => {
  writeFileSync(at('large'), 'a');
  const calls = ['b', 'c'].map((content, i) => ({
    name: 'file_write',
    args: { path: 'large', content },
    runId: `run-${i}`,
  }));
  const isWhole = () => {
    const text = readFileSync(at('large'), 'utf8');
    return text.length >= 1_500_000 && (/^b+$/.test(text) || /^c+$/.test(text));
  };
  for (let i = 0; i < 6; i++) {
    const child = start(calls, {}, 'forever');
    await new Promise((resolve) => child.stdout!.once('data', resolve));
    // Whoever looks while it is written sees a whole one too.
    for (let looks = 0; looks < 15; looks++) {
      expect(isWhole()).toBe(true);
      await sleep(i);
    }
    child.kill('SIGKILL');
    await ended(child);
    expect(isWhole()).toBe(true);
  }
});
