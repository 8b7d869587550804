import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { LIVE_EVENT_TYPES, STORED_EVENT_TYPES } from './run-events.js';

it('the table of events in docs/api.md has every type, once, and none that is not sent', () => {
  const page = readFileSync(new URL('../../../docs/api.md', import.meta.url), 'utf8');
  const table = /^\| event .*\n\|[ -|]+\n((?:\|.*\n)+)/m.exec(page)![1]!;
  const named = table.split('\n').flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([a-z._]+)`/g)]);
  expect(named.map(([, type]) => type!).sort()).toEqual([...STORED_EVENT_TYPES, ...LIVE_EVENT_TYPES].sort());
});
