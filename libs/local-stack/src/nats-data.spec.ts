import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { assertDataReadable } from './nats-data.js';

const dir = mkdtempSync(join(tmpdir(), 'yardmaster-nats-data-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function server(version: string): string {
  const file = join(dir, `nats-${version}`);
  writeFileSync(file, `#!/bin/sh\necho 'nats-server: v${version}'\n`);
  chmodSync(file, 0o755);
  return file;
}

test('data are read by the same nats-server and by newer ones, never by an older one', () => {
  const data = join(dir, 'data');
  assertDataReadable(data, server('2.9.10'));
  assertDataReadable(data, server('2.11.4'));
  assertDataReadable(data, server('2.11.1'));
  expect(() => assertDataReadable(data, server('2.9.10'))).toThrow(/2\.11\.1.*2\.9\.10.*YM_NATS_SERVER/);
  assertDataReadable(data, server('2.12.0'));
  assertDataReadable(data, join(dir, 'none'));
});
