import { afterEach, expect, it } from 'vitest';
import { ContentThreads } from './content-threads.js';

const open: ContentThreads[] = [];
const threads = (size: number, heapMb?: number) => {
  const made = new ContentThreads({ threads: size, ...(heapMb === undefined ? {} : { heapMb }) });
  open.push(made);
  return made;
};
afterEach(() => Promise.all(open.splice(0).map((one) => one.close())));

const never = new AbortController().signal;
const of = (tenant: string, signal = never) => ({ tenant, signal });
const bytesOf = (text: string) => new TextEncoder().encode(text);
/** Keeps a thread busy until it is ended: minutes of matching, since no letter of the text rules the pattern out. */
const endless = () => ({
  files: [bytesOf(`${'ab'.repeat(3_000_000)}\n`)],
  pattern: '(a|b|ab){1,300}\\b',
  regex: true,
  wanted: 1,
});

it('bytes are moved to a thread and back, not copied', async () => {
  const bytes = bytesOf('some text');
  const done = await threads(1).run('hash', { bytes }, of('acme'));
  expect(bytes).toHaveLength(0);
  expect(new TextDecoder().decode(done.bytes)).toBe('some text');
  expect(done.hash).toMatch(/^[0-9a-f]{64}$/);
});

it('a task that is aborted ends its thread, and the next one gets a new one', async () => {
  const pool = threads(1);
  const abort = new AbortController();
  const busy = pool.run('match', endless(), of('acme', abort.signal));
  const behind = pool.run('encode', { text: 'a' }, of('acme'));
  const ended = expect(busy).rejects.toThrow('the run was cancelled');
  abort.abort(new Error('the run was cancelled'));
  await ended;
  expect((await behind).bytes).toHaveLength(1);
});

it("one tenant's tasks leave a thread to the others", async () => {
  const pool = threads(2);
  const abort = new AbortController();
  const busy = Array.from({ length: 3 }, () => pool.run('match', endless(), of('greedy', abort.signal)));
  expect((await pool.run('encode', { text: 'ab' }, of('acme'))).bytes).toHaveLength(2);
  const ended = busy.map((one) => expect(one).rejects.toThrow('enough'));
  abort.abort(new Error('enough'));
  await Promise.all(ended);
});

it('a task that needs more memory than it is given is refused, and others go on', async () => {
  const pool = threads(1, 24);
  const edit = {
    bytes: bytesOf('a\n'.repeat(2_000_000)),
    path: 'a.txt',
    edits: [{ oldString: 'a', newString: 'b', replaceAll: true }],
    minConfidence: undefined,
    syntaxGate: false,
    maxBytes: 10_000_000,
    maxDiffUnits: 1_000,
  };
  await expect(pool.run('edit', edit, of('acme'))).rejects.toMatchObject({ code: 'YM-FILES-TOO-LARGE' });
  expect((await pool.run('encode', { text: 'abc' }, of('acme'))).bytes).toHaveLength(3);
});

it('after it was closed nothing is begun', async () => {
  const pool = threads(1);
  const abort = new AbortController();
  const busy = pool.run('match', endless(), of('acme', abort.signal));
  const ended = expect(busy).rejects.toThrow('closed');
  await pool.close();
  await ended;
  await expect(pool.run('encode', { text: '' }, of('acme'))).rejects.toThrow('closed');
});
