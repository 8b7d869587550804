import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fixture, makeFixture } from '../fixture.js';

let files: Fixture;
beforeEach(() => (files = makeFixture()));
afterEach(() => files.close());

const at = (path: string) => join(files.home, path);
const put = (path: string, content: string | Uint8Array) => {
  mkdirSync(at(`${path}/..`), { recursive: true });
  writeFileSync(at(path), content);
};
const text = (path: string) => readFileSync(at(path), 'utf8');
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');
const identity = (path: string) => {
  const { ino, mtimeNs, ctimeNs, mode, size } = lstatSync(at(path), { bigint: true });
  return { ino, mtimeNs, ctimeNs, mode, size };
};

describe('file_write', () => {
  it('makes folders, keeps the mode, and checks the expected hash', async () => {
    expect(await files.call('file_write', { path: 'a/b/c.sh', content: 'one\n' })).toMatchObject({
      output: 'Created a/b/c.sh (4 bytes).',
      verdict: { status: 'created', sha256: sha256('one\n') },
    });
    chmodSync(at('a/b/c.sh'), 0o751);
    const args = { path: 'a/b/c.sh', content: 'two\n', expected_sha256: sha256('one\n') };
    expect((await files.call('file_write', args)).verdict).toMatchObject({ status: 'written' });
    expect([text('a/b/c.sh'), statSync(at('a/b/c.sh')).mode & 0o7777]).toEqual(['two\n', 0o751]);
    const stale = await files.call('file_write', { ...args, content: 'three\n' });
    expect(stale).toMatchObject({ ok: false, reason: 'stale', verdict: { current_sha256: sha256('two\n') } });
    expect(readdirSync(at('a/b'))).toEqual(['c.sh']);
  });

  it('with an expected hash makes neither the file nor its folders', async () => {
    const args = { content: 'x', expected_sha256: sha256('y') };
    expect((await files.call('file_write', { path: 'new/file', ...args })).reason).toBe('not_found');
    expect((await files.call('file_write', { path: 'file', ...args })).reason).toBe('stale');
    expect(readdirSync(files.home)).toEqual([]);
  });

  it('goes through a link to a file inside, which stays a link', async () => {
    put('real/file', 'old');
    symlinkSync('real/file', at('link'));
    symlinkSync('/workspace/real/new', at('absolute'));
    const told = await files.call('file_write', { path: 'link', content: 'new' });
    expect(told.output).toContain('(Through a link: the file is real/file.)');
    await files.call('file_write', { path: 'absolute', content: 'made' });
    expect([text('real/file'), text('real/new'), lstatSync(at('link')).isSymbolicLink()]).toEqual([
      'new',
      'made',
      true,
    ]);
  });

  it('keeps the names of a file together and says so', async () => {
    put('a', 'old and longer');
    linkSync(at('a'), at('b'));
    const { ino } = identity('a');
    const told = await files.call('file_write', { path: 'a', content: 'new' });
    expect(told.output).toContain('2 names (hard links)');
    expect(told.verdict).toMatchObject({ hard_links: 2 });
    expect([text('b'), identity('b').ino]).toEqual(['new', ino]);
  });

  it('refuses what cannot be written', async () => {
    put('read-only', 'x');
    chmodSync(at('read-only'), 0o444);
    mkdirSync(at('folder'));
    const reason = async (path: string, content: string) => (await files.call('file_write', { path, content })).reason;
    expect(await reason('read-only', 'y')).toBe('read_only');
    expect(await reason('folder', 'y')).toBe('is_folder');
    expect(await reason('read-only/x', 'y')).toBe('path');
    expect(await reason('a', 'y'.repeat(1_000_001))).toBe('too_large');
    expect(await reason('a', '\uD800')).toBe('invalid_input');
    expect(await reason('a'.repeat(256), 'y')).toBe('path');
    expect(readdirSync(files.home).sort()).toEqual(['folder', 'read-only']);
  });
});

describe('file_edit and file_multi_edit', () => {
  it('an edit shows where it went and keeps what it did not touch', async () => {
    put('a.py', '\uFEFFdef f():\r\n    return 1\r\n');
    const told = await files.call('file_edit', { path: 'a.py', old_string: 'return 1', new_string: 'return 2' });
    expect(told.output).toMatch(/^Edited a\.py: line 2\.\n--- a\/a\.py\n/);
    expect(told.verdict).toMatchObject({
      status: 'applied',
      pass: 1,
      start_line: 2,
      sha256_before: expect.any(String),
    });
    expect(text('a.py')).toBe('\uFEFFdef f():\r\n    return 2\r\n');
  });

  it('a listing of file_read can be handed back as it is', async () => {
    put('a.txt', 'alpha\n\tbeta\n\ngamma\n');
    const { output } = await files.call('file_read', { path: 'a.txt', offset: 2, limit: 3 });
    const listed = output.split('\n').slice(0, 3).join('\n');
    const told = await files.call('file_edit', {
      path: 'a.txt',
      old_string: listed,
      new_string: listed.replace('beta', 'BETA'),
    });
    expect(told.verdict).toMatchObject({ status: 'applied' });
    expect(text('a.txt')).toBe('alpha\n\tBETA\n\ngamma\n');
  });

  it('a dry run shows the edit and writes nothing; blank old text makes a file', async () => {
    put('a', 'one\n');
    const before = identity('a');
    const args = { path: 'a', old_string: 'one', new_string: 'two', dry_run: true };
    expect((await files.call('file_edit', args)).output).toMatch(/^Nothing was written[\s\S]*\+two/);
    expect(identity('a')).toEqual(before);
    const made = await files.call('file_edit', { path: 'deep/new', old_string: ' \n', new_string: 'made\n' });
    expect([made.output.split('\n')[0], text('deep/new')]).toEqual(['Created deep/new (5 bytes).', 'made\n']);
    await files.call('file_multi_edit', {
      path: 'new',
      edits: [
        { old_string: '', new_string: 'one\n' },
        { old_string: 'one', new_string: 'two' },
      ],
    });
    expect(text('new')).toBe('two\n');
  });

  it('of several edits all are made or none', async () => {
    put('a', 'one\ntwo\nthree\n');
    const before = identity('a');
    const good = { old_string: 'one', new_string: '1' };
    const refused = await files.call('file_multi_edit', {
      path: 'a',
      edits: [good, { old_string: 'seventeen elephants', new_string: '17' }],
    });
    expect(refused).toMatchObject({ ok: false, reason: 'not_found', verdict: { edit: 2 } });
    expect(identity('a')).toEqual(before);
    const told = await files.call('file_multi_edit', {
      path: 'a',
      edits: [good, { old_string: 'three', new_string: '3' }, { old_string: '1\n', new_string: '1\n1.5\n' }],
    });
    expect(told.verdict).toMatchObject({ status: 'applied', edits: [{ edit: 1 }, { edit: 2 }, { edit: 3 }] });
    expect(text('a')).toBe('1\n1.5\ntwo\n3\n');
  });

  it('a refusal leaves inode, times and mode, and makes no folders', async () => {
    put('twice.txt', 'same\nsame\n');
    put('latin', Buffer.from('caf\xe9\n', 'latin1'));
    put('binary', 'a\0b');
    chmodSync(at('twice.txt'), 0o640);
    const calls: [string, Record<string, unknown>, string][] = [
      ['twice.txt', { old_string: 'same', new_string: 'other' }, 'ambiguous'],
      ['twice.txt', { old_string: 'not here at all', new_string: 'x' }, 'not_found'],
      ['twice.txt', { old_string: 'same', new_string: 'same' }, 'no_change'],
      ['twice.txt', { old_string: 'same', new_string: 'x', expected_sha256: sha256('') }, 'stale'],
      ['twice.txt', { old_string: '', new_string: 'x' }, 'invalid_input'],
      ['latin', { old_string: 'caf', new_string: 'x' }, 'not_utf8'],
      ['binary', { old_string: 'a', new_string: 'x' }, 'binary'],
      ['no/such/file', { old_string: 'a', new_string: 'x' }, 'not_found'],
    ];
    const before = ['twice.txt', 'latin', 'binary'].map(identity);
    for (const [path, args, reason] of calls)
      expect([reason, await files.call('file_edit', { path, ...args })]).toMatchObject([reason, { ok: false, reason }]);
    expect(['twice.txt', 'latin', 'binary'].map(identity)).toEqual(before);
    expect(readdirSync(files.home).sort()).toEqual(['binary', 'latin', 'twice.txt']);
  });

  it('with the syntax gate an approximate edit that breaks the file is refused, and leaves it as it was', async () => {
    const source =
      'export function total(items: Item[]): number {\n  let sum = 0;\n  for (const item of items) sum += item.price;\n  return sum;\n}\n';
    const old = '  let sum = 0;\n  for (const item of itmes) sum += item.price;\n  return sum;';
    const args = { path: 'a.ts', old_string: old, new_string: old.replace('= 0', '= (0') };
    const gated = makeFixture({ syntaxGate: true });
    try {
      for (const one of [files, gated]) writeFileSync(join(one.home, 'a.ts'), source);
      const refused = await gated.call('file_edit', args);
      expect(refused).toMatchObject({
        ok: false,
        reason: 'below_confidence',
        verdict: { candidates: [{ startLine: 2, endLine: 4 }] },
      });
      expect(refused.output).toMatch(/would leave the file with \d+ syntax errors instead of 0/);
      expect(readFileSync(join(gated.home, 'a.ts'), 'utf8')).toBe(source);
      // One that is sound passes, and so does the broken one where nobody asked for the gate.
      const sound = { ...args, new_string: old.replace('= 0', '= 1') };
      expect((await gated.call('file_edit', sound)).verdict).toMatchObject({ status: 'applied' });
      expect((await files.call('file_edit', args)).verdict).toMatchObject({ status: 'applied' });
    } finally {
      await gated.close();
    }
  });

  it('the embedding pass says that it was skipped', async () => {
    put('a.ts', 'const total = price * amount;\n');
    const told = await files.call('file_edit', { path: 'a.ts', old_string: 'completely other words', new_string: 'x' });
    expect(told.verdict!['skipped_passes']).toContainEqual(
      expect.objectContaining({ pass: 7, reason: 'no embedding endpoint' }),
    );
  });
});

describe('file_move and file_delete', () => {
  it('files, folders and links are moved, and nothing is replaced unasked', async () => {
    put('a', 'a');
    put('b', 'b');
    put('folder/x', 'x');
    symlinkSync('a', at('link'));
    expect((await files.call('file_move', { from: 'a', to: 'b' })).reason).toBe('exists');
    expect((await files.call('file_move', { from: 'a', to: 'folder' })).reason).toBe('exists');
    expect((await files.call('file_move', { from: 'folder', to: 'folder/y/z' })).reason).toBe('path');
    expect(readdirSync(at('folder'))).toEqual(['x']);
    expect((await files.call('file_move', { from: 'a', to: 'a' })).reason).toBe('invalid_input');
    expect((await files.call('file_move', { from: 'gone', to: 'new/place' })).reason).toBe('not_found');
    expect((await files.call('file_move', { from: '.', to: 'new' })).reason).toBe('path');
    expect(await files.call('file_move', { from: 'a', to: 'deep/er/a' })).toMatchObject({
      output: 'Moved a to deep/er/a.',
    });
    await files.call('file_move', { from: 'b', to: 'deep/er/a', overwrite: true });
    await files.call('file_move', { from: 'folder', to: 'renamed' });
    await files.call('file_move', { from: 'link', to: 'link2' });
    expect([text('deep/er/a'), text('renamed/x'), lstatSync(at('link2')).isSymbolicLink()]).toEqual(['b', 'x', true]);
    expect(readdirSync(files.home).sort()).toEqual(['deep', 'link2', 'renamed']);
  });

  it('a tree of any depth is deleted whole', async () => {
    const script = 'mkdir top && cd top && for i in $(seq 350); do mkdir a b; echo x > f; cd a; done; echo x > last';
    execFileSync('bash', ['-c', script], { cwd: files.home });
    const found = await files.call('file_search', { pattern: 'x', path: 'top' });
    expect(found.output).toMatch(/\(\d+ folders could not be searched whole\)$/);
    expect((await files.call('file_delete', { path: 'top', recursive: true })).output).toBe(
      'Deleted top and all in it.',
    );
    expect(readdirSync(files.home)).toEqual([]);
  });

  it('a folder is deleted when recursive says so, links are deleted themselves', async () => {
    put('folder/a/b', 'b');
    put('keep', 'k');
    symlinkSync('../../keep', at('folder/a/in'));
    symlinkSync(files.outside, at('folder/out'));
    writeFileSync(join(files.outside, 'secret'), 's');
    expect((await files.call('file_delete', { path: 'folder' })).reason).toBe('is_folder');
    expect((await files.call('file_delete', { path: '.', recursive: true })).reason).toBe('path');
    expect((await files.call('file_delete', { path: 'keep', expected_sha256: sha256('x') })).reason).toBe('stale');
    expect((await files.call('file_delete', { path: 'gone' })).reason).toBe('not_found');
    await files.call('file_delete', { path: 'folder', recursive: true });
    expect([readdirSync(files.home), readdirSync(files.outside)]).toEqual([['keep'], ['secret']]);
    await files.call('file_delete', { path: 'keep', expected_sha256: sha256('k') });
    expect(existsSync(at('keep'))).toBe(false);
  });
});

describe('a call that is delivered again', () => {
  const twice = async (name: string, args: Record<string, unknown>, between: () => void = () => {}) => {
    const runId = randomUUID();
    const first = await files.call(name, args, { runId });
    between();
    return [first, await files.call(name, args, { runId, attempt: 2 })] as const;
  };
  const already = { status: 'already_applied', already_applied: true };

  it('is answered with its first result and changes nothing, whatever was done meanwhile', async () => {
    put('a', 'one\n');
    const edit = { path: 'a', old_string: 'one', new_string: 'one\none' };
    const [first, second] = await twice('file_edit', edit, () => put('a', 'one again\n'));
    expect(second.output).toContain(first.output);
    expect(second.verdict).toMatchObject({ ...first.verdict, ...already });
    expect(text('a')).toBe('one again\n');
    // The same edit in another call is another edit.
    await files.call('file_edit', edit);
    expect(text('a')).toBe('one\none again\n');

    const write = { path: 'w', content: 'x' };
    expect((await twice('file_write', write, () => put('w', 'newer')))[1].verdict).toMatchObject(already);
    expect(text('w')).toBe('newer');
    put('m', 'm');
    expect((await twice('file_move', { from: 'm', to: 'n' }))[1].verdict).toMatchObject({ ...already, to: 'n' });
    expect((await twice('file_delete', { path: 'n' }, () => put('n', 'new')))[1].verdict).toMatchObject(already);
    expect(text('n')).toBe('new');
  });

  it('with other arguments is another call', async () => {
    const runId = randomUUID();
    await files.call('file_write', { path: 'a', content: '1' }, { runId });
    expect((await files.call('file_write', { path: 'a', content: '2' }, { runId })).verdict).toMatchObject({
      status: 'written',
    });
  });

  it('the journal forgets the oldest calls of a workspace', async () => {
    for (let i = 0; i < 130; i++) await files.call('file_write', { path: 'a', content: String(i) });
    const kept = readdirSync(join(files.services.root, '.executor-files', 'journal', 'acme', 'main'));
    expect(kept.length).toBeLessThanOrEqual(100 + 64);
    expect(kept.every((name) => name.endsWith('.done.json'))).toBe(true);
  });
});

it('of writers with the same expected hash one wins, whatever names they use', async () => {
  put('folder/a', 'start');
  symlinkSync('folder', at('way'));
  linkSync(at('folder/a'), at('other-name'));
  const paths = ['folder/a', 'way/a', './folder/../folder/a', 'other-name'];
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      files.call('file_write', { path: paths[i % 4]!, content: `writer ${i}`, expected_sha256: sha256('start') }),
    ),
  );
  const won = results.flatMap(({ ok }, index) => (ok === false ? [] : [index]));
  expect(won).toHaveLength(1);
  expect(text('folder/a')).toBe(`writer ${won[0]}`);
  expect(results.filter(({ reason }) => reason === 'stale')).toHaveLength(19);
  expect(files.services.locks.size).toBe(0);
});

describe('quotas', () => {
  it('count bytes and files of all workspaces of the tenant, and what becomes free', async () => {
    await files.close();
    files = makeFixture({ quota: { bytes: 1_000, files: 3 } });
    put('../other/a', 'x'.repeat(600));
    const write = (path: string, bytes: number) => files.call('file_write', { path, content: 'y'.repeat(bytes) });
    const refused = await write('b', 500);
    expect(refused).toMatchObject({ ok: false, reason: 'quota', verdict: { class: 'EXHAUSTED', limit: 1_000 } });
    expect(refused.output).toMatch(/600 of 1000 bytes.*500 more/);
    expect((await write('b', 300)).ok).toBeUndefined();
    expect((await write('b', 401)).reason).toBe('quota');
    expect((await write('b', 100)).ok).toBeUndefined();
    expect((await write('c', 100)).ok).toBeUndefined();
    expect((await write('d', 1)).output).toMatch(/3 of 3 files/);
    expect((await files.call('file_write', { path: 'new/d', content: '' })).reason).toBe('quota');
    expect((await write('new/er/d', 400)).reason).toBe('quota');
    expect(readdirSync(files.home).sort()).toEqual(['b', 'c']);
    await files.call('file_delete', { path: 'c' });
    expect((await write('d', 300)).ok).toBeUndefined();
  });
});
