import { describe, expect, it } from 'vitest';
import {
  authHeaders,
  buildChatRequest,
  endpointUrl,
  messageJson,
  providerKind,
  UnsendableRequest,
  type ChatMessage,
} from './index.js';

const SYSTEM: ChatMessage = { role: 'system', content: 'Be brief.' };
const USER: ChatMessage = { role: 'user', content: 'Weather in Oslo?' };
const CALL: ChatMessage = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c.1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }],
};
const RESULT: ChatMessage = { role: 'tool', tool_call_id: 'c.1', content: '4 degrees' };
const TOOLS = [{ type: 'function' as const, function: { name: 'weather', parameters: { type: 'object' } } }];

interface Body {
  [key: string]: unknown;
}
const parse = (text: string): Body => JSON.parse(text) as Body;

describe('openai-chat', () => {
  it('splices serialised messages and tools into the body byte for byte', () => {
    const prefix = [SYSTEM, USER].map((message) => messageJson(message)).join(',');
    const input = { family: 'openai-chat', model: 'm', maxTokens: 9, sampling: { temperature: 0 } } as const;
    const spliced = buildChatRequest({ ...input, messages: [prefix, CALL, RESULT], tools: JSON.stringify(TOOLS) });
    const plain = buildChatRequest({ ...input, messages: [SYSTEM, USER, CALL, RESULT], tools: TOOLS });
    expect(spliced).toEqual(plain);
    expect(spliced.body).toContain(prefix);
    expect(parse(spliced.body)).toEqual({
      model: 'm',
      messages: [SYSTEM, USER, CALL, RESULT],
      tools: TOOLS,
      max_tokens: 9,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it('puts system text in front of the first user message where the provider refuses the role', () => {
    const { body } = buildChatRequest({
      family: 'openai-chat',
      model: 'm',
      messages: [SYSTEM, USER],
      quirks: { mergeSystemIntoUser: true },
    });
    expect(parse(body)['messages']).toEqual([{ role: 'user', content: 'Be brief.\n\nWeather in Oslo?' }]);
  });

  it('refuses images before anything is sent where the provider cannot see', () => {
    const image: ChatMessage = {
      role: 'user',
      content: [{ type: 'image_url', image_url: { url: 'https://example.test/a.png' } }],
    };
    const input = { family: 'openai-chat', model: 'm', quirks: { vision: false } } as const;
    expect(() => buildChatRequest({ ...input, messages: [image] })).toThrow(UnsendableRequest);
    expect(() => buildChatRequest({ ...input, messages: [messageJson(image)] })).toThrow(/no images/);
    expect(() =>
      buildChatRequest({ ...input, messages: [{ role: 'user', content: 'a text with "type":"image_url"' }] }),
    ).not.toThrow();
    const quoted = messageJson({ role: 'user', content: 'a text with "type":"image_url"' });
    expect(() => buildChatRequest({ ...input, messages: [quoted] })).not.toThrow();
  });
});

describe('anthropic-messages', () => {
  const build = (messages: ChatMessage[], extra = {}): Body =>
    parse(buildChatRequest({ family: 'anthropic-messages', model: 'claude', messages, tools: TOOLS, ...extra }).body);

  it('keeps calls, results and thinking, and never sets more than four breakpoints', () => {
    const thinking = { type: 'thinking' as const, thinking: 'hm', signature: 'sig' };
    const body = build([
      SYSTEM,
      USER,
      { ...CALL, thinking_blocks: [thinking] },
      RESULT,
      { role: 'user', content: 'And Bergen?' },
    ]);
    expect(body['system']).toMatchObject([{ type: 'text', text: 'Be brief.' }]);
    expect(body['messages']).toMatchObject([
      { role: 'user', content: [{ type: 'text', text: 'Weather in Oslo?' }] },
      { role: 'assistant', content: [thinking, { type: 'tool_use', name: 'weather', input: { city: 'Oslo' } }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', content: '4 degrees' },
          { type: 'text', text: 'And Bergen?' },
        ],
      },
    ]);
    const text = JSON.stringify(body);
    expect(text.split('cache_control').length - 1).toBe(4);
    const ids = [...text.matchAll(/"(?:id|tool_use_id)":"([^"]*)"/g)].map((match) => match[1]);
    expect(ids).toEqual(['x632e31', 'x632e31']);
    expect(
      JSON.stringify(build([SYSTEM, USER], { quirks: { cacheBreakpoints: 1 } })).split('cache_control').length - 1,
    ).toBe(1);
  });

  it('shows the model its malformed arguments instead of an empty object', () => {
    const broken: ChatMessage = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'weather', arguments: '{"city":' } }],
    };
    expect(build([USER, broken, { ...RESULT, tool_call_id: 'c' }])['messages']).toMatchObject([
      {},
      { content: [{ input: { malformed_arguments: '{"city":' } }] },
      {},
    ]);
  });
});

describe('arguments of calls in the history', () => {
  const called = (text: string): ChatMessage => ({
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'weather', arguments: text } }],
  });
  const sent = (text: string, family: 'openai-chat' | 'openai-responses'): unknown => {
    const body = parse(buildChatRequest({ family, model: 'm', messages: [USER, called(text)] }).body);
    const item = ((body['messages'] ?? body['input']) as Body[])[1]!;
    return item['arguments'] ?? (item['tool_calls'] as { function: { arguments: string } }[])[0]!.function.arguments;
  };

  it.each(['openai-chat', 'openai-responses'] as const)('are an object in %s, whatever the model wrote', (family) => {
    expect(sent('{"city": "Oslo"}', family)).toBe('{"city": "Oslo"}');
    expect(sent('', family)).toBe('{}');
    for (const text of ['{"city":', '[1]', 'null', 'Oslo'])
      expect(JSON.parse(sent(text, family) as string)).toEqual({ malformed_arguments: text });
  });
});

describe('tools of a server that makes grammars of their schemas', () => {
  const parameters = {
    type: 'object',
    required: ['pattern'],
    additionalProperties: false,
    properties: {
      pattern: { type: 'string', pattern: '\\d+', description: 'What to look for.' },
      path: { type: 'string', pattern: '^/', default: { pattern: 'kept' }, enum: ['/a', true] },
      any: true,
      list: { type: 'array', uniqueItems: true, items: true, prefixItems: [true, { pattern: '^x$' }] },
    },
    anyOf: [true, { required: ['path'] }],
  };
  const tools = [{ type: 'function' as const, function: { name: 'grep', parameters } }];
  const plain = {
    type: 'object',
    required: ['pattern'],
    additionalProperties: false,
    properties: {
      pattern: { type: 'string', description: 'What to look for. (Must match \\d+)' },
      path: { type: 'string', default: { pattern: 'kept' }, enum: ['/a', true], description: 'Must match ^/' },
      any: {},
      list: { type: 'array', uniqueItems: true, items: {}, prefixItems: [{}, { description: 'Must match ^x$' }] },
    },
    anyOf: [{}, { required: ['path'] }],
  };
  const sent = (family: 'openai-chat' | 'openai-responses', given: typeof tools | string, kind = 'llamacpp') => {
    const quirks = providerKind(kind)!.quirks;
    const body = parse(buildChatRequest({ family, model: 'm', messages: [USER], tools: given, quirks }).body);
    const [tool] = body['tools'] as (Body & { function?: Body })[];
    return (tool!.function ?? tool!)['parameters'];
  };

  it('hold no pattern and no bare true, and say the pattern in words', () => {
    expect(sent('openai-chat', tools)).toEqual(plain);
    expect(sent('openai-chat', JSON.stringify(tools))).toEqual(plain);
    expect(sent('openai-responses', tools)).toEqual(plain);
    expect(sent('openai-chat', tools, 'vllm')).toEqual(parameters);
  });

  it('stay byte for byte where there is nothing to change', () => {
    const text = '[{"type":"function",  "function":{"name":"a","parameters":{"type":"object"}}}]';
    const input = { family: 'openai-chat', model: 'm', messages: [USER], tools: text } as const;
    expect(buildChatRequest({ ...input, quirks: { grammarSchemas: true } }).body).toContain(text);
  });
});

describe('the other families', () => {
  it('turns calls and results into items of the Responses API', () => {
    const { body, path } = buildChatRequest({
      family: 'openai-responses',
      model: 'm',
      messages: [SYSTEM, USER, CALL, RESULT],
      tools: TOOLS,
    });
    expect(path).toBe('/responses');
    expect(parse(body)).toMatchObject({
      input: [
        { role: 'system', content: [{ type: 'input_text', text: 'Be brief.' }] },
        { role: 'user' },
        { type: 'function_call', call_id: 'c.1', name: 'weather' },
        { type: 'function_call_output', call_id: 'c.1', output: '4 degrees' },
      ],
      tools: [{ type: 'function', name: 'weather' }],
      store: false,
      stream: true,
    });
  });

  it('sends the exact prompt to llama.cpp, beside /v1', () => {
    const request = buildChatRequest({
      family: 'llamacpp-completion',
      model: 'm',
      messages: [],
      prompt: '<|start|>',
      maxTokens: 5,
    });
    expect(parse(request.body)).toEqual({ prompt: '<|start|>', cache_prompt: true, n_predict: 5, stream: true });
    expect(endpointUrl('http://h:1/v1/', request.path)).toBe('http://h:1/completion');
    expect(endpointUrl('http://h:1/v1', '/chat/completions')).toBe('http://h:1/v1/chat/completions');
    expect(endpointUrl('http://h:1/v1/?api-version=2', '/chat/completions')).toBe(
      'http://h:1/v1/chat/completions?api-version=2',
    );
  });
});

describe('the catalogue', () => {
  it('knows kinds by alias and custom addresses, and refuses what is none', () => {
    expect(providerKind('llama.cpp')?.kind).toBe('llamacpp');
    expect(providerKind('custom:http://10.0.0.7:8080/v1')).toMatchObject({
      kind: 'custom',
      baseUrl: 'http://10.0.0.7:8080/v1',
    });
    for (const name of ['custom:', 'custom:ftp://x', 'custom:http://user:pass@x', 'nobody'])
      expect(providerKind(name)).toBeUndefined();
  });

  it('puts a key into its own header only, and none where there is no key', () => {
    expect(authHeaders({ style: 'bearer' }, 'k')).toEqual({ authorization: 'Bearer k' });
    expect(authHeaders({ style: 'x-api-key' }, 'k')).toEqual({ 'x-api-key': 'k' });
    expect(authHeaders({ style: 'custom', header: 'Api-Key' }, 'k')).toEqual({ 'api-key': 'k' });
    expect(authHeaders({ style: 'none' }, 'k')).toEqual({});
    expect(authHeaders({ style: 'bearer' }, undefined)).toEqual({});
  });
});
