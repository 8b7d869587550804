import type { WireQuirks } from './wire-request.js';
import type { WireFamily } from './wire-types.js';

/** How a key travels. `header` names the header for `custom`. */
export type AuthStyle =
  { style: 'bearer' } | { style: 'x-api-key' } | { style: 'custom'; header: string } | { style: 'none' };

/** What is known of one kind of provider; configuration may change each part. */
export interface ProviderKind {
  kind: string;
  /** Other names under which users know it. */
  aliases: readonly string[];
  title: string;
  family: WireFamily;
  baseUrl: string;
  auth: AuthStyle;
  /** The environment variable that users keep the key in. */
  keyEnv?: string;
  capabilities: { nativeTools: boolean; vision: boolean; streaming: boolean };
  quirks: WireQuirks;
  /** Runs on the user's own machine or cluster: no key needed, no cost, addresses follow the operator's policy. */
  local: boolean;
  limits: { connectTimeoutMs: number; firstTokenTimeoutMs: number; idleTimeoutMs: number; contextTokens?: number };
}

const CLOUD = { connectTimeoutMs: 10_000, firstTokenTimeoutMs: 30_000, idleTimeoutMs: 30_000 };
/** A local server reads the whole prompt before its first token, on hardware that nobody knows. */
const LOCAL = { connectTimeoutMs: 2_000, firstTokenTimeoutMs: 60_000, idleTimeoutMs: 30_000 };
const BEARER = { style: 'bearer' } as const;

interface Entry {
  kind: string;
  title: string;
  baseUrl: string;
  aliases?: readonly string[];
  keyEnv?: string;
  family?: WireFamily;
  auth?: AuthStyle;
  vision?: boolean;
  nativeTools?: boolean;
  quirks?: WireQuirks;
  contextTokens?: number;
}

function cloud(entry: Entry): ProviderKind {
  return build(entry, false, CLOUD, entry.auth ?? BEARER);
}

function local(entry: Entry): ProviderKind {
  return build(entry, true, LOCAL, entry.auth ?? BEARER);
}

function build(entry: Entry, isLocal: boolean, limits: ProviderKind['limits'], auth: AuthStyle): ProviderKind {
  const kind: ProviderKind = {
    kind: entry.kind,
    aliases: entry.aliases ?? [],
    title: entry.title,
    family: entry.family ?? 'openai-chat',
    baseUrl: entry.baseUrl,
    auth,
    capabilities: { nativeTools: entry.nativeTools ?? !isLocal, vision: entry.vision ?? false, streaming: true },
    quirks: entry.quirks ?? {},
    local: isLocal,
    limits: entry.contextTokens === undefined ? limits : { ...limits, contextTokens: entry.contextTokens },
  };
  if (entry.keyEnv !== undefined) kind.keyEnv = entry.keyEnv;
  return kind;
}

/** Every provider that is known by name. To add one, add a line here. */
export const PROVIDER_KINDS: readonly ProviderKind[] = [
  cloud({
    kind: 'openai',
    title: 'OpenAI',
    baseUrl: 'https://api.openai.com/v1',
    keyEnv: 'OPENAI_API_KEY',
    vision: true,
    quirks: { maxTokensField: 'max_completion_tokens', omit: ['top_k', 'min_p'] },
  }),
  cloud({
    kind: 'anthropic',
    aliases: ['claude'],
    title: 'Anthropic',
    baseUrl: 'https://api.anthropic.com/v1',
    keyEnv: 'ANTHROPIC_API_KEY',
    family: 'anthropic-messages',
    auth: { style: 'x-api-key' },
    vision: true,
    quirks: { cacheBreakpoints: 4 },
    contextTokens: 200_000,
  }),
  cloud({
    kind: 'gemini',
    aliases: ['google', 'google-ai'],
    title: 'Google Gemini (compatible endpoint)',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    keyEnv: 'GEMINI_API_KEY',
    vision: true,
    quirks: { omit: ['top_k', 'min_p', 'seed', 'presence_penalty', 'frequency_penalty'], parallelToolCalls: false },
    contextTokens: 1_048_576,
  }),
  cloud({
    kind: 'groq',
    title: 'Groq',
    baseUrl: 'https://api.groq.com/openai/v1',
    keyEnv: 'GROQ_API_KEY',
    quirks: { maxTokensField: 'max_completion_tokens', omit: ['top_k', 'min_p'] },
  }),
  cloud({
    kind: 'mistral',
    title: 'Mistral',
    baseUrl: 'https://api.mistral.ai/v1',
    keyEnv: 'MISTRAL_API_KEY',
    vision: true,
    // Unknown fields are refused with 422; the last chunk carries the usage unasked.
    quirks: { streamUsage: false, omit: ['top_k', 'min_p', 'seed'] },
  }),
  cloud({
    kind: 'deepseek',
    title: 'DeepSeek',
    baseUrl: 'https://api.deepseek.com/v1',
    keyEnv: 'DEEPSEEK_API_KEY',
    quirks: { omit: ['top_k', 'min_p', 'seed'], parallelToolCalls: false, keepReasoning: true },
  }),
  cloud({
    kind: 'qwen',
    aliases: ['dashscope', 'alibaba'],
    title: 'Qwen (DashScope)',
    baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    keyEnv: 'DASHSCOPE_API_KEY',
    vision: true,
    quirks: { omit: ['min_p'] },
  }),
  cloud({
    kind: 'openrouter',
    title: 'OpenRouter',
    baseUrl: 'https://openrouter.ai/api/v1',
    keyEnv: 'OPENROUTER_API_KEY',
    vision: true,
  }),
  cloud({
    kind: 'zai',
    aliases: ['z.ai', 'glm', 'zhipu', 'bigmodel'],
    title: 'Z.ai',
    baseUrl: 'https://api.z.ai/api/paas/v4',
    keyEnv: 'ZAI_API_KEY',
    vision: true,
    quirks: { omit: ['top_k', 'min_p', 'presence_penalty', 'frequency_penalty'], parallelToolCalls: false },
  }),
  cloud({
    kind: 'moonshot',
    aliases: ['kimi'],
    title: 'Moonshot',
    baseUrl: 'https://api.moonshot.ai/v1',
    keyEnv: 'MOONSHOT_API_KEY',
    quirks: { omit: ['top_k', 'min_p'], parallelToolCalls: false, keepReasoning: true },
  }),
  cloud({
    kind: 'minimax',
    title: 'MiniMax',
    baseUrl: 'https://api.minimax.io/v1',
    keyEnv: 'MINIMAX_API_KEY',
    // It refuses `role: system`.
    quirks: {
      mergeSystemIntoUser: true,
      omit: ['top_k', 'min_p', 'seed'],
      parallelToolCalls: false,
      keepReasoning: true,
    },
  }),
  cloud({
    kind: 'together',
    title: 'Together',
    baseUrl: 'https://api.together.xyz/v1',
    keyEnv: 'TOGETHER_API_KEY',
    vision: true,
  }),
  cloud({
    kind: 'fireworks',
    title: 'Fireworks',
    baseUrl: 'https://api.fireworks.ai/inference/v1',
    keyEnv: 'FIREWORKS_API_KEY',
    vision: true,
  }),
  cloud({
    kind: 'xai',
    aliases: ['x.ai', 'grok'],
    title: 'xAI',
    baseUrl: 'https://api.x.ai/v1',
    keyEnv: 'XAI_API_KEY',
    vision: true,
    quirks: { omit: ['top_k', 'min_p', 'presence_penalty', 'frequency_penalty'] },
  }),
  cloud({
    kind: 'cerebras',
    title: 'Cerebras',
    baseUrl: 'https://api.cerebras.ai/v1',
    keyEnv: 'CEREBRAS_API_KEY',
    quirks: {
      maxTokensField: 'max_completion_tokens',
      omit: ['top_k', 'min_p', 'presence_penalty', 'frequency_penalty'],
    },
  }),
  cloud({
    kind: 'cohere',
    title: 'Cohere (compatible endpoint)',
    baseUrl: 'https://api.cohere.ai/compatibility/v1',
    keyEnv: 'COHERE_API_KEY',
    quirks: { omit: ['top_k', 'min_p'], parallelToolCalls: false },
  }),
  cloud({
    kind: 'nvidia',
    aliases: ['nim'],
    title: 'NVIDIA NIM',
    baseUrl: 'https://integrate.api.nvidia.com/v1',
    keyEnv: 'NVIDIA_API_KEY',
    quirks: { omit: ['min_p'] },
  }),
  cloud({
    kind: 'deepinfra',
    title: 'DeepInfra',
    baseUrl: 'https://api.deepinfra.com/v1/openai',
    keyEnv: 'DEEPINFRA_API_KEY',
    vision: true,
  }),
  cloud({
    kind: 'huggingface',
    aliases: ['hf'],
    title: 'Hugging Face Inference Providers',
    baseUrl: 'https://router.huggingface.co/v1',
    keyEnv: 'HF_TOKEN',
    vision: true,
  }),
  cloud({ kind: 'sambanova', title: 'SambaNova', baseUrl: 'https://api.sambanova.ai/v1', keyEnv: 'SAMBANOVA_API_KEY' }),
  cloud({
    kind: 'hyperbolic',
    title: 'Hyperbolic',
    baseUrl: 'https://api.hyperbolic.xyz/v1',
    keyEnv: 'HYPERBOLIC_API_KEY',
  }),
  cloud({ kind: 'novita', title: 'Novita', baseUrl: 'https://api.novita.ai/v3/openai', keyEnv: 'NOVITA_API_KEY' }),
  cloud({
    kind: 'siliconflow',
    title: 'SiliconFlow',
    baseUrl: 'https://api.siliconflow.com/v1',
    keyEnv: 'SILICONFLOW_API_KEY',
  }),
  cloud({
    kind: 'perplexity',
    title: 'Perplexity',
    baseUrl: 'https://api.perplexity.ai',
    keyEnv: 'PERPLEXITY_API_KEY',
    nativeTools: false,
    quirks: { omit: ['min_p', 'seed'] },
  }),
  cloud({
    kind: 'github',
    aliases: ['github-models'],
    title: 'GitHub Models',
    baseUrl: 'https://models.github.ai/inference',
    keyEnv: 'GITHUB_TOKEN',
    vision: true,
    quirks: { omit: ['top_k', 'min_p'] },
  }),
  cloud({
    kind: 'azure',
    aliases: ['azure-openai'],
    title: 'Azure OpenAI (v1 endpoint; set base_url)',
    baseUrl: 'https://RESOURCE.openai.azure.com/openai/v1',
    keyEnv: 'AZURE_OPENAI_API_KEY',
    auth: { style: 'custom', header: 'api-key' },
    vision: true,
    quirks: { maxTokensField: 'max_completion_tokens', omit: ['top_k', 'min_p'] },
  }),
  local({
    kind: 'llamacpp',
    aliases: ['llama.cpp', 'llama-cpp', 'llama-server'],
    title: 'llama.cpp server',
    baseUrl: 'http://127.0.0.1:8080/v1',
    keyEnv: 'LLAMA_API_KEY',
    quirks: { grammarSchemas: true },
  }),
  local({
    kind: 'llamacpp-completion',
    aliases: ['llamacpp-raw'],
    title: 'llama.cpp server, raw completion',
    baseUrl: 'http://127.0.0.1:8080',
    keyEnv: 'LLAMA_API_KEY',
    family: 'llamacpp-completion',
  }),
  local({
    kind: 'ollama',
    title: 'Ollama',
    baseUrl: 'http://127.0.0.1:11434/v1',
    nativeTools: true,
    keyEnv: 'OLLAMA_API_KEY',
    quirks: { omit: ['top_k', 'min_p'] },
  }),
  local({
    kind: 'vllm',
    title: 'vLLM',
    baseUrl: 'http://127.0.0.1:8000/v1',
    nativeTools: true,
    keyEnv: 'VLLM_API_KEY',
  }),
  local({
    kind: 'lmstudio',
    aliases: ['lm-studio'],
    title: 'LM Studio',
    baseUrl: 'http://127.0.0.1:1234/v1',
    nativeTools: true,
  }),
  local({ kind: 'sglang', title: 'SGLang', baseUrl: 'http://127.0.0.1:30000/v1', nativeTools: true }),
  local({
    kind: 'tgi',
    aliases: ['text-generation-inference'],
    title: 'Text Generation Inference',
    baseUrl: 'http://127.0.0.1:3000/v1',
  }),
  local({
    kind: 'litellm',
    title: 'LiteLLM proxy',
    baseUrl: 'http://127.0.0.1:4000/v1',
    nativeTools: true,
    vision: true,
    keyEnv: 'LITELLM_API_KEY',
  }),
];

const BY_NAME = new Map(
  PROVIDER_KINDS.flatMap((kind) => [kind.kind, ...kind.aliases].map((name) => [name, kind] as const)),
);

/** A kind by name or alias, or `custom:<url>`; undefined when there is no such kind or the URL is none. */
export function providerKind(name: string): ProviderKind | undefined {
  const known = BY_NAME.get(name.toLowerCase());
  if (known !== undefined) return known;
  if (!name.toLowerCase().startsWith('custom:')) return undefined;
  const url = name.slice('custom:'.length);
  if (!URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') return undefined;
  if (parsed.username !== '' || parsed.password !== '') return undefined;
  // Whoever runs it, the operator wrote its address down: like a local server it needs no key and has no list price.
  return local({ kind: 'custom', title: `custom endpoint at ${parsed.host}`, baseUrl: url.replace(/\/+$/, '') });
}

/** All names that `providerKind` knows, for error texts. */
export function providerKindNames(): string[] {
  return PROVIDER_KINDS.map(({ kind }) => kind);
}

/** The header that carries a key. No key, no header. */
export function authHeaders(auth: AuthStyle, key: string | undefined): Record<string, string> {
  if (key === undefined || key === '' || auth.style === 'none') return {};
  if (auth.style === 'bearer') return { authorization: `Bearer ${key}` };
  return { [auth.style === 'x-api-key' ? 'x-api-key' : auth.header.toLowerCase()]: key };
}
