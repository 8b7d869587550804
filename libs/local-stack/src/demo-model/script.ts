import type { ModelRequest } from './request.js';

export interface ScriptedCall {
  name: string;
  arguments: Record<string, unknown> | string;
  /** Provider's id of the call; made up when absent. */
  id?: string;
}

/** An ordinary answer. */
export interface Answer {
  text?: string;
  reasoning?: string;
  calls?: ScriptedCall[];
  /** Default: `tool_calls` with calls, else `stop`. */
  finishReason?: string;
  usage?: { prompt_tokens: number; completion_tokens: number };
}

/** What can go wrong with an answer. Chunks are events of a stream. */
export interface Trouble {
  /** Answers this status instead; `body` is sent as it is when it is a string. */
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** Accepts the request and never answers. */
  hang?: boolean;
  /** Answers, then falls silent after this many chunks. */
  hangAfter?: number;
  /** Answers, then cuts the connection after this many chunks; 0 cuts before any byte. */
  cutAfter?: number;
  /** Ends the stream without finish reason and `[DONE]`, as some servers do when they fail. */
  noEnd?: boolean;
  /** Sent instead of an answer, byte for byte, as `text/event-stream`. */
  raw?: string;
  /** Waits before the first byte, in milliseconds. */
  delayMs?: number;
  /** Waits between chunks, in milliseconds. */
  chunkDelayMs?: number;
}

export type Reaction = Answer & Trouble;

/**
 * What the model answers: one reaction after the other, or a function of the request and its number (from 0).
 * Where it has nothing to say, the demo model answers as it always does.
 */
export type Script =
  readonly Reaction[] | ((request: ModelRequest, n: number) => Reaction | undefined | Promise<Reaction | undefined>);

/** The reaction to the request number `n`, if the script has one. */
export async function scripted(script: Script | undefined, request: ModelRequest, n: number) {
  return typeof script === 'function' ? script(request, n) : script?.[n];
}
