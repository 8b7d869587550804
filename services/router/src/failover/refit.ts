import type { FailureVerdict } from '@yardmaster/llm-wire';
import type { CutWish } from './candidate.js';
import type { Track } from './track.js';

const MAX_REFITS = 3;
/** An answer shorter than this is not worth lowering the reservation for. */
const LEAST_OUTPUT_TOKENS = 256;
const TOKEN_MARGIN = 32;
/** What to keep when nobody named any number. */
const HALF = 0.5;

/** What to do about a prompt that did not fit this candidate. */
export type Refit = { lowerTo: number } | { cut: CutWish } | 'leave';

/** Lowers the output reservation if that is the cause, else asks for a cut, a few times at the most. */
export function planRefit(track: Track, failure: FailureVerdict): Refit {
  if (track.refits >= MAX_REFITS) return 'leave';
  const { contextLimit = track.candidate.contextTokens, promptTokens, outputTokens } = failure.overflow ?? {};
  const reserved = track.maxTokens ?? outputTokens;
  // Only where the provider named both numbers: an estimate would lower it again and again.
  if (promptTokens !== undefined && contextLimit !== undefined && reserved !== undefined) {
    const room = contextLimit - promptTokens - TOKEN_MARGIN;
    if (room >= Math.min(LEAST_OUTPUT_TOKENS, reserved) && room < reserved) return { lowerTo: room };
  }
  const prompt = promptTokens ?? track.rendered?.promptTokens;
  const target = contextLimit === undefined ? undefined : contextLimit - Math.min(reserved ?? 0, contextLimit / 2);
  const fits = prompt === undefined || target === undefined || target >= prompt;
  return { cut: { moreThan: track.rendered?.turnsCut ?? 0, keep: fits ? HALF : (target / prompt) * 0.95 } };
}

/** After an overflow with nothing to cut, only a larger window helps; of another model whose window is unknown, hope. */
export function leaveToLargerWindows(tracks: readonly Track[], track: Track, failure: FailureVerdict): void {
  const limit = failure.overflow?.contextLimit ?? track.candidate.contextTokens;
  track.dead = true;
  for (const other of tracks) {
    const { contextTokens, model } = other.candidate;
    const larger =
      contextTokens === undefined ? model !== track.candidate.model : limit === undefined || contextTokens > limit;
    if (!larger) other.dead = true;
  }
}
