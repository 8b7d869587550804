import { Inject, Injectable } from '@nestjs/common';
import { fromBinary } from '@bufbuild/protobuf';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { ConversationStore } from '@yardmaster/conversation';
import {
  BUCKETS,
  type ChatRequest,
  type ConversationMessage,
  type TenantId,
  type Tool,
  ToolSchema,
  YardError,
} from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { messageJson, type ToolChoice, type WireMessage, type WireTool } from '@yardmaster/llm-wire';
import { promptInstructions, type ToolDefinition, XML_STOP_SEQUENCE } from '@yardmaster/tool-calls';
import { RouterConfig } from '../config.js';
import type { Candidate, CutWish, Rendered, Renderer } from '../failover/candidate.js';
import { HARMONY_CUE, HARMONY_TOKENS, harmonyFront, harmonyItem } from './harmony-prompt.js';
import { cutTurns } from './cut-turns.js';
import { toWireMessages } from './wire-messages.js';
import { HistoryCache, type RenderedItem, renderItem, type StoredItem } from './history-cache.js';

const SHARED = '_';
const TOOL_SETS_KEPT = 500;
/** OpenAI's limit, which others copied. */
const MOST_STOPS = 4;

/** What a request says, loaded once, before any provider is tried. */
export interface Prompt {
  renderer: Renderer;
  hasTools: boolean;
  hasImages: boolean;
}

/** Turns a request by reference into what a provider gets, in the dialect of each attempt. */
@Injectable()
export class PromptService {
  private readonly cache: HistoryCache;
  private tools: KvSnapshot<Tool> | undefined;
  private readonly toolCache = new Map<string, ToolTexts>();
  private toolRevision = -1;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly store: ConversationStore,
    private readonly config: RouterConfig,
  ) {
    this.cache = new HistoryCache(config.prefixCache);
  }

  async onApplicationBootstrap(): Promise<void> {
    this.tools = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
  }

  /** Loads what the request refers to. Throws NOT_FOUND for an unknown tool, INVALID for messages that cannot be read. */
  async load(tenant: TenantId, request: ChatRequest): Promise<Prompt> {
    const history = await this.history(tenant, request);
    const tail = parseMessages(request.tailMessagesJson, 'tail_messages_json');
    const tools = this.toolTexts(tenant, request);
    const extras = requestExtras(request);
    const renderer = (candidate: Candidate, wish?: CutWish): Rendered | null => {
      const rendered = this.render(tenant, request, candidate, history, tail);
      const cut = cutTurns(rendered, wish);
      if (cut === null) return null;
      if (candidate.family === 'llamacpp-completion') return rawPrompt(request, tools, extras, cut);
      const native = candidate.dialect === 'native';
      const system = [request.system, native ? '' : tools.instructions()].filter((part) => part !== '').join('\n\n');
      const messages: WireMessage[] = [];
      if (system !== '') messages.push({ role: 'system', content: system });
      for (const item of cut.items) if (item.json !== '') messages.push(item.json);
      return {
        input: {
          messages,
          ...(native && tools.json !== '' ? { tools: tools.json } : {}),
          ...(native || tools.json === '' ? extras : withStop(extras, XML_STOP_SEQUENCE)),
          ...(native && request.toolChoiceJson !== ''
            ? { toolChoice: JSON.parse(request.toolChoiceJson) as ToolChoice }
            : {}),
        },
        turnsCut: cut.turnsCut,
        promptTokens: Math.ceil(
          cut.items.reduce((sum, item) => sum + item.json.length, system.length + (native ? tools.json.length : 0)) / 4,
        ),
      };
    };
    return {
      renderer,
      hasTools: tools.json !== '',
      hasImages: history.some((item) => item.json.includes('"image_url"')),
    };
  }

  private render(
    tenant: TenantId,
    request: ChatRequest,
    candidate: Candidate,
    history: readonly StoredItem[],
    tail: readonly ConversationMessage[],
  ): RenderedItem[] {
    // What the provider does not want (reasoning, for most) is left out here, once, and not at every attempt.
    const wire = (item: ConversationMessage) => {
      if (candidate.family === 'llamacpp-completion') return harmonyItem(item, candidate);
      return toWireMessages(candidate, item)
        .map((message) => (message.thinking_blocks ? JSON.stringify(message) : messageJson(message, candidate.quirks)))
        .join(',');
    };
    const key = `${tenant} ${request.conversationId} ${candidate.provider} ${candidate.model} ${candidate.dialect}`;
    const rendered =
      request.conversationId === ''
        ? history.map((item) => renderItem(item, wire))
        : this.cache.render(key, history, wire);
    return [
      ...rendered,
      ...tail.map((item, index) => renderItem({ seq: -1 - index, json: JSON.stringify(item) }, wire)),
    ];
  }

  private async history(tenant: TenantId, request: ChatRequest): Promise<StoredItem[]> {
    if (request.conversationId !== '')
      return this.store.window({
        tenant,
        conversation: request.conversationId,
        upToSeq: Number(request.upToSeq),
        limit: this.config.windowItems,
      });
    const json =
      request.inlineKey !== '' ? await this.store.bodies.get(tenant, request.inlineKey) : request.inlineMessagesJson;
    return parseMessages(json, 'inline_messages_json').map((message, index) => ({
      seq: index + 1,
      json: JSON.stringify(message),
    }));
  }

  /** The tools of a request in both forms. Most requests have those of the last one, so they are kept by name. */
  private toolTexts(tenant: TenantId, request: ChatRequest): ToolTexts {
    if (request.inlineToolsJson !== '') {
      const inline = parseJson(request.inlineToolsJson, 'inline_tools_json') as WireTool[];
      const definitions = this.definitions(tenant, request.tools);
      return toolTexts(
        [...definitions, ...inline.map((tool) => tool.function as ToolDefinition)],
        [...definitions.map(wireTool), ...inline],
      );
    }
    const revision = this.tools?.revision ?? 0;
    if (revision !== this.toolRevision) {
      this.toolRevision = revision;
      this.toolCache.clear();
    }
    const key = `${tenant} ${request.tools.join(' ')}`;
    let texts = this.toolCache.get(key);
    if (texts === undefined) {
      const definitions = this.definitions(tenant, request.tools);
      texts = toolTexts(definitions, definitions.map(wireTool));
      if (this.toolCache.size >= TOOL_SETS_KEPT) this.toolCache.clear();
      this.toolCache.set(key, texts);
    }
    return texts;
  }

  /** Definitions of the named tools, sorted, so that the same set is always the same bytes. */
  private definitions(tenant: TenantId, names: readonly string[]): ToolDefinition[] {
    const known = this.tools?.current;
    return [...new Set(names)].sort().map((name) => {
      const tool = known?.get(`${tenant}.${name}`) ?? known?.get(`${SHARED}.${name}`);
      if (tool === undefined)
        throw new YardError('NOT_FOUND', 'YM-TOOL-UNKNOWN', `There is no tool "${name}".`, { details: { name } });
      return {
        name: tool.name.replace(/^__/, ''),
        description: tool.description,
        parameters: JSON.parse(tool.parametersJson) as Record<string, unknown>,
      };
    });
  }
}

/** The exact text for a model that is driven without a chat template. */
function rawPrompt(
  request: ChatRequest,
  tools: ToolTexts,
  extras: ReturnType<typeof requestExtras>,
  cut: { items: readonly RenderedItem[]; turnsCut: number },
): Rendered {
  const prompt =
    harmonyFront(request.system, tools.definitions) + cut.items.map(({ json }) => json).join('') + HARMONY_CUE;
  return {
    input: { messages: [], prompt, ...extras, extra: { preserved_tokens: HARMONY_TOKENS } },
    turnsCut: cut.turnsCut,
    promptTokens: Math.ceil(prompt.length / 4),
  };
}

/** Tools as the API takes them (JSON, '' without any), and as a text model is told of them. */
interface ToolTexts {
  json: string;
  definitions: readonly ToolDefinition[];
  instructions(): string;
}

function toolTexts(definitions: readonly ToolDefinition[], wire: readonly WireTool[]): ToolTexts {
  let instructions: string | undefined;
  return {
    json: wire.length === 0 ? '' : JSON.stringify(wire),
    definitions,
    instructions: () => (instructions ??= promptInstructions(definitions)),
  };
}

/** With one more sequence at which a model stops: it must not go on to invent the result of its own call. */
function withStop(extras: ReturnType<typeof requestExtras>, sequence: string): ReturnType<typeof requestExtras> {
  const stop = extras.sampling?.stop ?? [];
  return stop.length >= MOST_STOPS
    ? extras
    : { ...extras, sampling: { ...extras.sampling, stop: [...stop, sequence] } };
}

const wireTool = (tool: ToolDefinition): WireTool => ({
  type: 'function',
  function: { name: tool.name, description: tool.description ?? '', parameters: tool.parameters },
});

function requestExtras(request: ChatRequest) {
  const sampling = {
    ...(request.temperature === undefined ? {} : { temperature: request.temperature }),
    ...(request.topP === undefined ? {} : { top_p: request.topP }),
    ...(request.seed === undefined ? {} : { seed: request.seed }),
    ...(request.stop.length === 0 ? {} : { stop: request.stop }),
  };
  return {
    ...(Object.keys(sampling).length === 0 ? {} : { sampling }),
    ...(request.responseFormatJson === ''
      ? {}
      : { responseFormat: parseJson(request.responseFormatJson, 'response_format_json') }),
  };
}

function parseMessages(json: string, field: string): ConversationMessage[] {
  if (json === '') return [];
  const value = parseJson(json, field);
  if (!Array.isArray(value))
    throw new YardError('INVALID', 'YM-BAD-MESSAGES', `${field} must be a JSON array of messages.`);
  return value as ConversationMessage[];
}

function parseJson(json: string, field: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new YardError('INVALID', 'YM-BAD-MESSAGES', `${field} is no valid JSON.`);
  }
}
