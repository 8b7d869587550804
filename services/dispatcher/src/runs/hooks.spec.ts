import type { TenantId } from '@yardmaster/contracts';
import type { Health, Logger } from '@yardmaster/service-kit';
import { parseToolCalls } from '@yardmaster/tool-calls';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { type HookedRun, Hooks, MetricsHook } from './hooks.js';

const run: HookedRun = { tenant: 't' as TenantId, run: 'r', conversation: 'c', step: 1 };
const served = { provider: 'p', model: 'm', dialect: 'hermes' };
const read = (text: string) => parseToolCalls(text, { tools: [{ name: 'a' }] });
const call = (name: string, end = '') => `<tool_call>{"name":"${name}","arguments":{}${end}}</tool_call>\n`;

it('what was wrong, repaired, thought or quoted in an answer is counted', async () => {
  const metrics = new Registry();
  const hook = new MetricsHook({ metrics } as Health);
  const counts = async (name: string) =>
    Object.fromEntries(
      (await metrics.getSingleMetric(`yardmaster_${name}`)!.get()).values.map(({ labels, value }) => [
        Object.values(labels).join(' '),
        value,
      ]),
    );
  hook.on_answer(
    run,
    served,
    read(`<think>${call('a')}</think>${call('a', ',')}${call('zz')}A sample: \`${call('a').trim()}\``),
  );
  hook.on_answer(run, served, { ...read(call('zz').repeat(18)), seconds: 0.003 });
  expect(await counts('parse_errors_total')).toEqual({ 'unknown_tool hermes m': 17, 'unlisted hermes m': 2 });
  expect(await counts('malformed_answers_total')).toEqual({ 'unknown_tool hermes': 2 });
  const exposed = await metrics.metrics();
  expect(exposed).toContain('yardmaster_parse_seconds_bucket{le="0.0025",dialect="hermes"} 0');
  expect(exposed).toContain('yardmaster_parse_seconds_bucket{le="0.005",dialect="hermes"} 1');
  expect(await counts('repairs_total')).toEqual({ trailing_comma: 1 });
  expect(await counts('calls_in_reasoning_total')).toEqual({ '': 1 });
  expect(await counts('quoted_calls_ignored_total')).toEqual({ '': 1 });
});

it('a hook that fails or rejects breaks nothing, and the others are still called', async () => {
  const warned: unknown[] = [];
  const log = { warn: (about: unknown) => warned.push(about) } as unknown as Logger;
  let seen = 0;
  const failing = () => {
    throw new Error('no');
  };
  const hooks = new Hooks(
    [
      { on_step: failing, on_answer: failing, on_tool_call: failing, on_tool_result: failing },
      { on_answer: () => Promise.reject(new Error('later')) },
      { on_answer: () => seen++ },
    ],
    log,
  );
  hooks.step(run, served);
  hooks.answer(run, served, read('text'));
  hooks.toolCall(run, {} as never);
  hooks.toolResult(run, {} as never, {} as never);
  await Promise.resolve();
  expect(seen).toBe(1);
  expect(warned).toHaveLength(5);
});
