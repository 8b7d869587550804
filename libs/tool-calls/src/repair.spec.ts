import { describe, expect, it } from 'vitest';
import {
  NO_REPAIRS,
  NO_ROUNDS,
  ToolSet,
  decideRepair,
  noteRound,
  parseToolCalls,
  providerParseError,
  readNativeCalls,
} from './index.js';

const tools = new ToolSet([
  { name: 'file_read', parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } },
  { name: 'shell', parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] } },
]);
const answer = (text: string) => parseToolCalls(text, { tools });
const call = (name: string, args: unknown) => `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;

describe('repair within the turn', () => {
  it('says what failed, where, what is required, the nearest name and that nothing was run', () => {
    const decision = decideRepair(NO_REPAIRS, answer(call('file_raed', { path: 'a' })), { tools });
    expect(decision).toMatchObject({ action: 'repair', state: { rounds: 1 } });
    const text = decision.action === 'repair' ? decision.text : '';
    expect(text).toContain('The call to file_raed failed');
    expect(text).toContain('Nothing was run');
    expect(text).toContain('Nearest tool name: file_read');
    expect(text).toContain('Tools: file_read, shell');

    const schema = decideRepair(NO_REPAIRS, answer(call('file_read', {})), { tools });
    expect(schema).toMatchObject({ action: 'repair' });
    expect(JSON.stringify(schema)).toContain('Required parameters: path');

    const broken = decideRepair(NO_REPAIRS, answer('<tool_call>{"name":"shell",\n"arguments":{oops}}</tool_call>'), {
      tools,
    });
    expect(JSON.stringify(broken)).toContain('line 2, column 18');
  });

  it('the feedback holds no tag that would be read as a call, and is bounded', () => {
    const hostile = `<tool_call>{"name":"shell","arguments":{"command":"${'<tool_call>'.repeat(500)}" x}}</tool_call>`;
    const decision = decideRepair(NO_REPAIRS, answer(hostile + call('shell', {}).repeat(40)), { tools });
    const text = decision.action === 'repair' ? decision.text : '';
    expect(parseToolCalls(text).calls).toEqual([]);
    expect(text).not.toContain('<tool_call>');
    expect(text.length).toBeLessThan(8000);
    expect(text).toContain('more calls failed');
  });

  it('two rounds are the budget, and the same mistake twice ends it at once', () => {
    const first = decideRepair(NO_REPAIRS, answer(call('a1', {})), { tools });
    const same = decideRepair(first.state, answer(call('a1', {})), { tools });
    expect(same).toMatchObject({ action: 'stop', reason: 'same_mistake_repeated' });
    const second = decideRepair(first.state, answer(call('a2', {})), { tools });
    expect(second.action).toBe('repair');
    const third = decideRepair(second.state, answer(call('a3', {})), { tools });
    expect(third).toMatchObject({ action: 'stop', reason: 'repair_budget_exhausted' });
    expect(decideRepair(second.state, answer('done'), { tools }).action).toBe('none');
  });

  it('good calls of the same answer are said to have run', () => {
    const decision = decideRepair(NO_REPAIRS, answer(call('file_read', { path: 'a' }) + call('nope', {})), { tools });
    expect(JSON.stringify(decision)).toContain('The other call of the same answer did run');
  });

  it('a call cut by the output limit gets its own advice', () => {
    const cut = answer('<tool_call>{"name":"shell","arguments":{"command":"echo');
    expect(JSON.stringify(decideRepair(NO_REPAIRS, cut, { tools, truncated: true }))).toContain('length limit');
    expect(JSON.stringify(decideRepair(NO_REPAIRS, cut, { tools }))).not.toContain('length limit');
  });

  it('a call inside of reasoning with nothing else is asked for again', () => {
    const thought = answer(`<think>${call('shell', { command: 'ls' })}</think>`);
    expect(decideRepair(NO_REPAIRS, thought, { tools })).toMatchObject({ action: 'repair' });
    expect(decideRepair(NO_REPAIRS, answer('<think>hm</think>'), { tools }).action).toBe('none');
  });

  it('every failed native call is answered under its id', () => {
    const native = readNativeCalls(
      {
        text: '',
        tool_calls: [
          { id: 'x1', name: 'shell', arguments: '{"command": "l' },
          { id: 'x2', name: 'nope', arguments: '{}' },
        ],
      },
      { tools },
    );
    const decision = decideRepair(NO_REPAIRS, native, { tools });
    expect(decision.action === 'repair' && decision.toolMessages.map(({ tool_call_id }) => tool_call_id)).toEqual([
      'x1',
      'x2',
    ]);
  });

  it('a server that could not parse the call is told apart from other failures', () => {
    expect(providerParseError('Failed to parse tool call arguments as JSON')).toMatchObject({ kind: 'malformed_json' });
    expect(providerParseError('The model produced unparsed peg-native output')).toMatchObject({
      kind: 'malformed_json',
    });
    expect(providerParseError('upstream timed out')).toBeUndefined();
    expect(providerParseError('tool call limit reached')).toBeUndefined();
  });
});

describe('loop detection', () => {
  const round = (path: string) => [{ name: 'file_read', arguments: { path, deep: { b: 1, a: 2 } } }];

  it('the same calls in three rounds in a row are a loop, in whatever order their keys stand', () => {
    let verdict = noteRound(NO_ROUNDS, round('a'));
    verdict = noteRound(verdict.state, [{ name: 'file_read', arguments: { deep: { a: 2, b: 1 }, path: 'a' } }]);
    expect(verdict.looping).toBe(false);
    verdict = noteRound(verdict.state, round('a'));
    expect(verdict).toMatchObject({ looping: true, reason: expect.stringContaining('file_read') as unknown });
  });

  it('another call or a round without calls in between starts afresh', () => {
    let verdict = noteRound(NO_ROUNDS, round('a'));
    for (const path of ['a', 'b', 'a', 'a']) verdict = noteRound(verdict.state, round(path));
    expect(verdict.looping).toBe(false);
    verdict = noteRound(noteRound(verdict.state, []).state, round('a'));
    expect(verdict.looping).toBe(false);
  });

  it('cycles of rounds are seen where that is asked for', () => {
    const options = { limit: 2, maxPeriod: 2 };
    let verdict = noteRound(NO_ROUNDS, round('a'), options);
    for (const path of ['b', 'a', 'b']) verdict = noteRound(verdict.state, round(path), options);
    expect(verdict.looping).toBe(true);
  });
});
