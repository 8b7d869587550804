import type { WireFamily } from '@yardmaster/llm-wire';
import { isStrategy, STRATEGIES, type Strategy } from '@yardmaster/tool-render';

/** What decides how tools reach the models of one provider entry. */
export interface RenderTarget {
  kind: string;
  family: WireFamily;
  model: string;
  /** Does its API take tools? */
  nativeTools: boolean;
  /** How calls are to be written: the request's word, else the entry's. */
  toolDispatcher: 'auto' | 'native' | 'xml';
  /** The text dialect of the entry. */
  dialect: string | undefined;
}

export interface RenderChoice {
  strategy: Strategy;
  /** `native`, or a text dialect. */
  dialect: string;
  family: WireFamily;
  /** Why the wish cannot be met. */
  problem: string | undefined;
}

/** The form that the prompt teaches where nothing else is said. */
export const DEFAULT_TEXT_DIALECT = 'hermes';

/**
 * The strategy of a provider entry and the dialect that goes with it. What a request asks for and cannot have is a
 * problem; what the entry names and a request's dialect rules out gives way. Pure.
 */
export function chooseRender(wish: string, configured: string | undefined, target: RenderTarget): RenderChoice {
  const insists = wish !== '' && wish !== 'auto';
  const named = insists ? wish : (configured ?? 'auto');
  let native = target.toolDispatcher === 'auto' ? target.nativeTools : target.toolDispatcher === 'native';
  let strategy = isStrategy(named) ? named : automatic(target, native);
  let problem =
    insists && !isStrategy(named)
      ? `there is no render strategy "${named.slice(0, 40)}"; known: ${STRATEGIES.join(', ')}`
      : undefined;
  if (needsText(strategy, target.family) && native) {
    if (target.toolDispatcher !== 'native') native = false;
    else if (insists) problem = `${strategy} writes calls as text, and native calls are insisted on`;
    else strategy = automatic(target, native);
  } else if (needsNative(strategy) && !native) {
    if (target.nativeTools && target.toolDispatcher !== 'xml') native = true;
    else if (insists) problem = `${strategy} needs native tool calls`;
    else strategy = automatic(target, native);
  }
  let dialect = native ? 'native' : (target.dialect ?? (isHarmony(strategy) ? 'harmony' : DEFAULT_TEXT_DIALECT));
  if (target.family === 'llamacpp-completion') dialect = 'harmony';
  const family = familyOf(strategy, dialect, target);
  // Exact text is drawn in Harmony only.
  if (family === 'llamacpp-completion' && !isHarmony(strategy)) strategy = 'harmony_dispatcher';
  return { strategy, dialect, family, problem };
}

function familyOf(strategy: Strategy, dialect: string, { family, kind }: RenderTarget): WireFamily {
  // Its search and namespaces exist in the Responses API only.
  if (strategy === 'openai_native_deferred' && family === 'openai-chat') return 'openai-responses';
  // Its chat route has a template and a reader of its own, which take the marks out: only raw text comes through whole.
  if (kind === 'llamacpp' && dialect === 'harmony') return 'llamacpp-completion';
  return family;
}

function automatic({ family, model }: RenderTarget, native: boolean): Strategy {
  if (native && family === 'anthropic-messages') return 'claude_deferred';
  if (/gpt-oss/i.test(model)) return 'harmony_dispatcher';
  return native ? 'native_upfront' : 'xml_upfront';
}

const isHarmony = (strategy: Strategy) => strategy === 'harmony_upfront' || strategy === 'harmony_dispatcher';
const needsNative = (strategy: Strategy) => strategy === 'native_upfront' || strategy === 'openai_native_deferred';
const needsText = (strategy: Strategy, family: WireFamily) =>
  strategy === 'xml_upfront' || (strategy === 'claude_deferred' && family !== 'anthropic-messages');
