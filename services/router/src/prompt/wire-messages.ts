import type { ConversationMessage } from '@yardmaster/contracts';
import type { ChatMessage } from '@yardmaster/llm-wire';
import { countForged, NativeToolDispatcher, type ProviderMessage, XmlToolDispatcher } from '@yardmaster/tool-calls';
import type { Candidate } from '../failover/candidate.js';
import type { ShownItem } from './shown-history.js';

const native = new NativeToolDispatcher();
const xml = new XmlToolDispatcher();

/** One item of the history, drawn in the strategy of a candidate, as messages of the wire, in the dialect of a candidate. */
export function toWireMessages(
  candidate: Pick<Candidate, 'provider' | 'model' | 'dialect' | 'kind' | 'family'>,
  { item, references }: ShownItem,
): ChatMessage[] {
  const target = { provider: candidate.provider, model: candidate.model };
  // llama.cpp may tokenise contents with special tokens on, whoever wrote them.
  const options = { target, neutraliseEveryRole: candidate.kind === 'llamacpp' };
  if (candidate.dialect !== 'native') return xml.toProviderMessages([item], options).map(plain);
  const messages = native.toProviderMessages([item], options);
  const wire = withThinking(candidate, item, messages.map(item.type === 'chat' ? plain : fromPayload));
  return references.size === 0 ? wire : wire.map((message) => withReferences(message, references));
}

/** Thinking blocks are signed: they go back as they came, to the provider and model that wrote them, and nowhere else. */
function withThinking(
  candidate: Pick<Candidate, 'provider' | 'model' | 'family'>,
  item: ConversationMessage,
  messages: ChatMessage[],
): ChatMessage[] {
  if (candidate.family !== 'anthropic-messages' || item.type === 'tool_results') return messages;
  const { thinking_blocks: blocks, served } = item;
  if (blocks === undefined || served?.provider !== candidate.provider || served.model !== candidate.model)
    return messages;
  return messages.map((message) => ({ ...message, thinking_blocks: blocks }));
}

/** How many marks of the protocol in the results of tools were made harmless for a candidate that reads calls in text. */
export function forgedMarks({ dialect }: Pick<Candidate, 'dialect'>, item: ConversationMessage): number {
  if (dialect === 'native' || item.type !== 'tool_results') return 0;
  return item.results.reduce((sum, { content }) => sum + countForged(content), 0);
}

function withReferences(message: ChatMessage, references: ShownItem['references']): ChatMessage {
  const names = references.get(message.tool_call_id ?? '');
  return names === undefined ? message : { ...message, tool_references: [...names] };
}

const plain = ({ role, content, reasoning_content }: ProviderMessage): ChatMessage => ({
  role,
  content,
  ...(reasoning_content === undefined ? {} : { reasoning_content }),
});

interface Payload {
  content: string | null;
  tool_calls?: { id: string; name: string; arguments: string }[];
  reasoning_content?: string | null;
  tool_call_id?: string;
}

/** The dispatcher states calls and results as JSON in the content; the wire has fields for them. */
function fromPayload({ role, content }: ProviderMessage): ChatMessage {
  const payload = JSON.parse(content as string) as Payload;
  if (payload.tool_call_id !== undefined) return { role, content: payload.content, tool_call_id: payload.tool_call_id };
  return {
    role,
    content: payload.content,
    ...(payload.tool_calls === undefined
      ? {}
      : {
          tool_calls: payload.tool_calls.map(({ id, name, arguments: text }) => ({
            id,
            type: 'function',
            function: { name, arguments: text },
          })),
        }),
    ...(payload.reasoning_content ? { reasoning_content: payload.reasoning_content } : {}),
  };
}
