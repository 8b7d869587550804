// What is sent back to a model: the properties that each message must have are listed in ../toolcalls/CONTRACT.md.
import { isDeepStrictEqual } from 'node:util';
import {
  ALL_TEXT_DIALECTS,
  NativeToolDispatcher,
  type ProviderMessage,
  type ToolDefinition,
  type ToolDispatcher,
  XmlToolDispatcher,
  parseToolCalls,
} from '@yardmaster/tool-calls';
import type { ConversationMessage } from '@yardmaster/contracts';
import type { Suite, Verdict } from '../suite.ts';
import { expand } from './toolcalls-parse.ts';

interface ResultInput {
  name: string;
  output?: string;
  output_base64?: string;
  success: boolean;
  tool_call_id: string | null;
}

type Property = { p: string } & Record<string, unknown>;

interface ResultsCase {
  id: string;
  dispatcher: 'xml' | 'native';
  op: 'format_results' | 'to_provider_messages' | 'prompt_instructions' | 'should_send_tool_specs';
  results?: ResultInput[];
  history?: ConversationMessage[];
  tools?: ToolDefinition[];
  limits?: { max_output_chars?: number };
  expected_properties: Property[];
}

/** What an operation gave, in the terms of the properties. */
interface Outcome {
  content: string;
  messages: { role: string; content: string }[];
  toolMessages: { tool_call_id: string; content: string }[];
  returned: unknown;
  tools: ToolDefinition[] | undefined;
}

export const suite: Suite = function* (content) {
  for (const one of content as unknown[]) {
    const test = expand(one) as ResultsCase;
    let verdict: Verdict = { id: test.id, ok: true };
    try {
      const outcome = run(test);
      for (const property of test.expected_properties) {
        const got = check(property, outcome);
        if (got !== true) {
          verdict = { id: test.id, ok: false, why: property.p, expected: clip(property), got: clip(got) };
          break;
        }
      }
    } catch (error) {
      verdict = { id: test.id, ok: false, why: `threw ${(error as Error).stack}` };
    }
    yield verdict;
  }
};

function run(test: ResultsCase): Outcome {
  const dispatcher: ToolDispatcher = test.dispatcher === 'xml' ? new XmlToolDispatcher() : new NativeToolDispatcher();
  const outcome: Outcome = { content: '', messages: [], toolMessages: [], returned: undefined, tools: test.tools };
  switch (test.op) {
    case 'format_results': {
      const results = (test.results ?? []).map((result) => ({
        ...result,
        output: result.output_base64 === undefined ? (result.output ?? '') : Buffer.from(result.output_base64, 'base64'),
      }));
      const max = test.limits?.max_output_chars;
      const message = dispatcher.formatResults(results, max === undefined ? {} : { maxOutputChars: max });
      if (message.type === 'chat') outcome.messages = [{ role: message.role, content: message.content as string }];
      else {
        outcome.toolMessages = message.results.map(({ tool_call_id, content }) => ({ tool_call_id, content }));
        outcome.messages = message.results.map(({ content }) => ({ role: 'tool', content }));
      }
      break;
    }
    case 'to_provider_messages':
      outcome.messages = dispatcher.toProviderMessages(test.history ?? []).map((message: ProviderMessage) => ({
        role: message.role,
        content: typeof message.content === 'string' ? message.content : JSON.stringify(message.content),
      }));
      outcome.toolMessages = outcome.messages
        .filter(({ role }) => role === 'tool')
        .map(({ content }) => JSON.parse(content) as { tool_call_id: string; content: string });
      break;
    case 'prompt_instructions':
      outcome.returned = dispatcher.promptInstructions(test.tools ?? []);
      outcome.messages = [{ role: 'system', content: outcome.returned as string }];
      break;
    case 'should_send_tool_specs':
      outcome.returned = dispatcher.shouldSendToolSpecs();
      break;
  }
  outcome.content = outcome.messages.map(({ content }) => content).join('\n');
  return outcome;
}

const RESULT_LINE = /^<tool_result name="([^"]*)" status="(ok|error)"[^>\n]*>$/gm;

/** True, or what was found instead. */
function check(property: Property, outcome: Outcome): unknown {
  const { content, messages, toolMessages } = outcome;
  const text = (key: string) => property[key] as string;
  const number = (key: string) => property[key] as number;
  const message = () => messages[number('index')]?.content ?? '';
  const same = (got: unknown, want: unknown = property.eq) => isDeepStrictEqual(got, want) || got;
  switch (property.p) {
    case 'role':
      return (messages.length === 1 && messages[0]!.role === property.eq) || messages.map(({ role }) => role);
    case 'starts_with':
      return content.startsWith(text('value')) || content;
    case 'ends_with_trimmed':
      return content.trim().endsWith(text('value')) || content;
    case 'contains':
      return content.includes(text('value')) || content;
    case 'not_contains':
      return !content.includes(text('value')) || content;
    case 'count':
      return same(occurrences(content, text('needle')));
    case 'count_ci':
      return same(occurrences(content.toLowerCase(), text('needle').toLowerCase()));
    case 'count_ci_in_message':
      return same(occurrences(message().toLowerCase(), text('needle').toLowerCase()));
    case 'regex_count':
      return same([...content.matchAll(new RegExp(text('value'), withG(property.flags as string | undefined)))].length);
    case 'order': {
      let at = 0;
      for (const value of property.values as string[]) {
        const found = content.indexOf(value, at);
        if (found < 0) return `"${value}" does not follow`;
        at = found + value.length;
      }
      return true;
    }
    case 'reparse_results': {
      const found = [...content.matchAll(RESULT_LINE)].map(([, name, status]) => ({ name, status }));
      const closes = occurrences(content, '</tool_result>');
      return (isDeepStrictEqual(found, property.eq) && closes === found.length) || { found, closes };
    }
    case 'reparse_calls':
      return same(callsIn(content, property.with_tools ? outcome.tools : undefined));
    case 'reparse_calls_in_message':
      return same(callsIn(message(), property.with_tools ? outcome.tools : undefined));
    case 'max_chars':
      return content.length <= number('le') || content.length;
    case 'cut_count': {
      const cut = cutCount(content);
      if (property.eq !== undefined) return same(cut);
      return (cut >= number('min') && cut <= number('max')) || cut;
    }
    case 'kept_plus_cut': {
      const needle = text('needle');
      const total = occurrences(content, needle) * needle.length + cutCount(content);
      return total === property.eq || total === property.or || total;
    }
    case 'well_formed':
      return !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(content) || 'a lone surrogate';
    case 'tool_messages':
      return same(toolMessages);
    case 'tool_message_count':
      return same(toolMessages.length);
    case 'content_regex':
      return new RegExp(text('value')).test(message()) || message();
    case 'message_count':
      return same(messages.length);
    case 'roles':
      return same(messages.map(({ role }) => role));
    case 'message_content':
      return same(message());
    case 'assistant_payload':
      return same(payload(message())[text('field')]);
    case 'assistant_payload_absent_or_null': {
      const value = payload(message())[text('field')];
      return value === undefined || value === null || value;
    }
    case 'assistant_payload_tool_call_ids':
      return same((payload(message()).tool_calls as { id: string }[]).map(({ id }) => id));
    case 'tool_payload':
      return same(payload(message()));
    case 'returns':
      return same(outcome.returned);
    default:
      return `unknown property ${property.p}`;
  }
}

function callsIn(content: string, tools: ToolDefinition[] | undefined): number {
  return parseToolCalls(content, { dialects: ALL_TEXT_DIALECTS, ...(tools ? { tools } : {}) }).calls.length;
}

function cutCount(content: string): number {
  return Number(/(\d+) characters omitted/.exec(content)?.[1] ?? 0);
}

function payload(content: string): Record<string, unknown> {
  return JSON.parse(content) as Record<string, unknown>;
}

function occurrences(text: string, needle: string): number {
  return text.split(needle).length - 1;
}

function withG(flags = ''): string {
  return flags.includes('g') ? flags : `${flags}g`;
}

function clip(value: unknown): unknown {
  const text = JSON.stringify(value);
  return text === undefined || text.length <= 1500 ? value : `${text.slice(0, 1500)}…`;
}
