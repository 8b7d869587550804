import type { RoutingConfig } from '@yardmaster/service-kit';
import type { WireFamily } from '@yardmaster/llm-wire';
import type { Strategy } from '@yardmaster/tool-render';
import type { Candidate } from '../failover/candidate.js';
import { priceFor, type ProviderEntry, type ProviderTable } from './provider-table.js';
import { chooseRender, DEFAULT_TEXT_DIALECT } from './render-choice.js';

/** What a request says about where it wants to go. */
export interface RouteWish {
  model: string;
  /** An agent's own order; empty: the order of the configuration. */
  providers: readonly string[];
  /** An agent's own chains; empty: those of the configuration. */
  modelFallbacks: Readonly<Record<string, readonly string[]>>;
  toolDispatcher: 'auto' | 'native' | 'xml';
  /** A render strategy that the request insists on; '' or `auto`: that of the provider entry. */
  render?: string;
  needsTools: boolean;
  needsVision: boolean;
  /** The request is for vectors, not for an answer. */
  needsEmbeddings?: boolean;
}

export interface PlannedCandidate {
  entry: ProviderEntry;
  model: string;
  dialect: string;
  /** How tools reach the model, and over which of the provider's APIs; absent: all in front, its usual one. */
  render?: Strategy;
  family?: WireFamily;
  /** Why it cannot serve this request; undefined when it can. */
  unusable: string | undefined;
  /** The address of a provider whose pods are known: for when none of them can be reached. */
  standIn?: true;
}

const DEFAULT_RETRIES = 2;
const DEFAULT_BACKOFF_MS = 500;
const DEFAULT_TIMEOUT_MS = 120_000;

/** Every (model, provider) pair of the chain in the order of trying: models outside, providers inside. Pure. */
export function plan(
  wish: RouteWish,
  table: ProviderTable,
  routing: RoutingConfig,
  /** Nobody has said anything about pods for so long that what is known of them may be wrong. */
  podsAreStale = false,
): { candidates: PlannedCandidate[]; warnings: string[] } {
  const warnings: string[] = [];
  const all = () => [...new Set([...table.providers.keys(), ...table.pods.keys()])];
  const named = wish.providers.length > 0 ? wish.providers : (routing.providers ?? all());
  const entries = named.flatMap((name) => {
    const entry = table.providers.get(name);
    const pods = table.pods.get(name) ?? [];
    // A chain with a mistake in it is still a chain: a warning, not the end.
    if (entry === undefined && pods.length === 0)
      warnings.push(`there is no usable provider "${name}"; it is left out`);
    // The pods themselves, so that a conversation finds its prompt; the address that stands for all of them comes last.
    return [...pods, ...(entry === undefined ? [] : [entry])];
  });
  const model =
    wish.model || routing.default_model || entries.find((entry) => entry.models?.[0] !== undefined)?.models?.[0] || '';
  const chains = Object.keys(wish.modelFallbacks).length > 0 ? wish.modelFallbacks : (routing.model_fallbacks ?? {});
  const models = [...new Set([model, ...(chains[model] ?? [])])];
  // Who is said to have embeddings comes before those of whom nothing is said.
  const places =
    wish.needsEmbeddings === true ? entries.toSorted((a, b) => Number(b.embeddings) - Number(a.embeddings)) : entries;
  const candidates = models.flatMap((one) =>
    places.map((entry) => {
      const planned = planOne(one, entry, wish);
      const pods = table.pods.get(entry.name);
      if (entry.pod !== undefined || pods === undefined) return planned;
      const problem = isHope(pods, podsAreStale) ? undefined : NO_POD_READY;
      return { ...planned, standIn: true as const, unusable: planned.unusable ?? problem };
    }),
  );
  return { candidates, warnings };
}

function planOne(model: string, entry: ProviderEntry, wish: RouteWish): PlannedCandidate {
  const forced = wish.toolDispatcher !== 'auto' ? wish.toolDispatcher : (entry.config.tool_dispatcher ?? 'auto');
  const { strategy, dialect, family, problem } = chooseRender(wish.render ?? '', entry.config.render, {
    kind: entry.kind.kind,
    family: entry.kind.family,
    model,
    nativeTools: entry.nativeTools,
    toolDispatcher: forced,
    dialect: entry.config.dialect,
  });
  let unusable: string | undefined;
  if (notServing(entry) !== undefined) unusable = notServing(entry);
  else if (model === '') unusable = 'no model was named and there is no default model';
  else if (entry.models !== undefined && !entry.models.includes(model))
    unusable = `does not serve the model "${model}"`;
  else if (wish.needsEmbeddings === true && !mayEmbed(entry)) unusable = 'has no embeddings';
  else if (wish.needsVision && !entry.vision) unusable = 'cannot see images';
  else if (wish.toolDispatcher === 'native' && !entry.nativeTools && wish.needsTools)
    unusable = 'has no native tool calls, which the request insists on';
  else if (problem !== undefined && wish.needsTools) unusable = problem;
  return { entry, model, dialect, render: strategy, family, unusable };
}

const NO_POD_READY = 'has no pod that is ready';

/** Why nothing is sent to a pod now; undefined for one that is ready, and for what is no pod. */
export function notServing({ pod }: ProviderEntry): string | undefined {
  if (pod === undefined || pod.phase === 'ready') return undefined;
  const state = pod.phase === 'unchecked' ? 'has not been asked yet' : `is ${pod.phase}`;
  return pod.reason === '' || pod.phase === 'unchecked' ? state : `${state}: ${pod.reason}`;
}

/**
 * The address that stands for all pods leads to the same ones: while none is ready there is nothing to be had there either,
 * or one that drains.
 */
const isHope = (pods: readonly ProviderEntry[], podsAreStale: boolean): boolean =>
  podsAreStale || pods.some((pod) => notServing(pod) === undefined);

/** Whether a candidate that was planned earlier may still be sent something, by what is known of the pods now. Pure. */
export function isServing(
  { provider, pod, baseUrl, standIn }: Candidate,
  { pods }: ProviderTable,
  podsAreStale = false,
): boolean {
  const known = pods.get(provider) ?? [];
  if (pod === undefined) return standIn !== true || known.length === 0 || isHope(known, podsAreStale);
  const entry = known.find((one) => one.pod?.name === pod && one.baseUrl === baseUrl);
  return entry !== undefined && notServing(entry) === undefined;
}

/** Of most compatible servers nobody says whether they have embeddings: they are asked, after those that are said to. */
const mayEmbed = ({ config, kind }: ProviderEntry) => config.embeddings ?? kind.family === 'openai-chat';

/** The same pair, asked for vectors. */
export function toEmbedder(planned: PlannedCandidate, routing: RoutingConfig): Candidate {
  return { ...toCandidate(planned, routing), family: 'openai-embeddings', dialect: 'native' };
}

/** The usable pairs in the form that the failover engine tries. */
export function toCandidate(
  { entry, model, dialect, render, family, standIn }: PlannedCandidate,
  routing: RoutingConfig,
): Candidate {
  const { config, kind } = entry;
  const seconds = (value: number | undefined, otherwise: number) => (value === undefined ? otherwise : value * 1000);
  const price = priceFor(entry, model);
  const contextTokens = config.context ?? kind.limits.contextTokens;
  return {
    provider: entry.name,
    kind: kind.kind,
    model,
    dialect,
    ...(render === undefined ? {} : { render }),
    family: family ?? kind.family,
    baseUrl: entry.baseUrl,
    auth: entry.auth,
    keys: entry.keys,
    timeouts: {
      connectMs: seconds(config.connect_timeout_s, kind.limits.connectTimeoutMs),
      firstTokenMs: seconds(config.first_token_timeout_s, kind.limits.firstTokenTimeoutMs),
      idleMs: seconds(config.idle_timeout_s, kind.limits.idleTimeoutMs),
      totalMs: seconds(config.timeout_s, DEFAULT_TIMEOUT_MS),
    },
    retries: routing.retries ?? DEFAULT_RETRIES,
    backoffMs: routing.backoff_ms ?? DEFAULT_BACKOFF_MS,
    quirks: {
      ...kind.quirks,
      ...(config.merge_system_into_user === undefined ? {} : { mergeSystemIntoUser: config.merge_system_into_user }),
      vision: entry.vision,
    },
    reasoningFallback: config.reasoning_fallback ?? true,
    inlineThink: config.inline_think ?? true,
    ...(config.think_prefilled === true ? { thinkPrefilled: true } : {}),
    ...(config.text_fallback === true && dialect === 'native'
      ? { textFallback: config.dialect ?? DEFAULT_TEXT_DIALECT }
      : {}),
    responsesFallback: config.responses_fallback ?? true,
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(price === undefined ? {} : { price }),
    ...(config.headers === undefined ? {} : { headers: config.headers }),
    ...(config.weight === undefined ? {} : { weight: config.weight }),
    ...(config.slots === undefined ? {} : { slots: config.slots }),
    ...(entry.pod === undefined ? {} : { pod: entry.pod.name }),
    ...(standIn === true ? { standIn } : {}),
  };
}
