import { expect, test } from 'vitest';
import { callTurn, longConversation, resultTurn, userTurn } from './builders.js';

test('a built round answers every call in order, failures marked', () => {
  const call = callTurn(['a', { x: 1 }], ['b', {}]);
  expect(resultTurn(call, 'fine', new Error('broken'))).toEqual({
    type: 'tool_results',
    results: [
      { tool_call_id: 'call_0', name: 'a', content: 'fine', ok: true },
      { tool_call_id: 'call_1', name: 'b', content: 'broken', ok: false },
    ],
  });
  expect(userTurn('hi')).toEqual({ type: 'chat', role: 'user', content: 'hi' });
  expect(longConversation(3)).toHaveLength(12);
});
