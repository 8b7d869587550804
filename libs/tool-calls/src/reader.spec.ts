import { validateArguments } from '@yardmaster/tool-schema';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ALL_TEXT_DIALECTS,
  type ParseOptions,
  type ParseResult,
  ToolCallStream,
  ToolSet,
  parseToolCalls,
  readNativeCalls,
} from './index.js';
import { answer, pieces, soup, soupArguments } from './soup.testing.js';
import { charactersLookedAt } from './work.testing.js';

const RUNS = { numRuns: 3000 };
const anyTool = { type: 'object' } as const;
const tools = new ToolSet([
  { name: 'a', parameters: anyTool },
  { name: 'b', parameters: { type: 'object', properties: { k: { type: 'integer' } } } },
]);
const TYPED = {
  type: 'object',
  properties: {
    i: { type: 'integer' },
    n: { type: 'number', minimum: -1000 },
    s: { type: 'string' },
    b: { type: 'boolean' },
    l: { type: 'array', items: { type: ['integer', 'string'] } },
    e: { enum: ['red', 'blue'] },
    u: { anyOf: [{ type: 'object' }, { type: 'null' }] },
  },
};
const typed = new ToolSet([{ name: 'typed', parameters: TYPED }]);
const everything: ParseOptions = { dialects: ALL_TEXT_DIALECTS, tools };

const render = (name: string, args: unknown) =>
  `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
/** The same call in several forms that may follow each other in an answer. */
function written(how: string, args: unknown): string {
  const json = JSON.stringify({ name: 'a', arguments: args });
  if (how === 'repaired') return `<tool_call>${json.slice(0, -1)},}</tool_call>`;
  if (how === 'fenced') return `\`\`\`tool_call\n${json}\n\`\`\``;
  if (how === 'attribute') return `<invoke name="a">${JSON.stringify(args)}</invoke>`;
  return render('a', args);
}
const made = ({ calls }: ParseResult) => calls.map(({ name, arguments: args }) => ({ name, arguments: args }));

describe('reading calls out of text', () => {
  it('any soup of protocol fragments is read without an exception, and only registered tools are called', () => {
    fc.assert(
      fc.property(soup(24), (text) => {
        for (const options of [everything, {}, { tools, thinkPrefilled: true }]) {
          const result = parseToolCalls(text, options);
          expect(result.errors.length).toBeLessThanOrEqual(16);
          if (options.tools) for (const call of result.calls) expect(tools.get(call.name)).toBeDefined();
          expect(new Set(result.calls.map(({ id }) => id)).size).toBe(result.calls.length);
        }
      }),
      RUNS,
    );
  });

  it('arguments come back exactly, whatever protocol their strings hold', () => {
    fc.assert(
      fc.property(soupArguments(), (args) => {
        const result = parseToolCalls(`Text.\n${render('a', args)}\nMore.`, { tools });
        expect(result.errors).toEqual([]);
        expect(made(result)).toEqual([{ name: 'a', arguments: args }]);
        expect(result.text).toBe('Text.\n\nMore.');
      }),
      RUNS,
    );
  });

  it('arguments come back exactly on the repair path too', () => {
    fc.assert(
      fc.property(soupArguments(), (args) => {
        const json = JSON.stringify({ name: 'a', arguments: args });
        const result = parseToolCalls(`<tool_call>${json.slice(0, -1)},}</tool_call>`, { tools });
        expect(result.errors).toEqual([]);
        expect(made(result)).toEqual([{ name: 'a', arguments: args }]);
        expect(result.notes.repairs).toEqual({ trailing_comma: 1 });
      }),
      RUNS,
    );
  });

  it('the calls of a cut answer are the first calls of the whole one', () => {
    const form = fc.tuple(soupArguments(), fc.constantFrom('strict', 'repaired', 'fenced', 'attribute'));
    fc.assert(
      fc.property(fc.array(form, { minLength: 1, maxLength: 3 }), fc.nat(), (list, at) => {
        const whole = list.map(([args, how]) => written(how, args)).join('\nand\n');
        const all = made(parseToolCalls(whole, { tools }));
        expect(all).toEqual(list.map(([args]) => ({ name: 'a', arguments: args })));
        const cut = made(parseToolCalls(whole.slice(0, at % (whole.length + 1)), { tools }));
        expect(all.slice(0, cut.length)).toEqual(cut);
      }),
      RUNS,
    );
  });

  it('nothing inside of a reasoning block is called', () => {
    fc.assert(
      fc.property(soup(12), fc.boolean(), (inside, closed) => {
        const thought = inside.replaceAll(/<\/think/g, '<think');
        const result = parseToolCalls(`<think>${thought}${closed ? '</think>' : ''}`, { tools });
        expect(result.calls).toEqual([]);
        expect(result.errors).toEqual([]);
      }),
      RUNS,
    );
  });

  it('any way to cut an answer into pieces gives the same result, and the events add up to its text', () => {
    fc.assert(
      fc.property(
        fc.oneof(soup(20), answer()),
        fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 5 }),
        (text, sizes) => {
          for (const options of [everything, { tools }]) {
            const stream = new ToolCallStream(options);
            let shown = '';
            const note = (events: ReturnType<ToolCallStream['push']>) => {
              for (const event of events) {
                if (event.type === 'text') shown += event.text;
                if (event.type === 'reset') shown = '';
              }
            };
            for (const [index, piece] of pieces(text, sizes).entries()) {
              // Without the patience that saves work, every place is tried as the end of what is known.
              if (index % 2 === 0) Object.assign(stream, { wanted: 0 });
              note(stream.push(piece));
            }
            const { events, ...result } = stream.end();
            note(events);
            expect(result).toEqual(parseToolCalls(text, options));
            expect(shown).toBe(result.text);
          }
        },
      ),
      {
        ...RUNS,
        // What follows a call in Harmony is not part of its error, whether it is there yet or not.
        examples: [
          [
            '<|channel|>commentary to=functions.a <|constrain|>json to=functions.b<|message|>{}<|call|><|tool_call_begin|>',
            [1],
          ],
        ],
      },
    );
  });

  it('no run changes a prototype', () => {
    const before = Reflect.ownKeys(Object.prototype);
    fc.assert(
      fc.property(fc.constantFrom('__proto__', 'constructor', 'prototype'), soup(4), (key, value) => {
        const json = `{"name":"a","arguments":{${JSON.stringify(key)}:{"prototype":{"x":1},"x":${JSON.stringify(value)}},"k":1}}`;
        const forms = [
          `<tool_call>${json}</tool_call>`,
          `<tool_call>${json.slice(0, -1)},}</tool_call>`,
          `<tool_call>\n<function=a>\n<parameter=${key}>\n{"x":1}\n</parameter>\n</function>\n</tool_call>`,
          `<tool_call>a\n<arg_key>${key}</arg_key>\n<arg_value>{"x":1}</arg_value>\n</tool_call>`,
          `[a(${key}={"x":1})]`,
        ];
        for (const form of forms) {
          for (const call of parseToolCalls(form, everything).calls) {
            expect(Object.hasOwn(call.arguments, '__proto__')).toBe(false);
            expect(call.arguments['x']).toBeUndefined();
          }
        }
      }),
      RUNS,
    );
    expect(Reflect.ownKeys(Object.prototype)).toEqual(before);
    expect(({} as Record<string, unknown>)['x']).toBeUndefined();
  });

  it('the same JSON gives the same calls and errors through the API and in a tag', () => {
    fc.assert(
      fc.property(fc.constantFrom('a', 'b', 'A', 'zz'), soupArguments(), (name, args) => {
        const text = parseToolCalls(render(name, args), { tools });
        const native = readNativeCalls(
          { text: '', tool_calls: [{ name, arguments: JSON.stringify(args) }] },
          { tools },
        );
        expect(made(native)).toEqual(made(text));
        expect(native.errors.map(({ kind, message }) => [kind, message])).toEqual(
          text.errors.map(({ kind, message }) => [kind, message]),
        );
      }),
      RUNS,
    );
  });

  it('on strict text without a tag in its strings it agrees with the search for the close tag', () => {
    const plain = fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.boolean()), { maxKeys: 4 });
    const clean = plain.filter((args) => !JSON.stringify(args).includes('<') && !Object.hasOwn(args, '__proto__'));
    fc.assert(
      fc.property(fc.array(clean, { maxLength: 4 }), (list) => {
        const text = list.map((args) => `Then.\n${render('a', args)}`).join('\n');
        expect(made(parseToolCalls(text))).toEqual(searched(text));
      }),
      RUNS,
    );
  });

  it('coerced arguments fit the schema, and coercing them again changes nothing', () => {
    const value = fc.oneof(
      fc.integer().map(String),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constantFrom('1.5', 'x', '', 'true', 'False', 'null', '[1]', '{"a":1}', 'RED', null, true, [], ['x'], {}),
    );
    const sent = fc.record(
      { i: value, n: value, s: value, b: value, l: value, e: value, u: value },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(sent, (args) => {
        const [call] = parseToolCalls(render('typed', args), { tools: typed }).calls;
        if (!call) return;
        expect(validateArguments(TYPED, call.arguments).ok).toBe(true);
        expect(made(parseToolCalls(render('typed', call.arguments), { tools: typed }))).toEqual([
          { name: 'typed', arguments: call.arguments },
        ]);
      }),
      RUNS,
    );
  });
});

/** What looking for `<tool_call>` and the next `</tool_call>` finds. */
function searched(text: string): { name: string; arguments: unknown }[] {
  return [...text.matchAll(/<tool_call>([\s\S]*?)<\/tool_call>/g)].map(
    ([, body]) => JSON.parse(body!.trim()) as { name: string; arguments: unknown },
  );
}

describe('hostile answers cost linear work', () => {
  const generators: Record<string, string> = {
    'open tags': '<tool_call>',
    'cut calls': '<tool_call>{"name":"a","arguments":{"k":"',
    'reasoning tags': '<think>',
    backticks: '`',
    fences: '```x\n',
    'function blocks': '<function=a>\n<parameter=b>\n',
    'close tags': '</tool_call>',
    'angle brackets': '<',
    'half tags': '<invoke name="',
    'python calls': '[search(a=1,',
    spaces: ' ',
    'code spans': '`a``b',
    'comments without an end': '<!-- ',
    'tags in one quoted line': '> <tool_call>',
    'quoted lines': '\n> <tool_call>',
    'escaped tags': '\\<tool_call>',
    backslashes: '\\',
    'halves of turns': '<|im_start|>us',
    'repeated keys': '"k":1,',
    'calls of another name': '{"name":"zz","arguments":{}}',
    'parameters on one line': '<parameter=k>x</parameter>',
    'strings with quoted calls': '"\\q</tool_call><tool_call>[",',
  };
  /** Twice the text may cost little more than twice the work; the constant is for what is looked at once. */
  const doubles = (head: string, unit: string, count: number) => {
    const work = (times: number) => charactersLookedAt(() => parseToolCalls(head + unit.repeat(times), everything));
    expect(work(2 * count), JSON.stringify([head, unit])).toBeLessThanOrEqual(2.6 * work(count) + 4096);
  };

  it('whatever is repeated, twice as much of it takes about twice the work', () => {
    // The schemas are compiled before anything is counted.
    parseToolCalls(render('a', {}) + render('b', {}), { tools });
    const unit = soup(3).filter((text) => text !== '');
    fc.assert(
      fc.property(soup(2), unit, (head, repeated) => doubles(head, repeated, Math.ceil(600 / repeated.length))),
      RUNS,
    );
  });

  for (const [name, unit] of Object.entries(generators)) {
    it(`${name} in great number take linear work and give few errors and no call`, () => {
      for (const head of ['', '<tool_call>', '<tool_call>{', '<tool_call>\n<function=a>\n<parameter=k>\n']) {
        doubles(head, unit, 2000);
        const result = parseToolCalls(head + unit.repeat(20_000), everything);
        expect(result.calls).toEqual([]);
        expect(result.errors.length).toBeLessThanOrEqual(16);
      }
    });
  }
});
