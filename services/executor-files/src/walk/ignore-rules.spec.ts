import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Pace } from '../pace.js';
import { isIgnored, parseIgnore } from './ignore-rules.js';

const ignores = async (rules: string, path: string, isFolder = false) =>
  (await (await parseIgnore(rules)).says(path, isFolder)) ?? false;

it.each([
  ['*.log', ['a.log', 'x/y/a.log'], ['a.logs', 'log']],
  ['/build', ['build'], ['x/build']],
  ['doc/*.txt', ['doc/a.txt'], ['doc/x/a.txt', 'x/doc/a.txt']],
  ['**/foo', ['foo', 'a/foo', 'a/b/foo'], ['foob']],
  ['foo/**', ['foo/a', 'foo/a/b'], ['foo']],
  ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['a/bb', 'x/a/b']],
  ['[a-c]?.t[!x]t', ['bz.tat'], ['bz.txt', 'dz.tat', 'b.tat']],
  ['[[:digit:]]*', ['1a'], ['a1']],
  ['\\#hash', ['#hash'], []],
  ['\\!bang', ['!bang'], []],
  ['# comment\n\nreal', ['real'], ['# comment']],
  ['trail   \nkeep\\ ', ['trail', 'keep '], ['keep']],
  ['*.js\n!keep.js', ['a.js'], ['keep.js']],
  ['dos\r\nother\r\n', ['dos', 'other'], []],
  ['open[', [], ['open[']],
])('%j', async (rules, ignored, kept) => {
  for (const path of ignored) expect([path, await ignores(rules, path)]).toEqual([path, true]);
  for (const path of kept) expect([path, await ignores(rules, path)]).toEqual([path, false]);
});

it('rules for folders leave files alone, and the innermost file that speaks decides', async () => {
  expect([await ignores('bin/', 'bin', true), await ignores('bin/', 'bin', false)]).toEqual([true, false]);
  const files = [
    { base: '', rules: await parseIgnore('*.gen') },
    { base: 'src', rules: await parseIgnore('!a.gen\n/b') },
  ];
  const said = ['x.gen', 'src/a.gen', 'src/c.gen', 'src/b'].map((path) => isIgnored(files, path, false));
  expect(await Promise.all(said)).toEqual([true, false, true, true]);
});

it('rules that keep a backtracking engine busy for ever cost next to nothing', async () => {
  const rules = `${'a*'.repeat(200)}b\n${'**/a/'.repeat(90)}b`;
  const started = process.cpuUsage();
  for (let i = 0; i < 20; i++) await ignores(rules, `${'a/'.repeat(120)}${'a'.repeat(250)}`);
  // A backtracking engine would not end at all: the number only says "soon".
  expect(process.cpuUsage(started).user).toBeLessThan(5_000_000);
});

it('while many costly rules are read and asked, others get their turns, and an abort ends it', async () => {
  const abort = new AbortController();
  let turns = 0;
  let more = true;
  const count = () => {
    turns++;
    if (more) setImmediate(count);
  };
  setImmediate(count);
  try {
    const rules = await parseIgnore(`${'*a'.repeat(240)}b\n`.repeat(8_000), new Pace(abort.signal));
    expect(await rules.says('a'.repeat(255), false, new Pace(abort.signal))).toBeUndefined();
    expect(turns).toBeGreaterThan(5);
    abort.abort(new Error('enough'));
    await expect(rules.says('a'.repeat(255), false, new Pace(abort.signal))).rejects.toThrow('enough');
  } finally {
    more = false;
  }
});

it.skipIf(spawnSync('git', ['--version']).status !== 0)('says what git says', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ym-ignore-'));
  try {
    spawnSync('git', ['init', '-q', folder]);
    const name = fc.stringMatching(/^[ab.]{1,3}$/).filter((text) => text !== '.' && text !== '..' && text !== '...');
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join('/'));
    // A star beside `**` is left out: there git reads its own rules differently, depending on the letters before.
    const unit = fc.constantFrom('a', 'b', '.', '*', '?', '[ab]', '[!a]');
    const part = fc.oneof(
      fc.constant('**'),
      fc.array(unit, { minLength: 1, maxLength: 3 }).map((units) => units.join('').replace(/\*+/g, '*')),
    );
    const rule = fc
      .tuple(fc.constantFrom('', '', '!'), fc.constantFrom('', '', '/'), fc.array(part, { minLength: 1, maxLength: 3 }))
      .map(([negated, anchored, parts]) => negated + anchored + parts.join('/'))
      .chain((text) => fc.constantFrom(text, text, `${text}/`));
    const cases = fc.sample(
      fc.tuple(fc.array(rule, { minLength: 1, maxLength: 3 }), fc.array(path, { minLength: 20, maxLength: 20 })),
      { seed: 7, numRuns: 40 },
    );
    for (const [rules, paths] of cases) {
      writeFileSync(join(folder, '.gitignore'), rules.join('\n'));
      const { stdout } = spawnSync('git', ['-C', folder, 'check-ignore', '--no-index', '--stdin'], {
        input: paths.join('\n'),
        encoding: 'utf8',
      });
      const said = new Set(stdout.split('\n'));
      const file = [{ base: '', rules: await parseIgnore(rules.join('\n')) }];
      for (const candidate of paths) {
        // As the walk does: what is in an ignored folder is not looked at.
        const names = candidate.split('/');
        let ours = false;
        for (let index = 0; index < names.length && !ours; index++)
          ours = await isIgnored(file, names.slice(0, index + 1).join('/'), index < names.length - 1);
        expect([rules, candidate, ours]).toEqual([rules, candidate, said.has(candidate)]);
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
