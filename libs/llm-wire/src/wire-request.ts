import type { ContentPart } from '@yardmaster/contracts';
import type { ThinkingBlock, WireFamily } from './wire-types.js';

/** A message in the form of the OpenAI wire, already rendered from the canonical history. */
export interface ChatMessage {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  content: string | ContentPart[] | null;
  name?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
  /** Anthropic: deferred tools that this result loads, by name; they stand in place of its text. */
  tool_references?: string[];
  reasoning_content?: string;
  /** Blocks of an Anthropic answer, which go back unchanged to the model that wrote them; other families drop them. */
  thinking_blocks?: ThinkingBlock[];
}

/**
 * One message, or the JSON of one or several messages (joined by commas, without brackets): the form in which a cached
 * prefix is kept, so that its bytes are spliced into the body instead of being built again.
 */
export type WireMessage = ChatMessage | string;

/** A tool definition of the OpenAI wire. */
export interface WireTool {
  type: 'function';
  function: { name: string; description?: string; parameters?: unknown; strict?: boolean };
}

export type ToolChoice = 'auto' | 'none' | 'required' | { name: string };

export interface Sampling {
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  seed?: number;
  stop?: string[];
  presence_penalty?: number;
  frequency_penalty?: number;
}

/** Where one provider differs from the common form. Absent means the common form. */
export interface WireQuirks {
  /** The provider refuses `role: system`: its text goes in front of the first user message. */
  mergeSystemIntoUser?: boolean;
  /** The name of the output limit; `max_tokens` by default. */
  maxTokensField?: 'max_tokens' | 'max_completion_tokens';
  /** Whether `stream_options.include_usage` may be sent; true by default. */
  streamUsage?: boolean;
  /** Sampling fields that the provider refuses. */
  omit?: readonly (keyof Sampling)[];
  /** Whether `reasoning_content` of earlier turns is sent back; false by default. */
  keepReasoning?: boolean;
  /** Whether image parts may be sent; true by default. */
  vision?: boolean;
  /** The server makes a grammar of every tool's schema and refuses the request for one that it cannot; false by default. */
  grammarSchemas?: boolean;
  /** Whether several calls in one answer can be turned off with `parallel_tool_calls`; true by default. */
  parallelToolCalls?: boolean;
  /** Highest number of cache_control breakpoints (Anthropic: 4). */
  cacheBreakpoints?: number;
  /** The role that carries the system text, `developer` for OpenAI's reasoning models. */
  systemRole?: 'system' | 'developer';
}

export interface ChatRequestInput {
  family: WireFamily;
  model: string;
  messages: readonly WireMessage[];
  /** The texts, for openai-embeddings. */
  inputs?: readonly string[];
  /** The exact prompt, for llamacpp-completion. */
  prompt?: string;
  /** Definitions, or the JSON of their array. */
  tools?: readonly WireTool[] | string;
  toolChoice?: ToolChoice;
  parallelToolCalls?: boolean;
  maxTokens?: number;
  sampling?: Sampling;
  /** Sent as `response_format` where the family has one. */
  responseFormat?: unknown;
  reasoningEffort?: string;
  /** False only for providers that cannot stream. */
  stream?: boolean;
  quirks?: WireQuirks;
  /** Provider-specific fields, merged into the body last. */
  extra?: Record<string, unknown>;
}

/** What is sent: `path` is relative to the provider's base URL (see `endpointUrl`); no key is in the headers. */
export interface WireRequest {
  path: string;
  headers: Record<string, string>;
  body: string;
}

/** The request can never be sent to this provider; the text says why and what to do. */
export class UnsendableRequest extends Error {
  constructor(
    readonly reason: 'no_vision' | 'bad_message' | 'no_prompt' | 'no_inputs',
    message: string,
  ) {
    super(message);
    this.name = 'UnsendableRequest';
  }
}
