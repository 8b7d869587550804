import type { Tool } from '@yardmaster/contracts';
import { gateSchema, type JsonSchema } from '@yardmaster/tool-schema';

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const KIND = /^[a-z0-9][a-z0-9-]{0,39}$/;
const ALIAS = /^[A-Za-z0-9_.:-]{1,128}$/;
const EFFECTS = ['read', 'idempotent', 'unsafe'];
const CATEGORIES = ['read', 'write', 'execute', 'network'];
const STATES = ['', 'active', 'deprecated', 'retired'];
const ANNOTATIONS = ['readOnly', 'destructive', 'idempotent', 'openWorld'];
const MOST_ALIASES = 20;
const MOST_HINTS = 50;
const MOST_TEXT = 10_000;
const LONGEST_TIMEOUT_MS = 86_400_000;

/** One thing that is wrong with a definition; `code` is one of docs/tools.md, `bad_field` for what is no matter of the schema. */
export interface ToolProblem {
  code: string;
  message: string;
}

/**
 * Everything that keeps a tool from being registered. Slow schemas are tried in a worker, where `party` (the tenant that
 * offers the tool) waits for one schema of each other at most; each takes up to 2.5 s.
 */
export async function problemsOf(
  tool: Tool,
  visible: ReadonlyMap<string, Tool>,
  party: string,
): Promise<ToolProblem[]> {
  const problems = [...fieldProblems(tool), ...aliasProblems(tool, visible)];
  // Meta tools are shown to models without their underscores.
  for (const name of [tool.name, ...tool.aliases])
    if (visible.has(`__${name}`))
      problems.push({ code: 'bad_name', message: `name: "${name}" is what models know "__${name}" by` });
  problems.push(...(await schemaProblems('parameters', tool.parametersJson, party)));
  if (tool.outputSchemaJson !== '')
    problems.push(...(await schemaProblems('output_schema', tool.outputSchemaJson, party)));
  return problems;
}

function fieldProblems(tool: Tool): ToolProblem[] {
  const problems: ToolProblem[] = [];
  const bad = (message: string, code = 'bad_field') => problems.push({ code, message });
  if (!NAME.test(tool.name)) bad(`name: "${tool.name.slice(0, 80)}" must match ${NAME.source}`, 'bad_name');
  else if (tool.name.startsWith('__')) bad('name: names that begin with two underscores are reserved', 'bad_name');
  if (tool.description.trim() === '' || tool.description.length > MOST_TEXT)
    bad(`description: must be 1 to ${MOST_TEXT} characters`);
  if (!EFFECTS.includes(tool.effect))
    bad(
      `effect: must be one of ${EFFECTS.join(', ')} (it has no default: may a call run again when nobody knows how it ended?)`,
    );
  if (!CATEGORIES.includes(tool.category)) bad(`category: must be one of ${CATEGORIES.join(', ')}`);
  if (!STATES.includes(tool.state)) bad(`state: must be one of ${STATES.slice(1).join(', ')}`);
  if (!KIND.test(tool.kind) || tool.kind === 'meta' || tool.kind === 'none')
    bad('kind: must be the executor kind that runs it: letters, digits and -');
  if (tool.timeoutMs > LONGEST_TIMEOUT_MS) bad(`timeout_ms: must be at most ${LONGEST_TIMEOUT_MS}`);
  if (tool.searchHints.length > MOST_HINTS || tool.searchHints.some((hint) => hint.length > 200))
    bad(`search_hints: at most ${MOST_HINTS}, each at most 200 characters`);
  problems.push(...annotationProblems(tool.annotationsJson), ...dispatchProblems(tool.dispatchJson));
  return problems;
}

function annotationProblems(json: string): ToolProblem[] {
  if (json === '') return [];
  const value = objectIn(json);
  const fits =
    value !== undefined &&
    Object.entries(value).every(([name, flag]) => ANNOTATIONS.includes(name) && typeof flag === 'boolean');
  return fits
    ? []
    : [{ code: 'bad_field', message: `annotations: only ${ANNOTATIONS.join(', ')} are known, each true or false` }];
}

function dispatchProblems(json: string): ToolProblem[] {
  if (json === '' || (objectIn(json) !== undefined && json.length <= MOST_TEXT)) return [];
  return [{ code: 'bad_field', message: `dispatch: must be a JSON object of at most ${MOST_TEXT} characters` }];
}

/** An alias that is somebody else's name, or alias, would make it a matter of chance which tool is called. */
function aliasProblems(tool: Tool, visible: ReadonlyMap<string, Tool>): ToolProblem[] {
  const problems: ToolProblem[] = [];
  const bad = (message: string) => problems.push({ code: 'bad_field', message: `aliases: ${message}` });
  if (tool.aliases.length > MOST_ALIASES) bad(`at most ${MOST_ALIASES}`);
  for (const alias of new Set(tool.aliases)) {
    if (!ALIAS.test(alias) || alias.startsWith('__')) {
      bad(`"${alias.slice(0, 80)}" is no name`);
      continue;
    }
    const other = [...visible.values()].find(
      (one) => one.name !== tool.name && (one.name === alias || one.aliases.includes(alias)),
    );
    if (other !== undefined) bad(`"${alias}" already leads to "${other.name}"`);
  }
  return problems;
}

async function schemaProblems(field: string, json: string, party: string): Promise<ToolProblem[]> {
  let schema: unknown;
  try {
    schema = JSON.parse(json);
  } catch {
    return [{ code: 'bad_schema', message: `${field}: no valid JSON` }];
  }
  const verdict = await gateSchema(schema as JsonSchema, { party });
  return verdict.accepted ? [] : [{ code: verdict.code, message: `${field}: ${verdict.message}` }];
}

function objectIn(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
