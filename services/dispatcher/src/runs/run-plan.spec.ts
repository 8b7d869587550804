import { create } from '@bufbuild/protobuf';
import { StartRunSchema, tenantId, type Tool, ToolSchema } from '@yardmaster/contracts';
import type { RunRecord } from '@yardmaster/conversation';
import type { PlatformConfig } from '@yardmaster/service-kit';
import { expect, it } from 'vitest';
import { planRun } from './run-plan.js';

const tool = (name: string, more: { kind?: string; aliases?: string[] } = {}): Tool =>
  create(ToolSchema, {
    ...{ name, description: `Tool ${name}.`, parametersJson: '{"type":"object"}', kind: 'crm', effect: 'read' },
    ...{ hash: name, state: 'active', ...more },
  });
const META = ['__tool_search', '__tool_describe'].map((name) => tool(name, { kind: 'meta' }));

function plan(registered: Tool[], named: string[], begun = false) {
  const all = new Map([...registered, ...META].map((one) => [one.name, one]));
  const find = (_: unknown, name: string) =>
    all.get(name) ?? [...all.values()].find(({ aliases }) => aliases.includes(name));
  return planRun(
    create(StartRunSchema, { input: 'x', tools: named }),
    { tenant: tenantId('acme'), createdMs: 0 } as RunRecord,
    { agents: {}, routing: {} } as unknown as PlatformConfig,
    { find, all: () => all },
    { maxIterations: 5, runTimeoutMs: 1000 },
    () => false,
    begun,
  );
}

it('a tool that a run names by an alias is called by the name that its models are shown', () => {
  const { tools, named, toolSet } = plan([tool('crm_find', { aliases: ['customer_search'] })], ['customer_search']);
  expect(named).toEqual(['crm_find']);
  expect(tools.get('crm_find')?.name).toBe('crm_find');
  expect(toolSet.get('crm_find')).toBeDefined();
});

it('a run that names an unknown tool does not begin, and one that has begun goes on without it', () => {
  expect(() => plan([tool('a')], ['a', 'b'])).toThrow(/no tool "b"/);
  const { named, tools } = plan([tool('a')], ['a', 'b'], true);
  expect(named).toEqual(['a']);
  expect([...tools.keys()]).toEqual(['a', 'tool_search', 'tool_describe']);
});

it('the meta tools can be named without their underscores, and stand there once', () => {
  expect([...plan([tool('a')], ['a', 'tool_search', '__tool_search']).tools.keys()]).toEqual([
    'a',
    'tool_search',
    'tool_describe',
  ]);
});
