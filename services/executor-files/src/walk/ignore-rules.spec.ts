import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isIgnored, parseIgnore } from './ignore-rules.js';

const ignores = (rules: string, path: string, isFolder = false) => parseIgnore(rules).says(path, isFolder) ?? false;

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
])('%j', (rules, ignored, kept) => {
  expect(ignored.filter((path) => !ignores(rules, path))).toEqual([]);
  expect(kept.filter((path) => ignores(rules, path))).toEqual([]);
});

it('rules for folders leave files alone, and the innermost file that speaks decides', () => {
  expect([ignores('bin/', 'bin', true), ignores('bin/', 'bin', false)]).toEqual([true, false]);
  const files = [
    { base: '', rules: parseIgnore('*.gen') },
    { base: 'src', rules: parseIgnore('!a.gen\n/b') },
  ];
  expect(['x.gen', 'src/a.gen', 'src/c.gen', 'src/b'].map((path) => isIgnored(files, path, false))).toEqual([
    true,
    false,
    true,
    true,
  ]);
});

it('rules that keep a backtracking engine busy for ever cost next to nothing', () => {
  const rules = `${'a*'.repeat(200)}b\n${'**/a/'.repeat(90)}b`;
  const started = process.cpuUsage();
  for (let i = 0; i < 20; i++) ignores(rules, `${'a/'.repeat(120)}${'a'.repeat(250)}`);
  // A backtracking engine would not end at all: the number only says "soon".
  expect(process.cpuUsage(started).user).toBeLessThan(5_000_000);
});

it.skipIf(spawnSync('git', ['--version']).status !== 0)('says what git says', () => {
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
      const file = [{ base: '', rules: parseIgnore(rules.join('\n')) }];
      for (const candidate of paths) {
        // As the walk does: what is in an ignored folder is not looked at.
        const names = candidate.split('/');
        const ours = names.some((_, index) =>
          isIgnored(file, names.slice(0, index + 1).join('/'), index < names.length - 1),
        );
        expect([rules, candidate, ours]).toEqual([rules, candidate, said.has(candidate)]);
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
