import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseBody, WireStream, type WireAnswer, type WireEvent, type WireFamily } from './index.js';

const encoder = new TextEncoder();
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (value: { type: string }): string => `event: ${value.type}\n${data(value)}`;
const chat = (delta: unknown, finish: string | null = null): string =>
  data({ choices: [{ index: 0, delta, finish_reason: finish }] });

/** One answer with reasoning, text beyond ASCII and two calls in every family; the last event ends it. */
const STREAMS: Record<Exclude<WireFamily, 'openai-embeddings'>, string[]> = {
  'openai-chat': [
    chat({ role: 'assistant', reasoning_content: 'Hmm, 나.' }),
    chat({ content: 'Grüße, 亚洲 🌏 ' }),
    chat({ content: 'and more. ' }),
    chat({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{"x":' } }] }),
    chat({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '{"y":"é"}' } }] }),
    chat({ tool_calls: [{ index: 0, function: { arguments: '1}' } }] }),
    chat({}, 'tool_calls'),
    data({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 7 } }),
    'data: [DONE]\n\n',
  ],
  'openai-responses': [
    named({ type: 'response.created' }),
    named({
      type: 'response.reasoning_summary_text.delta',
      output_index: 0,
      summary_index: 0,
      delta: 'Hmm, 나.',
    } as never),
    named({ type: 'response.output_text.delta', output_index: 1, content_index: 0, delta: 'Grüße, 亚洲 🌏 ' } as never),
    named({ type: 'response.output_text.delta', output_index: 1, content_index: 0, delta: 'and more. ' } as never),
    ...['a', 'b'].map((id, i) =>
      named({
        type: 'response.output_item.done',
        output_index: 2 + i,
        item: {
          type: 'function_call',
          id: `f${id}`,
          call_id: id,
          name: i === 0 ? 'f' : 'g',
          arguments: i === 0 ? '{"x":1}' : '{"y":"é"}',
        },
      } as never),
    ),
    named({
      type: 'response.completed',
      response: { status: 'completed', output: [], usage: { input_tokens: 5, output_tokens: 7 } },
    } as never),
  ],
  'anthropic-messages': [
    named({ type: 'message_start', message: { usage: { input_tokens: 5, output_tokens: 1 } } } as never),
    named({ type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } } as never),
    named({ type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hmm, 나.' } } as never),
    named({ type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 's1' } } as never),
    named({ type: 'content_block_stop', index: 0 } as never),
    named({ type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } } as never),
    named({ type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Grüße, 亚洲 🌏 ' } } as never),
    named({ type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'and more. ' } } as never),
    named({
      type: 'content_block_start',
      index: 2,
      content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} },
    } as never),
    named({
      type: 'content_block_delta',
      index: 2,
      delta: { type: 'input_json_delta', partial_json: '{"x":1}' },
    } as never),
    named({
      type: 'content_block_start',
      index: 3,
      content_block: { type: 'tool_use', id: 'b', name: 'g', input: {} },
    } as never),
    named({
      type: 'content_block_delta',
      index: 3,
      delta: { type: 'input_json_delta', partial_json: '{"y":"é"}' },
    } as never),
    named({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 7 } } as never),
    named({ type: 'message_stop' }),
  ],
  'llamacpp-completion': [
    data({ content: 'Grüße, 亚洲 🌏 ', stop: false }),
    data({ content: 'and more. ', stop: false }),
    data({ content: '', stop: true, stop_type: 'eos', tokens_evaluated: 5, tokens_predicted: 7 }),
  ],
};
const FAMILIES = Object.keys(STREAMS) as (keyof typeof STREAMS)[];

function read(family: WireFamily, pieces: readonly Uint8Array[]): { answer: WireAnswer; events: WireEvent[] } {
  const stream = new WireStream(family, { newId: () => 'generated' });
  const events = pieces.flatMap((piece) => stream.push(piece));
  events.push(...stream.end());
  return { answer: stream.answer(), events };
}

function cutAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const points = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return points.slice(1).map((point, i) => bytes.subarray(points[i], point));
}

describe.each(FAMILIES)('a stream of %s', (family) => {
  const bytes = encoder.encode(STREAMS[family].join(''));
  const whole = read(family, [bytes]);

  it('is read whole', () => {
    expect(whole.answer).toMatchObject({
      text: 'Grüße, 亚洲 🌏 and more. ',
      usage: { prompt_tokens: 5, completion_tokens: 7 },
    });
    expect(whole.answer.error).toBeUndefined();
    if (family === 'llamacpp-completion') return;
    expect(whole.answer).toMatchObject({
      reasoning: 'Hmm, 나.',
      finish_reason: 'tool_calls',
      calls: [
        { id: 'a', name: 'f', arguments: '{"x":1}' },
        { id: 'b', name: 'g', arguments: '{"y":"é"}' },
      ],
    });
  });

  it('says the same however its bytes are cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => {
        expect(read(family, cutAt(bytes, cuts)).answer).toEqual(whole.answer);
      }),
      { numRuns: 300 },
    );
    expect(
      read(
        family,
        Array.from(bytes, (byte) => Uint8Array.of(byte)),
      ).answer,
    ).toEqual(whole.answer);
  });

  it('never ends as a success when it is cut before its end', () => {
    const { answer } = whole;
    for (let end = 0; end < bytes.length; end += Math.max(1, Math.floor(bytes.length / 1000))) {
      const part = read(family, [bytes.subarray(0, end)]).answer;
      // After the finish reason only the usage is missing: then the answer must be the whole one.
      if (part.error === undefined) expect({ ...part, usage: null }).toEqual({ ...answer, usage: null });
      else expect([part.finish_reason, part.error.class, part.calls]).toEqual(['error', 'retry', []]);
    }
  });

  it('its events add up to its answer', () => {
    let text = '';
    const calls = new Map<number, string>();
    for (const event of whole.events) {
      if (event.type === 'text') text += event.text;
      if (event.type === 'call_arguments') calls.set(event.index, (calls.get(event.index) ?? '') + event.text);
    }
    expect(text).toBe(whole.answer.text);
    expect([...calls.values()]).toEqual(whole.answer.calls.map((call) => call.arguments));
  });
});

describe('think blocks in the text', () => {
  const stream = (...pieces: string[]): WireAnswer =>
    read('openai-chat', [
      ...pieces.map((piece) => encoder.encode(chat({ content: piece }))),
      encoder.encode(chat({}, 'stop')),
    ]).answer;

  it('a lone close tag makes all before it reasoning, also when it comes late and in pieces', () => {
    expect(stream('We want', ' 17.\n</th', 'ink>\n\n39', '1')).toMatchObject({
      text: '391',
      reasoning: 'We want 17.',
      marks: { inlineThink: true },
    });
  });

  it('leading blocks move, tags elsewhere stay', () => {
    expect(stream('<think>a</think>\n<thi', 'nk>b</think>\n\nx <think>y</think>')).toMatchObject({
      text: 'x <think>y</think>',
      reasoning: 'a\nb',
    });
    expect(stream('Use <think> and </think> so.')).toMatchObject({
      text: 'Use <think> and </think> so.',
      reasoning: '',
    });
  });

  it('stay where they are when calls come as text', () => {
    const reader = new WireStream('openai-chat', { inlineThink: false });
    reader.push(encoder.encode(chat({ content: '<think>a</think>b' }, 'stop')));
    reader.end();
    expect(reader.answer()).toMatchObject({ text: '<think>a</think>b', reasoning: '', marks: {} });
  });

  describe('opened by the prompt', () => {
    const prefilled = (deltas: object[], finish = 'stop', options = {}): WireAnswer => {
      const reader = new WireStream('openai-chat', { thinkPrefilled: true, ...options });
      for (const delta of deltas) reader.push(encoder.encode(chat(delta)));
      reader.push(encoder.encode(chat({}, finish)));
      reader.end();
      return reader.answer();
    };
    const say = (...texts: string[]) => texts.map((content) => ({ content }));

    it('end at the first close tag, and an open tag of the model is taken for that of the prompt', () => {
      for (const pieces of [
        ['a <', 'b </thi', 'nk>\n\nc'],
        ['<thi', 'nk>a <b </think>c'],
      ])
        expect(prefilled(say(...pieces))).toMatchObject({ text: 'c', reasoning: 'a <b', marks: { inlineThink: true } });
    });

    it('are all of an answer that is cut inside', () => {
      expect(prefilled(say('a b'), 'length')).toMatchObject({ text: '', reasoning: 'a b' });
    });

    it('are the answer where nothing closes them, unless that is turned off', () => {
      expect(prefilled(say('a b'))).toMatchObject({ text: 'a b', marks: { textFromReasoning: true } });
      expect(prefilled(say('a b'), 'stop', { reasoningFallback: false })).toMatchObject({ text: '', reasoning: 'a b' });
    });

    it('are not looked for where the server gives the reasoning in a field', () => {
      expect(prefilled([{ reasoning_content: 'r' }, ...say('a')])).toMatchObject({ text: 'a', reasoning: 'r' });
    });
  });

  it('any text and any cutting gives the same text and reasoning as one piece', () => {
    const soup = fc.array(fc.constantFrom('<think>', '</think>', 'a', ' ', '\n', '<', '</th', 'ink>'), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(soup, fc.array(fc.nat(60), { maxLength: 6 }), (parts, cuts) => {
        const text = parts.join('');
        const points = [0, ...cuts.filter((cut) => cut < text.length).sort((a, b) => a - b), text.length];
        const pieces = points.slice(1).map((point, i) => text.slice(points[i], point));
        const one = stream(text);
        const many = stream(...pieces);
        expect([many.text, many.reasoning.trim()]).toEqual([one.text, one.reasoning.trim()]);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('limits', () => {
  it('a line without end is refused at the cap, and so is a body', () => {
    const stream = new WireStream('openai-chat', { lineCapBytes: 1000, bodyCapBytes: 10_000 });
    const events: WireEvent[] = [];
    for (let i = 0; i < 50; i++) events.push(...stream.push(encoder.encode('data: x'.repeat(30))));
    expect(events).toMatchObject([{ type: 'error', failure: { class: 'next_provider' } }]);
    const body = new WireStream('openai-chat', { bodyCapBytes: 1000 });
    const bodyEvents = Array.from({ length: 50 }, () => body.push(encoder.encode('[1,2,3,'.repeat(10)))).flat();
    expect(bodyEvents).toMatchObject([{ type: 'error', failure: { class: 'next_provider' } }]);
    expect(normaliseBody('openai-chat', 'x'.repeat(2000), { bodyCapBytes: 1000 }).error?.class).toBe('next_provider');
  });

  it('nothing after [DONE] counts', () => {
    const stream = new WireStream('openai-chat');
    stream.push(encoder.encode(`${chat({ content: 'z' }, 'stop')}data: [DONE]\n\n`));
    expect(stream.isDone).toBe(true);
    stream.push(encoder.encode(chat({ content: 'more' })));
    stream.end();
    expect(stream.answer().text).toBe('z');
  });
});

describe('hostile bytes', () => {
  it('100 000 mutated bodies and streams: nothing is thrown and every one comes to an end', () => {
    // A generator of our own: a hundred thousand runs must cost little, and a failure must name its seed.
    let seed = 12_345;
    const random = (n: number): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed % n;
    };
    const tokens = [
      'null',
      '{',
      '}',
      '[',
      ']',
      '"',
      '\n\n',
      'data: ',
      ':',
      '\r',
      '[DONE]',
      '-1',
      '1e999',
      '\\u0000',
      '"error"',
      '"choices"',
      '\ufeff',
      '<think>',
    ];
    const bodies = FAMILIES.map((family) =>
      encoder.encode(STREAMS[family].join('').replaceAll('data: ', '').slice(0, 900)),
    );
    const sources = [...FAMILIES.map((family) => encoder.encode(STREAMS[family].join(''))), ...bodies];
    for (let run = 0; run < 100_000; run++) {
      const source = sources[random(sources.length)]!;
      const start = random(source.length);
      const bytes = source.slice(start, start + 40 + random(400));
      for (let i = random(4); i >= 0; i--) {
        const at = random(bytes.length);
        if (random(2) === 0) bytes[at] = random(256);
        else bytes.set(encoder.encode(tokens[random(tokens.length)]!).subarray(0, bytes.length - at), at);
      }
      const family = FAMILIES[random(FAMILIES.length)]!;
      const from = seed;
      try {
        const stream = new WireStream(family);
        const half = random(bytes.length);
        stream.push(bytes.subarray(0, half));
        stream.push(bytes.subarray(half));
        stream.end();
        const { text, reasoning, finish_reason } = stream.answer();
        if (text.length + reasoning.length > 4 * bytes.length + 100 || finish_reason === undefined)
          throw new Error('absurd answer');
      } catch (error) {
        throw new Error(`run ${run}, seed ${from}, ${family}: ${Buffer.from(bytes).toString('base64')}`, {
          cause: error,
        });
      }
    }
  });
});

describe('bushy JSON', () => {
  it('is refused before it costs memory, and large but plain JSON is not', () => {
    expect(normaliseBody('openai-chat', `{"choices":${'['.repeat(100_000)}`).error).toBeDefined();
    expect(normaliseBody('openai-chat', `{"x":[${'[],'.repeat(300_000)}[]],"choices":[]}`).error).toBeDefined();
    const text = '{[}]"\\'.repeat(100_000);
    const body = JSON.stringify({ choices: [{ message: { content: text }, finish_reason: 'stop' }] });
    expect(normaliseBody('openai-chat', body).text).toBe(text);
  });
});
