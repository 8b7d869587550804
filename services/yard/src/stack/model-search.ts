import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { opensThinkInPrompt } from '@yardmaster/llm-wire';
import { stringify } from 'yaml';

/** Where the stack's model comes from; `yaml` is the configuration that the services get. */
export interface FoundModel {
  yaml: string;
  /** The caller's file that has this text; services read it themselves, and so take over what changes in it. */
  file?: string;
  /** Said in the terminal. */
  words: string;
  model: string;
  demo: boolean;
}

/** Keys in the environment that name a provider, with the model used when nothing else is said. */
const KEYS: [variable: string, provider: string, kind: string, model: string][] = [
  ['ANTHROPIC_API_KEY', 'claude', 'anthropic', 'claude-sonnet-4-5'],
  ['OPENAI_API_KEY', 'openai', 'openai', 'gpt-5-mini'],
  ['GROQ_API_KEY', 'groq', 'groq', 'openai/gpt-oss-120b'],
  ['MISTRAL_API_KEY', 'mistral', 'mistral', 'mistral-medium-latest'],
  ['DEEPSEEK_API_KEY', 'deepseek', 'deepseek', 'deepseek-chat'],
  ['OPENROUTER_API_KEY', 'openrouter', 'openrouter', 'qwen/qwen3-coder'],
  ['GEMINI_API_KEY', 'gemini', 'gemini', 'gemini-2.5-flash'],
];

const LLAMA_PROBE_MS = 500;

/**
 * In this order: the configuration file, a provider named on the command line or by a key in the environment, a
 * llama.cpp server, else the built-in demo model, which `startDemo` starts.
 */
export async function findModel(
  options: { config: string | undefined; provider: string | undefined; env: NodeJS.ProcessEnv },
  startDemo: () => Promise<DemoModel>,
): Promise<FoundModel> {
  if (options.config !== undefined)
    return {
      yaml: readFileSync(options.config, 'utf8'),
      file: resolve(options.config),
      words: `providers of ${options.config}`,
      model: '',
      demo: false,
    };
  if (options.provider !== 'demo') {
    for (const [variable, name, kind, model] of KEYS) {
      if (
        options.provider !== undefined ? options.provider !== name && options.provider !== kind : !options.env[variable]
      )
        continue;
      if (!options.env[variable]) throw new Error(`the provider "${options.provider}" needs its key in ${variable}`);
      return {
        yaml: stringify({
          providers: { [name]: { kind, key_env: variable } },
          routing: { default_model: model, providers: [name] },
        }),
        words: `${name} (key from ${variable}), model ${model}`,
        model,
        demo: false,
      };
    }
    if (options.provider === undefined || /^llama\.?cpp$/.test(options.provider)) {
      const url = (options.env['LLAMA_URL'] ?? 'http://127.0.0.1:8080').replace(/\/(v1\/?)?$/, '');
      const model = await llamaModel(url);
      if (model !== undefined)
        return {
          yaml: stringify({
            providers: {
              local: {
                kind: 'llamacpp',
                base_url: `${url}/v1`,
                ...((await opensThink(url)) && { think_prefilled: true }),
              },
            },
            routing: { default_model: model, providers: ['local'] },
          }),
          words: `llama.cpp at ${url}, model ${model}`,
          model,
          demo: false,
        };
      if (options.provider !== undefined) throw new Error(`no llama.cpp server answers at ${url} (set LLAMA_URL)`);
    } else
      throw new Error(
        `there is no provider "${options.provider}"; known: ${KEYS.map(([, name]) => name).join(', ')}, llamacpp, demo`,
      );
  }
  const demo = await startDemo();
  return {
    yaml: demoConfig(demo),
    words: 'the built-in DEMO MODEL: scripted, no intelligence (set a provider key or LLAMA_URL for a real one)',
    model: 'demo',
    demo: true,
  };
}

export interface DemoModel {
  /** Base URL of its OpenAI-compatible API. */
  url: string;
}

/** One server under two names, with and without native tool calls: so a failover between the dialects can be seen. */
function demoConfig({ url }: DemoModel): string {
  // `demo-broken` always fails, for whoever wants to see a run fail.
  const server = { base_url: url, auth: 'none', demo: true, models: ['demo', 'demo-broken'] };
  return stringify({
    providers: {
      'demo-native': { kind: 'openai', ...server, native_tools: true },
      'demo-xml': { kind: 'openai', ...server, native_tools: false },
    },
    routing: { default_model: 'demo', providers: ['demo-native', 'demo-xml'], retries: 0, backoff_ms: 50 },
    agents: {
      native: { model: 'demo', providers: ['demo-native'] },
      xml: { model: 'demo', providers: ['demo-xml'] },
    },
  });
}

/** Do the server's answers begin inside of the reasoning? A server that does not say so gets the benefit of the doubt. */
async function opensThink(url: string): Promise<boolean> {
  const ask = async (path: string, init: RequestInit = {}): Promise<unknown> => {
    const response = await fetch(`${url}${path}`, { ...init, signal: AbortSignal.timeout(LLAMA_PROBE_MS) });
    return response.ok ? response.json() : undefined;
  };
  try {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hello.' }] });
    const [props, applied] = await Promise.all([
      ask('/props'),
      ask('/apply-template', { method: 'POST', headers: { 'content-type': 'application/json' }, body }),
    ]);
    const prompt = (applied as { prompt?: unknown } | null | undefined)?.prompt;
    return opensThinkInPrompt(props, typeof prompt === 'string' ? prompt : undefined);
  } catch {
    return false;
  }
}

async function llamaModel(url: string): Promise<string | undefined> {
  try {
    const health = await fetch(`${url}/health`, { signal: AbortSignal.timeout(LLAMA_PROBE_MS) });
    if (!health.ok) return undefined;
    const models = (await (
      await fetch(`${url}/v1/models`, { signal: AbortSignal.timeout(LLAMA_PROBE_MS) })
    ).json()) as { data?: { id?: string }[] };
    return models.data?.[0]?.id;
  } catch {
    return undefined;
  }
}
