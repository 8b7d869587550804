import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FrameSender } from './frame-sender.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const WAIT_MS = 25;
const start = { kind: { case: 'start' as const, value: { provider: 'p' } } };
const end = { kind: { case: 'end' as const, value: { text: 'Hello' } } };
const reset = { kind: { case: 'attemptReset' as const, value: { reason: 'cut' } } };

function sender(waitMs = WAIT_MS) {
  const sent: string[] = [];
  const frames = new FrameSender(({ kind }) => {
    sent.push(typeof kind?.value === 'string' ? `${kind.case} ${kind.value}` : (kind?.case ?? ''));
  }, waitMs);
  return { frames, sent };
}

it('an answer that is complete at once is its end frame alone', () => {
  const { frames, sent } = sender();
  frames.frame(start);
  frames.piece('delta', 'Hel');
  frames.piece('delta', 'lo');
  frames.end(end);
  vi.runAllTimers();
  expect(sent).toEqual(['end']);
});

it('pieces that come within the wait are joined, and kinds keep their order', () => {
  const { frames, sent } = sender();
  frames.frame(start);
  frames.piece('reasoning', 'hm');
  frames.piece('delta', 'Hel');
  frames.piece('delta', 'lo');
  vi.advanceTimersByTime(WAIT_MS);
  frames.piece('delta', ' you');
  frames.end(end);
  expect(sent).toEqual(['start', 'reasoning hm', 'delta Hello', 'delta  you', 'end']);
});

it('a reset is told to those who have seen something, and what was held is dropped', () => {
  const { frames, sent } = sender();
  frames.frame(start);
  frames.piece('delta', 'never seen');
  frames.reset(reset);
  frames.frame(start);
  frames.piece('delta', 'seen');
  vi.advanceTimersByTime(WAIT_MS);
  frames.piece('delta', 'held');
  frames.reset(reset);
  frames.end(end);
  vi.runAllTimers();
  expect(sent).toEqual(['start', 'delta seen', 'attemptReset', 'end']);
});

it('without a wait everything leaves at once', () => {
  const { frames, sent } = sender(0);
  frames.frame(start);
  frames.piece('delta', 'a');
  frames.piece('delta', 'b');
  expect(sent).toEqual(['start', 'delta a', 'delta b']);
});
