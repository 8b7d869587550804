/**
 * The canonical history: what Redis holds, in no provider's dialect. A dialect is chosen at each attempt, from these
 * alone, so a conversation can move between native and XML models in the middle of a tool round.
 * Field names are those of the stored JSON (and of the OpenAI wire), hence snake_case.
 */
export type ConversationMessage = ChatTurn | AssistantToolCalls | ToolResults;

/** Who produced an assistant message: reasoning may only go back to the same provider and model. */
export interface ServedBy {
  provider: string;
  model: string;
  dialect: string;
}

export interface TextPart {
  type: 'text';
  text: string;
}

/** An image by URL, data URL or reference to a stored artifact. */
export interface ImagePart {
  type: 'image_url';
  image_url: { url: string; detail?: string };
}

export type ContentPart = TextPart | ImagePart;

/** A block of thinking that only its author can read: it goes back unchanged to the same provider and model, and to nobody else. */
export type ThinkingBlock =
  { type: 'thinking'; thinking: string; signature?: string } | { type: 'redacted_thinking'; data: string };

/** A plain message of one role. */
export interface ChatTurn {
  type: 'chat';
  role: 'system' | 'user' | 'assistant';
  content: string | ContentPart[];
  reasoning_content?: string | null;
  thinking_blocks?: ThinkingBlock[];
  served?: ServedBy;
}

/** One call as the model made it; `arguments` is JSON text. `id` is what the provider is shown (its own id, or ours for XML). */
export interface StoredToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** An assistant message that asked for tools. Always followed by one `ToolResults` that answers every call. */
export interface AssistantToolCalls {
  type: 'assistant_tool_calls';
  text: string | null;
  tool_calls: StoredToolCall[];
  reasoning_content: string | null;
  thinking_blocks?: ThinkingBlock[];
  served?: ServedBy;
}

export interface StoredToolResult {
  tool_call_id: string;
  content: string;
  name?: string;
  /** Absent means true: results in the form of the seed carry no status. */
  ok?: boolean;
}

/** The results of one round, all of them, in call order. */
export interface ToolResults {
  type: 'tool_results';
  results: StoredToolResult[];
}
