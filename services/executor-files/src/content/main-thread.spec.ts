import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const BUILT = new URL('../../dist/', import.meta.url);

/** What a built module loads, types left out as the compiler does. */
function loads(module: URL): string[] {
  const text = readFileSync(module, 'utf8');
  return [...text.matchAll(/^(?:import|export)\b[^'"]*?['"]([^'"]+)['"];?$/gm)].map((found) => found[1]!);
}

function reached(from: string): { own: Set<string>; packages: Set<string> } {
  const own = new Set<string>();
  const packages = new Set<string>();
  const visit = (module: URL) => {
    if (own.has(module.href)) return;
    own.add(module.href);
    for (const name of loads(module))
      if (name.startsWith('.')) visit(new URL(name, module));
      else packages.add(name);
  };
  visit(new URL(from, BUILT));
  return { own: new Set([...own].map((href) => href.slice(BUILT.href.length))), packages };
}

it('no work on the content of files is loaded into the main thread: it can only run in threads', () => {
  const main = reached('main.js');
  expect(main.own).toContain('content/content-threads.js');
  expect(main.own).toContain('tools/file-edit.js');
  const thread = reached('content/content-thread.js');
  const work = reached('content/work.js');
  // What works on content, and the libraries with which it does.
  for (const module of ['content/work.js', 'content/match.js', 'content/decode.js', 'content/listing.js']) {
    expect(work.own).toContain(module);
    expect(main.own).not.toContain(module);
  }
  for (const name of ['@yardmaster/text-edit', 're2js']) {
    expect(work.packages).toContain(name);
    expect(main.packages).not.toContain(name);
  }
  expect(thread.packages).not.toContain('@yardmaster/contracts');
  // The journal hashes what names a call, nothing else is hashed here.
  const hashing = [...main.own].filter((module) => loads(new URL(module, BUILT)).includes('node:crypto'));
  expect(hashing.filter((module) => readFileSync(new URL(module, BUILT), 'utf8').includes('createHash'))).toEqual([
    'storage/call-journal.js',
  ]);
});
