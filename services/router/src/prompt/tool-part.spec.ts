import type { ConversationMessage } from '@yardmaster/contracts';
import { catalogueOf, loadRecord, type ToolView } from '@yardmaster/tool-render';
import { describe, expect, it } from 'vitest';
import { shownItem } from './shown-history.js';
import { type RequestTools, toolPart } from './tool-part.js';

const many: ToolView[] = Array.from({ length: 100 }, (_, index) => ({
  name: `crm_tool_${String(index).padStart(3, '0')}`,
  description: `Does the thing number ${index} of the customer relations department. `.repeat(3),
  parameters: { type: 'object', properties: { [`field_${index}`]: { type: 'string' } } },
}));
const tools = (more: Partial<RequestTools> = {}): RequestTools => ({
  current: catalogueOf(many),
  pinned: { catalogue: catalogueOf(many), core: ['crm_tool_000'] },
  meta: [],
  inline: [],
  deferrable: true,
  ...more,
});
const targets = {
  claude_api: { family: 'anthropic-messages', dialect: 'native', render: 'claude_deferred' },
  claude_text: { family: 'openai-chat', dialect: 'hermes', render: 'claude_deferred' },
  openai: { family: 'openai-responses', dialect: 'native', render: 'openai_native_deferred' },
  dispatcher: { family: 'openai-chat', dialect: 'native', render: 'harmony_dispatcher' },
  dispatcher_text: { family: 'openai-chat', dialect: 'harmony', render: 'harmony_dispatcher' },
} as const;
const rolling = { family: 'openai-chat', dialect: 'hermes', render: 'rolling_developer' } as const;
const front = (part: ReturnType<typeof toolPart>) => part.system + JSON.stringify(part.raw ?? part.tools);

describe.each(Object.entries(targets))('%s', (name, target) => {
  it('shows the core and not the rest', () => {
    const text = front(toolPart(tools(), target));
    // Two APIs take all definitions and keep those marked as deferred from the model.
    if (name !== 'claude_api' && name !== 'openai') expect(text).not.toContain('field_50');
    if (!name.startsWith('dispatcher')) expect(text).toContain('field_0');
  });

  it('does not move when tools come, go or change', () => {
    const before = front(toolPart(tools(), target));
    const changed = [
      ...many.slice(2),
      { ...many[1]!, description: 'Something else.' },
      { ...many[0]!, name: 'zz_new' },
    ];
    const after = front(toolPart(tools({ current: catalogueOf(changed) }), target));
    expect(after.startsWith(before.slice(0, -1))).toBe(true);
  });

  it('is drawn with everything in front where nobody answers a search', () => {
    expect(front(toolPart(tools({ deferrable: false, pinned: undefined }), target))).toContain('field_50');
  });

  it('shows few tools from the start', () => {
    const few = { current: catalogueOf(many.slice(0, 5)), pinned: undefined };
    const text = front(toolPart(tools(few), target));
    expect(text).toContain('field_4');
    expect(text).not.toContain('call_mcp');
  });
});

it('a rolling front stays until the set is pinned anew', () => {
  const current = catalogueOf(many.slice(5));
  expect(front(toolPart(tools({ current }), rolling))).toBe(front(toolPart(tools(), rolling)));
});

it('without tools nothing is said of tools', () => {
  const none = tools({ current: catalogueOf([]), pinned: undefined });
  for (const target of Object.values(targets))
    expect(toolPart(none, target)).toMatchObject({ system: '', tools: '', raw: undefined });
});

describe('the history', () => {
  const loaded: ConversationMessage = {
    type: 'tool_results',
    results: [{ tool_call_id: 'c1', name: 'tool_search', content: loadRecord([many[50]!]), ok: true }],
  };
  const shown = (target: (typeof targets)[keyof typeof targets], item: ConversationMessage) =>
    shownItem(item, toolPart(tools(), target).renderer, catalogueOf(many));

  it('shows a load in the form of the strategy', () => {
    expect(JSON.stringify(shown(targets.claude_text, loaded).item)).toContain('<function>');
    expect(shown(targets.claude_api, loaded).references.get('c1')).toEqual(['crm_tool_050']);
    const harmony = JSON.stringify(shown(targets.dispatcher_text, loaded).item);
    expect(harmony).toContain('type crm_tool_050 = (_: {');
    expect(harmony).not.toContain('<|');
  });

  it('shows calls through the dispatcher as the model made them', () => {
    const call: ConversationMessage = {
      type: 'assistant_tool_calls',
      text: null,
      tool_calls: [{ id: 'c2', name: 'crm_tool_050', arguments: '{"field_50":"x"}' }],
      reasoning_content: null,
    };
    const item = shown(targets.dispatcher, call).item as typeof call;
    expect(item.tool_calls[0]).toEqual({
      id: 'c2',
      name: 'call_mcp',
      arguments: '{"server":"local","tool":"crm_tool_050","args":{"field_50":"x"}}',
    });
    expect(shown(targets.claude_text, call).item).toBe(call);
  });
});
