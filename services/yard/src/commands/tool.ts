import { readFileSync } from 'node:fs';
import type { PutTool, Tool } from '@yardmaster/client';
import { type Invocation, readStdin } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import type { Column } from '../cli/table.js';
import { UsageError } from '../cli/usage-error.js';
import { EXIT } from '../exit-codes.js';
import { collect, wantedItems } from './list-pages.js';

const COLUMNS: readonly Column<Tool>[] = [
  { name: 'name', of: (tool) => tool.name },
  { name: 'kind', of: (tool) => tool.kind },
  { name: 'effect', of: (tool) => tool.effect },
  { name: 'category', of: (tool) => tool.category, wide: true },
  { name: 'state', of: (tool) => tool.state },
  { name: 'version', of: (tool) => tool.version, wide: true },
  { name: 'owner', of: (tool) => (tool.shared ? 'everyone' : 'tenant') },
  { name: 'description', of: (tool) => tool.description, max: 60 },
];

/** `yard tool list [--search WORDS]` */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const words = invocation.text('search');
  if (words !== undefined) {
    const hits = await session.api.tools.search(words, Math.min(50, invocation.number('limit') ?? 10));
    if (invocation.output.structured)
      await invocation.output.page({ items: hits, next_cursor: null } as { items: typeof hits }, [], '');
    else await invocation.output.page({ items: hits.map(({ tool }) => tool) }, COLUMNS, 'no tool does that');
    return;
  }
  const page = await collect<Tool>(wantedItems(invocation), (query) => session.api.tools.page(query));
  await invocation.output.page(page, COLUMNS, 'no tools are registered; executors register theirs when they start');
  if (page.next_cursor !== null && !invocation.output.structured)
    invocation.output.note(`${page.items.length} shown; more: --limit N or --all`);
}

const describe = (tool: Tool) =>
  [
    fields([
      ['tool', tool.name],
      ['kind', tool.kind],
      ['effect', tool.effect],
      ['category', tool.category],
      ['state', tool.state],
      ['version', tool.version],
      ['owner', tool.shared ? 'everyone' : 'tenant'],
      ['aliases', tool.aliases.join(', ')],
      ['time limit', `${tool.timeout_ms} ms`],
      ['always asks', tool.always_ask ? 'yes' : undefined],
    ]),
    '',
    tool.description,
    '',
    JSON.stringify(tool.parameters, null, 2),
  ].join('\n');

/** `yard tool get TOOL` */
export async function get(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const tool = await session.api.tools.get(invocation.args[0]!);
  await invocation.output.object(tool, () => describe(tool));
}

/** `yard tool put TOOL FILE|-` */
export async function put(invocation: Invocation): Promise<void> {
  const [name, file] = invocation.args as [string, string];
  const definition = await objectOf(file, file === '-' ? await readStdin() : read(file));
  const session = await invocation.session();
  const tool = await session.api.tools.put(name, definition as unknown as PutTool);
  await invocation.output.object(tool, () => `${tool.name} version ${tool.version}`);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** JSON or YAML that must be an object. */
async function objectOf(what: string, text: string): Promise<Record<string, unknown>> {
  const { parse } = await import('yaml');
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw new UsageError(`${what === '-' ? 'stdin' : what} is neither JSON nor YAML: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(`${what === '-' ? 'stdin' : what} must be an object`);
  return value as Record<string, unknown>;
}

/** `yard tool delete TOOL` */
export async function remove(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  await session.api.tools.delete(invocation.args[0]!);
  invocation.output.note(`removed tool ${invocation.args[0]!}`);
}

/** `yard tool test TOOL ARGUMENTS|-`: 0 when they would be accepted, else 2 with what the model would be told. */
export async function test(invocation: Invocation): Promise<number> {
  const [name, given] = invocation.args as [string, string];
  const args = await objectOf('ARGUMENTS', given === '-' ? await readStdin() : given);
  const session = await invocation.session();
  const answer = await session.api.tools.validate(name, args);
  await invocation.output.object(answer, () =>
    answer.ok ? `accepted as ${JSON.stringify(answer.arguments)}` : `refused: ${answer.message}`,
  );
  return answer.ok ? EXIT.ok : EXIT.usage;
}
