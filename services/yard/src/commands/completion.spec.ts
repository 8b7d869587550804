import { expect, it } from 'vitest';
import { TREE } from '../tree.js';
import { candidates } from './completion.js';
import { parseLog } from './logs.js';

const complete = (...words: string[]) => candidates(TREE, words, async (kind) => [`some-${kind}`]);

it('offers nouns, verbs, flags, their values, and ids', async () => {
  expect(await complete('')).toContain('conversation');
  expect(await complete('')).not.toContain('__complete');
  expect(await complete('run', '')).toEqual(['start', 'list', 'get', 'watch', 'cancel', 'result']);
  expect(await complete('run', 'list', '--')).toContain('--state');
  expect(await complete('run', 'list', '--state', '')).toContain('failed');
  expect(await complete('-o', '')).toContain('jsonl');
  expect(await complete('run', 'get', '')).toEqual(['some-run']);
  expect(await complete('run', 'get', '-o', 'json', '')).toEqual(['some-run']);
  expect(await complete('run', 'get', 'x', '')).toEqual([]);
  expect(await complete('logs', 'api', '')).toEqual(['some-service']);
  expect(await complete('nothing', '')).toEqual([]);
});

it('reads log lines, also those that are no JSON', () => {
  const lines = parseLog(
    'api',
    '{"level":"warn","time":"2026-11-29T18:00:00.000Z","service":"api","port":4400,"msg":"in use"}\n\nSegmentation fault\n',
  );
  expect(lines).toMatchObject([
    { level: 'warn', time: '2026-11-29T18:00:00.000Z', text: 'in use port=4400' },
    { level: '', time: '2026-11-29T18:00:00.000Z', text: 'Segmentation fault' },
  ]);
});
