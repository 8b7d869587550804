import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';

// What the whole command makes of a toolchain that does not do its work: only what is not here is a reason to skip.
const folder = mkdtempSync(join(tmpdir(), 'yardmaster-toolchain-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let runs = 0;
/** Runs test:cluster with a `go` that is this script, and with no program in the cache. */
function withGo(script: string): { status: number | null; output: string } {
  const home = join(folder, String(runs++));
  mkdirSync(join(home, 'bin'), { recursive: true });
  const go = join(home, 'bin', 'go');
  writeFileSync(go, `#!/bin/sh\n${script}`);
  chmodSync(go, 0o755);
  const { KUBEBUILDER_ASSETS: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [fileURLToPath(new URL('run.ts', import.meta.url))], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...env, PATH: `${join(home, 'bin')}:${process.env['PATH']}`, XDG_CACHE_HOME: home },
  });
  return { status, output: stdout + stderr };
}
/** A `go` of a good version, with these words and exit code 1 for one of its commands. */
const failing = (command: 'list' | 'build', words: string) =>
  withGo(`
case $1 in
  env) echo go1.26.0 ;;
  ${command}) cat >&2 <<'WORDS'
${words}
WORDS
  exit 1 ;;
esac`);

describe('not here: skipped, with the reason', () => {
  test('a toolchain that is too old', () => {
    const { status, output } = withGo('echo go1.19.8');
    expect(output).toMatch(/test:cluster SKIPPED: .* is go1\.19\.8: Go 1\.25 or newer is needed/);
    expect(status).toBe(0);
  });

  test.each([
    ['no network', 'go: k8s.io/api@v0.34.4: Get "https://proxy/k8s.io/api/@v/v0.34.4.mod": dial tcp: no route to host'],
    ['a proxy that has none', 'go: k8s.io/api@v0.34.4: reading https://proxy/k8s.io/api/@v/v0.34.4.zip: 404 Not Found'],
    ['no proxy at all', 'a.go:1:2: k8s.io/api@v0.34.4: module lookup disabled by GOPROXY=off'],
  ])('modules that cannot be fetched: %s', (_, words) => {
    const { status, output } = failing('list', words);
    expect(output).toContain(`test:cluster SKIPPED: the modules of etcd cannot be fetched:\n${words}`);
    expect(status).toBe(0);
  });
});

describe('here and broken: a failure', () => {
  test('code that does not compile', () => {
    const { status, output } = failing('build', './main.go:3:1: syntax error: non-declaration statement');
    expect(output).toContain('etcd could not be built:\n./main.go:3:1: syntax error');
    expect(output).not.toContain('SKIPPED');
    expect(status).toBe(1);
  });

  test.each([
    ['another content than the pinned one', 'verifying k8s.io/api@v0.34.4: checksum mismatch\n\nSECURITY ERROR'],
    ['a go.mod that is not whole', 'go: updates to go.mod needed; to update it:\n\tgo mod tidy'],
    ['a go.sum that is not whole', 'a.go:1:2: missing go.sum entry for module providing package k8s.io/api'],
  ])('modules with %s', (_, words) => {
    const { status, output } = failing('list', words);
    expect(output).toContain(words.split('\n')[0]);
    expect(output).not.toContain('SKIPPED');
    expect(status).toBe(1);
  });
});
