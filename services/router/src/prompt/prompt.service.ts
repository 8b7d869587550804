import { Inject, Injectable } from '@nestjs/common';
import { fromBinary } from '@bufbuild/protobuf';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { ConversationStore, type WindowCache } from '@yardmaster/conversation';
import {
  BUCKETS,
  type ChatRequest,
  type ConversationMessage,
  type TenantId,
  type Tool,
  ToolSchema,
  YardError,
} from '@yardmaster/contracts';
import { BUS, HEALTH, type Health } from '@yardmaster/service-kit';
import { messageJson, type ToolChoice, type WireMessage, type WireTool } from '@yardmaster/llm-wire';
import {
  catalogueOf,
  type PinnedTools,
  readPinned,
  type ToolCatalogue,
  type ToolView,
  viewOf,
} from '@yardmaster/tool-render';
import { Counter } from 'prom-client';
import { RouterConfig } from '../config.js';
import type { Candidate, CutWish, Rendered, Renderer } from '../failover/candidate.js';
import { cutTurns } from './cut-turns.js';
import { forgedMarks, toWireMessages } from './wire-messages.js';
import { HistoryCache, type RenderedItem, renderItem, type StoredItem } from './history-cache.js';
import { HARMONY_CUE, HARMONY_TOKENS, harmonyFront, harmonyItem } from './harmony-prompt.js';
import { shownItem } from './shown-history.js';
import { type RequestTools, type ToolPart, toolPart } from './tool-part.js';

const SHARED = '_';
const TOOL_SETS_KEPT = 500;
const PINNED_KEPT = 100;
/** Longest wait for changes of the registry that the caller has seen already. */
const CATCH_UP_MS = 2_000;
/** Histories as they are stored, of all conversations together; what was drawn from them takes about as much again. */
const WINDOW_CACHE_CHARS = 64 * 1_048_576;
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
  private readonly windows: WindowCache;
  private readonly forged: Counter;
  private tools: KvSnapshot<Tool> | undefined;
  private readonly toolCache = new Map<string, DrawnTools>();
  private toolRevision = -1;
  /** Revisions up to this one were waited for in vain; another store has begun to count anew. */
  private missed = 0;
  private readonly pinned = new Map<string, PinnedTools>();

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly store: ConversationStore,
    private readonly config: RouterConfig,
    @Inject(HEALTH) { metrics }: Health,
  ) {
    this.forged = new Counter({
      name: 'yardmaster_forged_tags_neutralised_total',
      help: 'Marks of calls, results, reasoning and roles in results of tools, made harmless for text models.',
      registers: [metrics],
    });
    this.cache = new HistoryCache(config.prefixCache);
    this.windows = store.windowCache({
      conversations: config.prefixCache,
      chars: WINDOW_CACHE_CHARS,
      limit: config.windowItems,
    });
  }

  async onApplicationBootstrap(): Promise<void> {
    this.tools = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
  }

  /** Loads what the request refers to. Throws NOT_FOUND for an unknown tool, INVALID for messages that cannot be read. */
  async load(tenant: TenantId, request: ChatRequest): Promise<Prompt> {
    const history = await this.history(tenant, request);
    const tail = parseMessages(request.tailMessagesJson, 'tail_messages_json');
    await this.caughtUp(Number(request.toolsRevision));
    const tools = this.drawn(tenant, request, await this.pinnedSet(tenant, request.toolSetKey));
    const extras = requestExtras(request);
    const renderer = (candidate: Candidate, wish?: CutWish): Rendered | null => {
      const part = tools.for(candidate);
      const rendered = this.render(tenant, request, candidate, history, tail, part, tools.known);
      const cut = cutTurns(rendered, wish);
      if (cut === null) return null;
      if (candidate.family === 'llamacpp-completion') return rawPrompt(request.system, part, extras, cut);
      const native = candidate.dialect === 'native';
      const system = [request.system, part.system].filter((text) => text !== '').join('\n\n');
      const messages: WireMessage[] = [];
      if (system !== '') messages.push({ role: 'system', content: system });
      for (const item of cut.items) if (item.json !== '') messages.push(item.json);
      const definitions = part.raw === undefined ? part.tools.length : tools.rawChars(part);
      return {
        input: {
          messages,
          ...(part.tools === '' ? {} : { tools: part.tools }),
          ...(part.raw === undefined ? {} : { extra: { tools: part.raw } }),
          ...(part.stop === undefined ? extras : withStop(extras, part.stop)),
          ...(native && request.toolChoiceJson !== ''
            ? { toolChoice: JSON.parse(request.toolChoiceJson) as ToolChoice }
            : {}),
        },
        turnsCut: cut.turnsCut,
        promptTokens: Math.ceil(
          cut.items.reduce((sum, item) => sum + item.json.length, system.length + definitions) / 4,
        ),
      };
    };
    return {
      renderer,
      hasTools: tools.any,
      hasImages: history.some((item) => item.json.includes('"image_url"')),
    };
  }

  private render(
    tenant: TenantId,
    request: ChatRequest,
    candidate: Candidate,
    history: readonly StoredItem[],
    tail: readonly ConversationMessage[],
    part: ToolPart,
    known: ToolCatalogue,
  ): RenderedItem[] {
    // What the provider does not want (reasoning, for most) is left out here, once, and not at every attempt.
    const wire = (item: ConversationMessage) => {
      const shown = shownItem(item, part.renderer, known);
      this.forged.inc(forgedMarks(candidate, item));
      if (candidate.family === 'llamacpp-completion') return harmonyItem(shown.item, candidate);
      return toWireMessages(candidate, shown)
        .map((message) => (message.thinking_blocks ? JSON.stringify(message) : messageJson(message, candidate.quirks)))
        .join(',');
    };
    const key = `${tenant} ${request.conversationId} ${candidate.provider} ${candidate.model} ${candidate.dialect} ${part.form}`;
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
      return this.windows.window({
        tenant,
        conversation: request.conversationId,
        upToSeq: Number(request.upToSeq),
      });
    const json =
      request.inlineKey !== '' ? await this.store.bodies.get(tenant, request.inlineKey) : request.inlineMessagesJson;
    return parseMessages(json, 'inline_messages_json').map((message, index) => ({
      seq: index + 1,
      json: JSON.stringify(message),
    }));
  }

  /** The tools of a request, drawn as candidates ask. Most requests have those of the last one, so they are kept. */
  private drawn(tenant: TenantId, request: ChatRequest, pinned: PinnedTools | undefined): DrawnTools {
    const deferrable = request.runId !== '' && request.conversationId !== '';
    if (request.inlineToolsJson !== '') {
      const inline = parseJson(request.inlineToolsJson, 'inline_tools_json') as WireTool[];
      const views = this.views(tenant, request.tools, deferrable);
      return new DrawnTools({ ...views, pinned: undefined, inline, deferrable: false });
    }
    const revision = this.tools?.revision ?? 0;
    if (revision !== this.toolRevision) {
      this.toolRevision = revision;
      this.toolCache.clear();
    }
    const key = `${tenant} ${String(deferrable)} ${pinned === undefined ? '' : request.toolSetKey} ${request.tools.join(' ')}`;
    let drawn = this.toolCache.get(key);
    if (drawn === undefined) {
      const views = this.views(tenant, request.tools, deferrable);
      drawn = new DrawnTools({ ...views, pinned, inline: [], deferrable });
      if (this.toolCache.size >= TOOL_SETS_KEPT) this.toolCache.clear();
      this.toolCache.set(key, drawn);
    }
    return drawn;
  }

  /** The set that a conversation began with; undefined when none is pinned, or when its store has forgotten it. */
  private async pinnedSet(tenant: TenantId, key: string): Promise<PinnedTools | undefined> {
    if (key === '') return undefined;
    let set = this.pinned.get(key);
    if (set === undefined) {
      const text = await this.store.toolSets.load(tenant, key);
      if (text === undefined) return undefined;
      set = readPinned(text);
      if (this.pinned.size >= PINNED_KEPT) this.pinned.delete(this.pinned.keys().next().value!);
      this.pinned.set(key, set);
    }
    return set;
  }

  /**
   * Resolves when the registry has been read as far as the caller has, or that takes too long: what a dispatcher plans
   * with would otherwise be unknown here for a moment, and two routers would draw two fronts.
   */
  private async caughtUp(revision: number): Promise<void> {
    const { tools } = this;
    if (tools === undefined || tools.revision >= revision || revision <= this.missed) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        stop();
        resolve();
      };
      const stop = tools.onChange(() => {
        if (tools.revision >= revision) done();
      });
      const timer = setTimeout(() => {
        this.missed = revision;
        done();
      }, CATCH_UP_MS);
    });
  }

  /**
   * The named tools as models see them; the meta tools among them apart. For a run, one that has gone since its
   * dispatcher looked is left out: the dispatcher tells the model at its next step.
   */
  private views(tenant: TenantId, names: readonly string[], ofRun: boolean): Pick<RequestTools, 'current' | 'meta'> {
    const current: ToolView[] = [];
    const meta: ToolView[] = [];
    for (const name of new Set(names)) {
      const tool = this.tools?.get(`${tenant}.${name}`) ?? this.tools?.get(`${SHARED}.${name}`);
      if (tool === undefined || tool.state === 'retired') {
        if (ofRun) continue;
        throw new YardError('NOT_FOUND', 'YM-TOOL-UNKNOWN', `There is no tool "${name}".`, { details: { name } });
      }
      (tool.kind === 'meta' ? meta : current).push(viewOf(tool));
    }
    return { current: catalogueOf(current), meta };
  }
}

/** The tools of a request in every form that its candidates have asked for. */
class DrawnTools {
  readonly any: boolean;
  /** For names in the history: what stood in front, and what is there now. */
  readonly known: ToolCatalogue;
  private readonly parts = new Map<string, ToolPart>();
  private readonly chars = new WeakMap<ToolPart, number>();

  constructor(private readonly tools: RequestTools) {
    const { current, inline, meta, pinned } = tools;
    this.any = current.list().length + inline.length + meta.length > 0;
    this.known =
      pinned === undefined ? current : catalogueOf([...current.list(), ...pinned.catalogue.list()], current.revision);
  }

  for(candidate: Candidate): ToolPart {
    const key = `${candidate.render ?? ''} ${candidate.dialect} ${candidate.family}`;
    let part = this.parts.get(key);
    if (part === undefined) this.parts.set(key, (part = toolPart(this.tools, candidate)));
    return part;
  }

  /** Size of definitions that have a form of their own, for the estimate of tokens. */
  rawChars(part: ToolPart): number {
    let chars = this.chars.get(part);
    if (chars === undefined) this.chars.set(part, (chars = JSON.stringify(part.raw).length));
    return chars;
  }
}

/** The exact text for a model that is driven without a chat template. */
function rawPrompt(
  system: string,
  tools: ToolPart,
  extras: ReturnType<typeof requestExtras>,
  cut: { items: readonly RenderedItem[]; turnsCut: number },
): Rendered {
  const prompt = harmonyFront(system, tools.system) + cut.items.map(({ json }) => json).join('') + HARMONY_CUE;
  return {
    input: { messages: [], prompt, ...extras, extra: { preserved_tokens: HARMONY_TOKENS } },
    turnsCut: cut.turnsCut,
    promptTokens: Math.ceil(prompt.length / 4),
  };
}

/** With one more sequence at which a model stops: it must not go on to invent the result of its own call. */
function withStop(extras: ReturnType<typeof requestExtras>, sequence: string): ReturnType<typeof requestExtras> {
  const stop = extras.sampling?.stop ?? [];
  return stop.length >= MOST_STOPS
    ? extras
    : { ...extras, sampling: { ...extras.sampling, stop: [...stop, sequence] } };
}

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
