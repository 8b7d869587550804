import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILT_IN_TOOLS } from '@yardmaster/contracts';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { fileTools } from '../file-tools.js';
import { type Fixture, makeFixture } from '../fixture.js';

let files: Fixture;
beforeEach(() => (files = makeFixture()));
afterEach(() => files.close());

const put = (path: string, content: string | Uint8Array) => {
  mkdirSync(join(files.home, path, '..'), { recursive: true });
  writeFileSync(join(files.home, path), content);
};

it('all registered file tools are served, and no others', () => {
  const registered = BUILT_IN_TOOLS.filter(({ kind }) => kind === 'files').map(({ name }) => name);
  expect(
    fileTools(files.services)
      .map(({ name }) => name)
      .sort(),
  ).toEqual(registered.sort());
  expect(registered).toHaveLength(9);
});

it('a file is read with numbers, a part of it on demand, and its SHA-256 is told', async () => {
  const text = 'one\ntwo\nthree\n';
  put('a.txt', text);
  const sha256 = createHash('sha256').update(text).digest('hex');
  const whole = await files.call('file_read', { path: 'a.txt' });
  expect(whole.output).toBe(`     1\tone\n     2\ttwo\n     3\tthree\n(lines 1-3 of 3; sha256 ${sha256})`);
  expect(whole.verdict).toMatchObject({ sha256, lines: 3, encoding: 'utf-8', eol: 'lf', final_newline: true });
  const part = await files.call('file_read', { path: '/workspace/a.txt', offset: 2, limit: 1 });
  expect(part.output).toBe(`     2\ttwo\n(lines 2-2 of 3; go on with offset 3; sha256 ${sha256})`);
  expect((await files.call('file_read', { path: 'a.txt', offset: 9 })).output).toMatch(/no such lines: the file has 3/);
  put('empty', '');
  expect((await files.call('file_read', { path: 'empty' })).output).toMatch(/^\(empty file; /);
});

it('binary files, other encodings and line ends are told apart', async () => {
  put('binary', Uint8Array.from([1, 2, 0, 3]));
  expect(await files.call('file_read', { path: 'binary' })).toMatchObject({ ok: false, reason: 'binary' });
  put('latin', Buffer.from('caf\xe9\n', 'latin1'));
  const latin = await files.call('file_read', { path: 'latin' });
  expect(latin.output).toContain('café');
  expect(latin.verdict).toMatchObject({ encoding: 'windows-1252' });
  put('wide', Buffer.from('\uFEFFwide\r\n', 'utf16le'));
  expect((await files.call('file_read', { path: 'wide' })).output).toMatch(/^ {5}1\twide\n.*utf-16le/);
  put('dos', '\uFEFFa\r\nb\r\n');
  const dos = await files.call('file_read', { path: 'dos' });
  expect(dos.output).toMatch(/^ {5}1\ta\n {5}2\tb\n\(lines 1-2 of 2; starts with a byte order mark; lines end in CRLF/);
  expect(dos.verdict).toMatchObject({ bom: true, eol: 'crlf' });
});

it('very long lines and listings are cut at a place that is named', async () => {
  put('long', `${'x'.repeat(5_000)}\n`);
  expect((await files.call('file_read', { path: 'long' })).output).toContain('(3000 more characters in this line)');
  put('many', `${'y'.repeat(900)}\n`.repeat(500));
  const many = await files.call('file_read', { path: 'many' });
  const [, to, of] = /\(lines 1-(\d+) of (\d+); go on with offset/.exec(many.output)!;
  expect([Number(to) < 100, of]).toEqual([true, '500']);
});

it('what is no text file is refused with its reason', async () => {
  mkdirSync(join(files.home, 'folder'));
  execFileSync('mkfifo', [join(files.home, 'pipe')]);
  put('large', 'z'.repeat(1_000_001));
  const reasons = ['folder', 'pipe', 'large', 'nowhere', 'no/where', '.'].map(
    async (path) => (await files.call('file_read', { path })).reason,
  );
  expect(await Promise.all(reasons)).toEqual([
    'is_folder',
    'not_a_file',
    'too_large',
    'not_found',
    'not_found',
    'is_folder',
  ]);
});

it('a folder is listed with marks; ignored folders are named and opened only when asked for', async () => {
  put('.gitignore', 'node_modules/\n*.log\n');
  put('src/a.ts', '');
  put('src/deep/b.ts', '');
  put('node_modules/x/index.js', '');
  put('.git/config', '');
  symlinkSync('src', join(files.home, 'link'));
  const { output } = await files.call('file_list', {});
  expect(output.split('\n')).toEqual([
    '.gitignore',
    'link@',
    'node_modules/ (ignored)',
    'src/',
    'src/a.ts',
    'src/deep/',
  ]);
  expect((await files.call('file_list', { path: 'node_modules', depth: 5 })).output).toBe('x/\nx/index.js');
  expect((await files.call('file_list', { path: 'link', depth: 3 })).output).toBe('a.ts\ndeep/\ndeep/b.ts');
  expect(await files.call('file_list', { path: 'src/a.ts' })).toMatchObject({ ok: false, reason: 'path' });
});

it('stat tells type, size, hash and where links lead', async () => {
  put('a.txt', 'a\n');
  linkSync(join(files.home, 'a.txt'), join(files.home, 'b.txt'));
  symlinkSync('a.txt', join(files.home, 'in'));
  symlinkSync('/etc/passwd', join(files.home, 'out'));
  symlinkSync('gone', join(files.home, 'dangling'));
  expect((await files.call('file_stat', { path: 'a.txt' })).verdict).toMatchObject({
    type: 'file',
    bytes: 2,
    hard_links: 2,
    encoding: 'utf-8',
    sha256: createHash('sha256').update('a\n').digest('hex'),
  });
  expect((await files.call('file_stat', { path: 'in' })).verdict).toMatchObject({ link_to: 'a.txt', target: 'a.txt' });
  const out = await files.call('file_stat', { path: 'out' });
  expect(out.verdict).toMatchObject({ type: 'link that leads out of the workspace', link_to: '/etc/passwd' });
  expect(out.verdict).not.toHaveProperty('sha256');
  expect((await files.call('file_stat', { path: 'dangling' })).verdict).toMatchObject({
    type: 'link that leads nowhere',
  });
  expect((await files.call('file_stat', { path: '.' })).verdict).toMatchObject({ type: 'folder' });
});
