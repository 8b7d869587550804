import { expect, it, test } from 'vitest';
import { chooseRender, type RenderTarget } from './render-choice.js';

const target = (more: Partial<RenderTarget> = {}): RenderTarget => ({
  kind: 'openai',
  family: 'openai-chat',
  model: 'qwen3-7b',
  nativeTools: true,
  toolDispatcher: 'auto',
  dialect: undefined,
  ...more,
});

test.each<[string, Partial<RenderTarget>, string | undefined, string, string]>([
  ['native tools: in the request', {}, undefined, 'native_upfront', 'native'],
  ['no native tools: in the prompt', { nativeTools: false }, undefined, 'xml_upfront', 'hermes'],
  ['Anthropic: deferred', { family: 'anthropic-messages' }, undefined, 'claude_deferred', 'native'],
  ['gpt-oss: the dispatcher', { model: 'gpt-oss-120b' }, undefined, 'harmony_dispatcher', 'native'],
  ['gpt-oss as text', { model: 'gpt-oss-20b', nativeTools: false }, undefined, 'harmony_dispatcher', 'harmony'],
  ['what the entry names', {}, 'rolling_developer', 'rolling_developer', 'native'],
  ['text where the strategy is text', {}, 'claude_deferred', 'claude_deferred', 'hermes'],
  [
    'native where the strategy is native',
    { toolDispatcher: 'auto', nativeTools: true },
    'native_upfront',
    'native_upfront',
    'native',
  ],
  [
    'the entry gives way to the dialect of a request',
    { toolDispatcher: 'xml' },
    'native_upfront',
    'xml_upfront',
    'hermes',
  ],
  ['and the other way round', { toolDispatcher: 'native' }, 'xml_upfront', 'native_upfront', 'native'],
  ['a misspelt entry is none', {}, 'native_upfrnt', 'native_upfront', 'native'],
])('%s', (_, more, configured, strategy, dialect) => {
  expect(chooseRender('', configured, target(more))).toMatchObject({ strategy, dialect, problem: undefined });
});

it('OpenAI’s own search needs the Responses API', () => {
  expect(chooseRender('', 'openai_native_deferred', target()).family).toBe('openai-responses');
});

it.each([
  ['pigeon', {}, /pigeon.*claude_deferred/],
  ['xml_upfront', { toolDispatcher: 'native' as const }, /text/],
  ['native_upfront', { nativeTools: false }, /native/],
])('a request that insists on %s is told why not', (wish, more, why) => {
  expect(chooseRender(wish, undefined, target(more)).problem).toMatch(why);
});

it.each([
  ['llama.cpp where the entry names Harmony', { kind: 'llamacpp', nativeTools: false }, 'harmony_upfront'],
  ['llama.cpp where the dialect is Harmony', { kind: 'llamacpp', nativeTools: false, dialect: 'harmony' }, undefined],
  ['a server of raw text', { kind: 'llamacpp-completion', family: 'llamacpp-completion' as const }, undefined],
])('Harmony goes as exact text to %s', (_, more, configured) => {
  expect(chooseRender('', configured, target(more))).toMatchObject({
    family: 'llamacpp-completion',
    dialect: 'harmony',
    strategy: configured ?? 'harmony_dispatcher',
    problem: undefined,
  });
});
