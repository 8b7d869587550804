import { type ArgSpec, type CommandSpec, GLOBAL_FLAGS, isGroup, type Tree } from '../cli/command.js';
import type { Invocation } from '../cli/invocation.js';
import { UsageError } from '../cli/usage-error.js';

/** `yard completion bash` */
export async function completion({ args: [shell], output }: Invocation): Promise<void> {
  if (shell !== 'bash') throw new UsageError(`there is completion for bash (got "${String(shell).slice(0, 30)}")`);
  output.line(BASH);
}

/** Asks yard itself, so that it never lags behind the commands. */
const BASH = `# yard completion for bash: . <(yard completion bash)
_yard() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _yard yard`;

/** Names that fit the last word, one a line; nothing when the API would be needed and does not answer at once. */
export async function complete(invocation: Invocation): Promise<void> {
  const { TREE } = await import('../tree.js');
  for (const word of await candidates(TREE, invocation.args, (arg) => values(invocation, arg)))
    invocation.output.line(word);
}

/** What can stand at the place of the last word. */
export async function candidates(
  tree: Tree,
  words: readonly string[],
  valuesOf: (kind: NonNullable<ArgSpec['complete']>) => Promise<string[]>,
): Promise<string[]> {
  const before = words.slice(0, -1);
  const last = words.at(-1) ?? '';
  let siblings: Tree | undefined = tree;
  let command: CommandSpec | undefined;
  let args = 0;
  for (let index = 0; index < before.length; index++) {
    const word = before[index]!;
    if (word.startsWith('-')) {
      const spec = flagOf(word, command);
      if (spec?.value !== undefined && !word.includes('=')) {
        if (index === before.length - 1) return [...(spec.choices ?? [])];
        index++;
      }
    } else if (command !== undefined) args++;
    else {
      const entry: Tree[string] | undefined = siblings?.[word];
      if (entry === undefined) return [];
      if (isGroup(entry)) siblings = entry.verbs;
      else command = entry;
    }
  }
  if (last.startsWith('-')) return Object.keys({ ...GLOBAL_FLAGS, ...command?.flags }).map((name) => `--${name}`);
  if (command === undefined)
    return Object.entries(siblings ?? {})
      .filter(([, entry]) => entry.hidden !== true)
      .map(([name]) => name);
  const specs = command.args ?? [];
  const spec = specs[args] ?? (specs.at(-1)?.many === true ? specs.at(-1) : undefined);
  return spec?.complete === undefined ? [] : valuesOf(spec.complete);
}

function flagOf(word: string, command: CommandSpec | undefined) {
  const flags = { ...GLOBAL_FLAGS, ...command?.flags };
  if (word.startsWith('--')) return flags[word.slice(2).replace(/=.*/, '')];
  return Object.values(flags).find((spec) => spec.short === word.slice(1));
}

/** How long a shell may be kept waiting, in milliseconds. */
const PATIENCE_MS = 200;

async function values(invocation: Invocation, kind: NonNullable<ArgSpec['complete']>): Promise<string[]> {
  if (kind === 'code') return Object.keys((await import('@yardmaster/contracts')).ERROR_CATALOGUE);
  if (kind === 'service') {
    const { stackFile, stackIn } = await import('../stack/checkout.js');
    return Object.keys(stackIn(stackFile())?.services ?? {});
  }
  try {
    const { resolveSettings } = await import('../connection/settings.js');
    const { apiUrl, apiKey } = resolveSettings({});
    const path = { run: 'runs?limit=20', conversation: 'conversations?limit=20', tool: 'tools?limit=200' }[kind];
    const response = await fetch(`${apiUrl}/v1/${path}`, {
      headers: { authorization: `Bearer ${apiKey}` },
      redirect: 'error',
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const page = (await response.json()) as { items?: { id?: string; name?: string }[] };
    return (page.items ?? []).map((item) => item.id ?? item.name ?? '');
  } catch {
    // A completion that fails says nothing: the shell line is not the place for it.
    return [];
  }
}
