// The case files are only worth what they catch. Each mutant below is a mistake that readers of tool calls really make,
// put in place of one module of the library; the case suites have to notice every one of them, several times over.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type * as AnswerSinks from '../../libs/tool-calls/src/answer-sink.ts';
import type * as CheckCall from '../../libs/tool-calls/src/check-call.ts';
import type * as Neutralise from '../../libs/tool-calls/src/neutralise.ts';
import type * as ReadJson from '../../libs/tool-calls/src/read-json.ts';
import type * as Stream from '../../libs/tool-calls/src/stream.ts';
import type * as XmlDispatcher from '../../libs/tool-calls/src/xml-tool-dispatcher.ts';
import type { Suite } from './suite.ts';

const ENOUGH = 3;
const PARSE = ['parse.json', 'own-parse.json'];
const RESULTS = ['results.json', 'own-results.json'];

/** How often the mutated code ran in place of the real one. */
let ran = 0;

afterEach(() => {
  for (const path of ['answer-sink', 'check-call', 'neutralise', 'read-json', 'stream', 'xml-tool-dispatcher']) {
    vi.doUnmock(`../../libs/tool-calls/src/${path}.ts`);
  }
  vi.resetModules();
});

/** The cases (all of which the library passes) that fail for what came out of them; slowness and exceptions prove nothing about the cases. */
async function failing(name: 'parse' | 'results', files: string[]): Promise<string[]> {
  vi.resetModules();
  ran = 0;
  const { suite } = (await import(`./suites/toolcalls-${name}.ts`)) as { suite: Suite };
  const failed = [];
  for (const file of files) {
    const url = new URL(`./toolcalls/${file}`, import.meta.url);
    // Those about time and size are the slow ones, and not about what a call is.
    const cases = (JSON.parse(readFileSync(url, 'utf8')) as { limits?: { max_ms?: number } }[]).filter(
      ({ limits }) => limits?.max_ms === undefined,
    );
    for await (const { id, ok, why = '' } of suite(cases, url.pathname)) {
      if (!ok && !/^(?:threw|too slow|streamed|text events)/.test(why)) failed.push(id);
    }
  }
  return failed;
}

describe('a reader of calls that makes a known mistake fails at least three cases', () => {
  it('it cuts a call at the first close tag, which may stand in a string', async () => {
    vi.doMock('../../libs/tool-calls/src/read-json.ts', async (original: () => Promise<typeof ReadJson>) => {
      const real = await original();
      return {
        ...real,
        readJson: ((text, start, closes) => {
          const close = text.indexOf('</tool_call>', start);
          if (close >= 0) ran++;
          const reading = real.readJson(close < 0 ? text : text.slice(0, close), start, closes);
          // For such a reader what stands before the close tag is all that there is.
          return close >= 0 && reading.status === 'cut'
            ? { status: 'bad', at: close, seen: close, message: 'cut' }
            : reading;
        }) satisfies typeof ReadJson.readJson,
      };
    });
    const failed = await failing('parse', PARSE);
    expect(ran).toBeGreaterThan(0);
    expect(failed.length, failed.join(' ')).toBeGreaterThanOrEqual(ENOUGH);
  });

  it('it strips reasoning before it looks for calls, and with it what stands in a string', async () => {
    vi.doMock('../../libs/tool-calls/src/stream.ts', async (original: () => Promise<typeof Stream>) => {
      const real = await original();
      const strip = (raw: string) => {
        ran++;
        return raw.replaceAll(/<think>[\s\S]*?<\/think>/g, '');
      };
      class Stripping extends real.ToolCallStream {
        private raw = '';
        override push(chunk: string) {
          this.raw += chunk;
          return [];
        }
        override end() {
          super.push(strip(this.raw));
          this.raw = '';
          return super.end();
        }
      }
      const parseToolCalls: typeof Stream.parseToolCalls = (raw, options) => real.parseToolCalls(strip(raw), options);
      return { ...real, ToolCallStream: Stripping, parseToolCalls };
    });
    const failed = await failing('parse', PARSE);
    expect(ran).toBeGreaterThan(0);
    expect(failed.length, failed.join(' ')).toBeGreaterThanOrEqual(ENOUGH);
  });

  it('it completes a value that was cut', async () => {
    vi.doMock('../../libs/tool-calls/src/answer-sink.ts', async (original: () => Promise<typeof AnswerSinks>) => {
      const real = await original();
      const { readJson } = await import('../../libs/tool-calls/src/read-json.ts');
      const { shapeCalls } = await import('../../libs/tool-calls/src/call-shape.ts');
      class Completing extends real.AnswerSink {
        override addUnreadable(...args: Parameters<AnswerSinks.AnswerSink['addUnreadable']>) {
          const [kind, , body] = args;
          const start = body.indexOf('{');
          const whole = start < 0 ? undefined : completed(body.slice(start));
          if (kind !== 'unterminated' || whole === undefined) return super.addUnreadable(...args);
          ran++;
          const reading = readJson(whole, 0);
          if (reading.status !== 'ok') return super.addUnreadable(...args);
          this.addShaped(shapeCalls(reading.value, reading.literals, body), body);
        }
      }
      return { ...real, AnswerSink: Completing };
    });
    const failed = await failing('parse', PARSE);
    expect(ran).toBeGreaterThan(0);
    expect(failed.length, failed.join(' ')).toBeGreaterThanOrEqual(ENOUGH);
  });

  it('it runs calls to tools that nobody registered', async () => {
    vi.doMock('../../libs/tool-calls/src/check-call.ts', async (original: () => Promise<typeof CheckCall>) => {
      const real = await original();
      const checkCall: typeof CheckCall.checkCall = (raw, tools, decodes) => {
        const known = tools?.resolve(raw.name) !== undefined;
        if (tools && !known) ran++;
        return real.checkCall(raw, known ? tools : undefined, decodes);
      };
      return { ...real, checkCall };
    });
    const failed = await failing('parse', PARSE);
    expect(ran).toBeGreaterThan(0);
    expect(failed.length, failed.join(' ')).toBeGreaterThanOrEqual(ENOUGH);
  });

  it('it neutralises a result before it cuts it', async () => {
    const { neutraliseProtocol } = await vi.importActual<typeof Neutralise>('../../libs/tool-calls/src/neutralise.ts');
    vi.doMock('../../libs/tool-calls/src/neutralise.ts', async (original: () => Promise<typeof Neutralise>) => ({
      ...(await original()),
      neutraliseProtocol: (text: string) => text,
    }));
    vi.doMock(
      '../../libs/tool-calls/src/xml-tool-dispatcher.ts',
      async (original: () => Promise<typeof XmlDispatcher>) => {
        const real = await original();
        const { prepareOutput } = await import('../../libs/tool-calls/src/result-text.ts');
        class TooEarly extends real.XmlToolDispatcher {
          override formatResults(...[results, limits]: Parameters<XmlDispatcher.XmlToolDispatcher['formatResults']>) {
            ran++;
            const early = results.map((result) => ({
              ...result,
              output: neutraliseProtocol(prepareOutput(result.output, Infinity).text),
            }));
            return super.formatResults(early, limits);
          }
          // Histories are not cut: they come out as ever.
          override toProviderMessages(
            ...[history, options]: Parameters<XmlDispatcher.XmlToolDispatcher['toProviderMessages']>
          ) {
            const safe = history.map((message) =>
              message.type === 'tool_results'
                ? {
                    ...message,
                    results: message.results.map((one) => ({ ...one, content: neutraliseProtocol(one.content) })),
                  }
                : message,
            );
            return super.toProviderMessages(safe, options);
          }
        }
        return { ...real, XmlToolDispatcher: TooEarly };
      },
    );
    const failed = await failing('results', RESULTS);
    expect(ran).toBeGreaterThan(0);
    expect(failed.length, failed.join(' ')).toBeGreaterThanOrEqual(ENOUGH);
  });
});

/** JSON that was cut, with the strings, lists and objects closed that are open at its end. */
function completed(text: string): string {
  const open: string[] = [];
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (inString) {
      if (char === '\\') at++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '{' || char === '[') open.push(char === '{' ? '}' : ']');
    else if (char === '}' || char === ']') open.pop();
  }
  return `${text}${inString ? '"' : ''}${open.reverse().join('')}`;
}
