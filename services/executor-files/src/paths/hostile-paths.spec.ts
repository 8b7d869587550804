import { spawn } from 'node:child_process';
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tenantId } from '@yardmaster/contracts';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Fixture, makeFixture } from '../fixture.js';

const SECRET = 'the secret outside\n';
let files: Fixture;
beforeEach(() => {
  files = makeFixture();
  writeFileSync(join(files.outside, 'secret'), SECRET);
});
afterEach(() => files.close());

/** Nothing outside was read into a result, changed, made or removed. */
const untouched = (outputs: readonly string[] = []) => {
  expect(outputs.filter((output) => output.includes(SECRET.trim()))).toEqual([]);
  expect(readdirSync(files.outside)).toEqual(['secret']);
  expect(readFileSync(join(files.outside, 'secret'), 'utf8')).toBe(SECRET);
};

const everyCall = (path: string): [string, Record<string, unknown>][] => [
  ['file_read', { path }],
  ['file_stat', { path }],
  ['file_list', { path }],
  ['file_search', { pattern: 'secret', path }],
  ['file_write', { path, content: 'overwritten' }],
  ['file_edit', { path, old_string: 'secret', new_string: 'edited' }],
  ['file_edit', { path, old_string: '', new_string: 'made' }],
  ['file_multi_edit', { path, edits: [{ old_string: 'secret', new_string: 'edited' }] }],
  ['file_move', { from: path, to: 'taken', overwrite: true }],
  ['file_move', { from: 'bait', to: path, overwrite: true }],
  ['file_delete', { path, recursive: true }],
];

it('no tool gets out by any spelling of a path', async () => {
  writeFileSync(join(files.home, 'bait'), 'bait');
  mkdirSync(join(files.home, 'in'));
  symlinkSync('../../../outside', join(files.home, 'up'));
  symlinkSync(files.outside, join(files.home, 'absolute'));
  symlinkSync('up', join(files.home, 'twice'));
  symlinkSync('../up/secret', join(files.home, 'in', 'file'));
  symlinkSync('/proc/self/root', join(files.home, 'proc'));
  symlinkSync('/workspace/../../../outside', join(files.home, 'seen'));
  symlinkSync('loop', join(files.home, 'loop'));
  const paths = [
    '../../../outside/secret',
    'in/../../../../outside/secret',
    `${files.outside}/secret`,
    '/workspace/../../../outside/secret',
    '/workspaces/secret',
    '/proc/self/root/etc/passwd',
    'up/secret',
    'absolute/secret',
    'twice/secret',
    `proc${files.outside}/secret`,
    'seen/secret',
    'loop/secret',
    'in/../up/./secret',
    '..',
    'secret\0',
    `${'../'.repeat(300)}outside/secret`,
  ];
  for (const path of paths)
    for (const [name, args] of everyCall(path)) {
      const outcome = await files.call(name, args);
      expect([name, path, outcome.ok]).toEqual([name, path, false]);
      untouched([outcome.output]);
    }
  expect(lstatSync(join(files.home, 'bait')).isFile()).toBe(true);
  for (const [name, args] of everyCall('in/file').filter(([name]) => !/stat|move|delete/.test(name))) {
    const outcome = await files.call(name, args);
    expect([name, outcome.ok]).toEqual([name, false]);
    untouched([outcome.output]);
  }
});

it('links in last place are themselves moved and deleted', async () => {
  symlinkSync(files.outside, join(files.home, 'link'));
  await files.call('file_move', { from: 'link', to: 'other' });
  await files.call('file_delete', { path: 'other', recursive: true });
  expect(readdirSync(files.home)).toEqual([]);
  untouched();
});

it('a workspace or tenant that is a link or no name is refused', async () => {
  symlinkSync(files.outside, join(files.services.root, 'acme', 'linked'));
  for (const workspace of ['linked', '..', '.', '', 'a/b', '../acme/main', '.hidden', 'x'.repeat(65)]) {
    const read = await files.call('file_read', { path: 'secret' }, { workspace });
    expect([workspace, read.ok]).toEqual([workspace, false]);
    untouched([read.output]);
  }
  // Another tenant's workspace of the same name is another folder.
  await files.call('file_write', { path: 'a', content: 'mine' });
  expect(await files.call('file_read', { path: 'a' }, { tenant: tenantId('other') })).toMatchObject({
    reason: 'not_found',
  });
});

it('a path of any shape and links of any target never lead out', async () => {
  mkdirSync(join(files.home, 'd', 'e'), { recursive: true });
  const part = fc.constantFrom('..', '.', '', 'd', 'e', 'l', 'outside', 'secret', 'acme', 'main', 'workspaces');
  const path = fc.array(part, { minLength: 1, maxLength: 9 }).map((parts) => parts.join('/'));
  await fc.assert(
    fc.asyncProperty(path, path, path, fc.constantFrom('', '/', '/workspace/'), async (inner, outer, asked, start) => {
      for (const [at, target] of [
        ['d/l', start + inner],
        ['l', outer],
      ] as const) {
        rmSync(join(files.home, at), { recursive: true, force: true });
        // An empty target is no link.
        if (target !== '') symlinkSync(target, join(files.home, at));
      }
      const outputs: string[] = [];
      for (const [name, args] of everyCall(start + asked))
        if (args['recursive'] === undefined) outputs.push((await files.call(name, args)).output);
      untouched(outputs);
      mkdirSync(join(files.home, 'd', 'e'), { recursive: true });
    }),
    { numRuns: 60, seed: 11 },
  );
});

it('no call leaves a file open', async () => {
  const all = async () => {
    rmSync(files.home, { recursive: true });
    mkdirSync(join(files.home, 'd', 'e'), { recursive: true });
    symlinkSync('../outside', join(files.home, 'l'));
    writeFileSync(join(files.home, 'bait'), 'bait');
    for (const path of ['d/e', 'd/e/new', 'l/x', 'gone/x', '..', '.', 'd/../d/e/f/g', 'bait/x'])
      for (const [name, args] of everyCall(path)) await files.call(name, args);
  };
  await all();
  const open = readdirSync('/proc/self/fd').length;
  await all();
  expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(open + 2);
});

it('folders that are swapped for links during the calls never lead out', async () => {
  mkdirSync(join(files.home, 'folder'));
  mkdirSync(join(files.home, 'files'));
  writeFileSync(join(files.home, 'folder', 'secret'), 'inside\n');
  symlinkSync(files.outside, join(files.home, 'link'));
  // Another process puts a link to the outside in the place of the folder and takes it away, as fast as it can. What a
  // call makes in its place meanwhile is thrown away, so that the game goes on.
  const swapper = spawn(
    process.execPath,
    [
      '-e',
      `const { renameSync, rmSync, symlinkSync, unlinkSync, writeSync } = require('node:fs');
       const [, home, outside] = process.argv;
       process.chdir(home);
       const tried = (work) => { try { work(); return true; } catch { return false; } };
       for (;;) {
         tried(() => rmSync('real', { recursive: true, force: true }));
         tried(() => renameSync('folder', 'real'));
         const linked = tried(() => symlinkSync(outside, 'folder'));
         tried(() => unlinkSync('folder'));
         tried(() => renameSync('real', 'folder'));
         if (linked) writeSync(1, '.');
       }`,
      files.home,
      files.outside,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let swaps = 0;
  swapper.stdout!.on('data', (chunk: Buffer) => (swaps += chunk.length));
  const outputs: string[] = [];
  try {
    let inside = 0;
    for (let i = 0; i < 150; i++) {
      const path = i % 2 ? 'folder/secret' : 'link/secret';
      const outcomes = await Promise.all([
        files.call('file_read', { path }),
        files.call('file_write', { path, content: `inside ${i}\n` }),
        files.call('file_edit', { path, old_string: 'secret outside', new_string: 'secret inside' }),
        files.call('file_search', { pattern: 'secret', path: i % 2 ? 'folder' : '.' }),
        files.call('file_stat', { path }),
        files.call('file_list', { path: 'folder' }),
        files.call('file_move', { from: path, to: `files/${i}` }),
        files.call('file_delete', { path: i % 2 ? 'link/secret' : 'folder/secret' }),
      ]);
      outputs.push(...outcomes.map(({ output }) => output));
      inside += outcomes.filter(({ ok }) => ok !== false).length;
      untouched();
    }
    // Both ways were met: some calls found the folder, some the link.
    expect(inside).toBeGreaterThan(0);
    expect(swaps).toBeGreaterThan(20);
    expect(outputs.some((output) => output.includes('leads out'))).toBe(true);
  } finally {
    const gone = new Promise((resolve) => swapper.once('exit', resolve));
    swapper.kill('SIGKILL');
    await gone;
  }
  untouched(outputs);
  expect(readdirSync(files.home, { recursive: true }).filter((name) => String(name).includes('.ym-'))).toEqual([]);
});
