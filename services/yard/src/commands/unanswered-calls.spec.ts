import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { UnansweredCalls } from './unanswered-calls.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watched() {
  const said: string[] = [];
  const calls = new UnansweredCalls((hint) => said.push(hint));
  return { said, calls, see: (type: string, data: Record<string, unknown> = {}) => calls.see({ type, data }) };
}

it('a call of which nothing is heard is named once, with where to look', () => {
  const { said, see } = watched();
  see('tool.requested', { call: 'c1', name: 'weather_forecast' });
  vi.advanceTimersByTime(9_000);
  see('tool.output', { call: 'c1' });
  vi.advanceTimersByTime(9_000);
  expect(said).toEqual([]);
  vi.advanceTimersByTime(60_000);
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(/weather_forecast.*yard queue list.*yard doctor/);
  see('tool.output', { call: 'c1' });
  vi.advanceTimersByTime(60_000);
  expect(said).toHaveLength(1);
});

it('nothing is said of calls that are done or that wait for a decision, nor of a slow model, nor at the end', () => {
  const { said, see, calls } = watched();
  see('tool.requested', { call: 'c1', name: 'a' });
  see('tool.completed', { call: 'c1', name: 'a' });
  see('tool.requested', { call: 'c2', name: 'b' });
  see('tool.approval_required', { call: 'c2', name: 'b' });
  vi.advanceTimersByTime(60_000);
  see('tool.requested', { call: 'c3', name: 'c' });
  calls.close();
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual([]);
});
