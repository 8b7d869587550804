import type { Bus } from '@yardmaster/bus';
import { Dispatcher, YardError } from '@yardmaster/contracts';
import type { Embed } from './services.js';

const TIMEOUT_MS = 10_000;
/** Of each text: enough to tell places apart, and little enough for every model. */
const MAX_TEXT_UNITS = 4_000;

/**
 * Asks the dispatcher, which has vectors made by the router for calls that it has under way. This login reaches no
 * router: a call's nonce, which nobody else is told, says for whom the vectors are.
 */
export const embedBy =
  (bus: Bus): Embed =>
  async (texts, { tenant, call, signal }) => {
    const { runId, callId, nonce } = call;
    const cut = texts.map((text) => text.slice(0, MAX_TEXT_UNITS).replace(/[\uD800-\uDBFF]$/, ''));
    try {
      const question = { runId, callId, nonce, texts: cut };
      const { vectors } = await bus.request(Dispatcher.embed, tenant, question, { timeoutMs: TIMEOUT_MS, signal });
      return vectors.map(({ values }) => values);
    } catch (error) {
      if (YardError.is(error) && error.code === 'YM-LLM-NO-EMBEDDINGS') return undefined;
      throw error;
    }
  };
