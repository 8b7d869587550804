import { expect, it } from 'vitest';
import { JobLog } from './job-log.js';

it('offsets stay what they were when the kept end of a log is taken up by another', () => {
  const log = new JobLog(8);
  for (const text of ['one\n', 'two\n', 'three\n', 'four\n']) log.append(text);
  const kept = log.read(0, 8);
  expect(kept).toEqual({ output: 'ee\nfour\n', skipped: 11, next: 19 });
  const again = new JobLog(8, kept.skipped);
  again.append(kept.output);
  expect(again.read(14, 8)).toEqual(log.read(14, 8));
  expect(again.read(0, 8)).toEqual(kept);
});
