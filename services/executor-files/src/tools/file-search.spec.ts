import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fixture, makeFixture } from '../fixture.js';

const hasRipgrep = spawnSync('rg', ['--version']).status === 0;

it('without the program that was found at the start our own code searches', async () => {
  const files = makeFixture({ ripgrep: '/nowhere/rg' });
  writeFileSync(join(files.home, 'a'), 'needle\n');
  expect((await files.call('file_search', { pattern: 'needle' })).output).toBe('a:1: needle');
  await files.close();
});

describe.each([
  ['our own code', undefined],
  ['ripgrep', 'rg'],
])('with %s', (_, ripgrep) => {
  const test = it.skipIf(ripgrep !== undefined && !hasRipgrep);
  let files: Fixture;
  beforeEach(() => (files = makeFixture({ ripgrep })));
  afterEach(() => files.close());
  const put = (path: string, content: string | Uint8Array) => {
    mkdirSync(join(files.home, path, '..'), { recursive: true });
    writeFileSync(join(files.home, path), content);
  };
  const search = async (pattern: string, more: { path?: string; regex?: boolean } = {}) =>
    (await files.call('file_search', { pattern, ...more })).output.split('\n');

  test('text and regular expressions are found line by line, in the order of paths', async () => {
    put('b.txt', 'x (a+b)\r\nnothing\r\n');
    put('a/c.txt', 'one\n(a+b) y\naab\n');
    put('a/-n.txt', 'aab\n');
    expect(await search('(a+b)')).toEqual(['a/c.txt:2: (a+b) y', 'b.txt:1: x (a+b)']);
    expect(await search('^a+b$', { regex: true })).toEqual(['a/-n.txt:1: aab', 'a/c.txt:3: aab']);
    expect(await search('nothing$', { regex: true })).toEqual(['b.txt:2: nothing']);
    expect(await search('aab', { path: 'a/c.txt' })).toEqual(['a/c.txt:3: aab']);
    expect(await search('-e')).toEqual(['Not found in 3 files.']);
  });

  test('what .gitignore names, binary files, .git and links are left out', async () => {
    put('.gitignore', 'dist/\n*.log\n!keep.log\n');
    put('src/.gitignore', 'gen.txt\n');
    for (const path of ['a.txt', 'dist/a.txt', 'a.log', 'keep.log', 'src/gen.txt', 'src/b.txt', '.git/x', '.hidden'])
      put(path, 'needle\n');
    put('binary', 'needle\n\0');
    writeFileSync(join(files.outside, 'secret'), 'needle\n');
    symlinkSync(files.outside, join(files.home, 'out'));
    symlinkSync(join(files.outside, 'secret'), join(files.home, 'out.txt'));
    expect(await search('needle')).toEqual(
      ['.hidden', 'a.txt', 'keep.log', 'src/b.txt'].map((path) => `${path}:1: needle`),
    );
    // Asked for by name it is searched.
    expect(await search('needle', { path: 'dist' })).toEqual(['dist/a.txt:1: needle']);
    expect(await search('needle', { path: 'src' })).toEqual(['src/b.txt:1: needle']);
    expect(await files.call('file_search', { pattern: 'needle', path: 'out' })).toMatchObject({
      ok: false,
      reason: 'outside',
    });
  });

  test('many hits and long lines are cut, more files than one batch are searched', async () => {
    for (let i = 0; i < 300; i++) put(`f${String(i).padStart(3, '0')}`, i === 299 ? 'rare\n' : 'often\noften\n');
    const often = await search('often');
    expect([often.length, often.at(-1)]).toEqual([
      101,
      '(more than 100 lines: search for something rarer, or in a folder)',
    ]);
    expect(await search('rare')).toEqual(['f299:1: rare']);
    put('long', `${'x'.repeat(1_000)}needle${'y'.repeat(100_000)}\n`);
    const [hit] = await search('needle');
    expect(hit!.length).toBeLessThan(330);
    expect(hit).toMatch(/^long:1: ….*needle.*…$/);
  });

  test('a pattern that cannot be run is refused with words', async () => {
    put('a', 'a\n');
    for (const pattern of ['(', '(?=a)', '(a)\\1'])
      expect(await files.call('file_search', { pattern, regex: true })).toMatchObject({
        ok: false,
        reason: 'invalid_input',
      });
    expect(await files.call('file_search', { pattern: 'a\nb' })).toMatchObject({ ok: false, reason: 'invalid_input' });
    expect(await files.call('file_search', { pattern: 'a', path: 'gone' })).toMatchObject({
      ok: false,
      reason: 'not_found',
    });
  });

  test('a pattern that keeps a backtracking engine busy for ever ends', async () => {
    put('a', `${'a'.repeat(5_000)}\n`);
    expect(await search('^(a+)+$|^(a|aa)+b', { regex: true })).toHaveLength(1);
    expect(await search('(a+)+b', { regex: true })).toEqual(['Not found in 1 files.']);
  });
});
