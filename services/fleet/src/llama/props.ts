/** What a llama.cpp server can do, as its `/props` says; what it does not say is absent. */
export interface Capabilities {
  slots?: number;
  /** Tokens of one slot. */
  context?: number;
  nativeTools?: boolean;
  vision?: boolean;
  /** The name that it was given; absent where it goes by its file. */
  model?: string;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
/** No server has more of anything; what a pod says goes into records whose numbers have 32 bits. */
const MOST = 2 ** 31 - 1;
const count = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= MOST ? value : undefined;

/** Reads `/props`. Servers differ by years, and what a pod answers is data: nothing in it is taken for granted. */
export function readProps(props: unknown): Capabilities {
  if (!isObject(props)) return {};
  const settings = isObject(props['default_generation_settings']) ? props['default_generation_settings'] : {};
  const slots = count(props['total_slots']);
  const context = count(settings['n_ctx']) ?? count(props['n_ctx']);
  const nativeTools = toolsOf(props);
  const { modalities } = props;
  const vision = isObject(modalities) && typeof modalities['vision'] === 'boolean' ? modalities['vision'] : undefined;
  const model = aliasOf(props);
  return {
    ...(slots === undefined ? {} : { slots }),
    ...(context === undefined ? {} : { context }),
    ...(nativeTools === undefined ? {} : { nativeTools }),
    ...(vision === undefined ? {} : { vision }),
    ...(model === undefined ? {} : { model }),
  };
}

/** Both must hold: the template renders definitions, and it renders calls of the history. */
function toolsOf({ chat_template_caps: caps }: Record<string, unknown>): boolean | undefined {
  if (!isObject(caps)) return undefined;
  const said = [caps['supports_tools'], caps['supports_tool_calls']].filter((value) => typeof value === 'boolean');
  return said.length === 0 ? undefined : said.every(Boolean);
}

function aliasOf({ model_alias: alias, model_path: path }: Record<string, unknown>): string | undefined {
  if (typeof alias !== 'string' || alias === '' || alias.length > 200) return undefined;
  // Half a surrogate cannot be stored, and a line break would forge a line wherever the name is shown.
  if (/[\p{Cc}\p{Cs}]/u.test(alias)) return undefined;
  // Without an alias servers answer with the file, which nobody asks for by that name.
  return alias === path || /[/\\]|\.gguf$/i.test(alias) ? undefined : alias;
}
