import { type JsonSchema, coerceArguments, isInexactInteger, validateArguments } from '@yardmaster/tool-schema';
import { readJsonText } from './read-json.js';
import { typeTextValues } from './text-values.js';
import { type ToolSet } from './tool-set.js';
import { type ParsedToolCall, type RawCall, type ToolCallError, type ToolDefinition } from './types.js';

const MAX_ISSUES = 5;
export const MAX_INPUT = 800;

export type CheckedCall = { call: Omit<ParsedToolCall, 'id'>; repairs: string[] } | { error: ToolCallError };

/**
 * Turns what was read into a call that may be run, or into the error that the model is told: the name must be
 * registered (when tools are given), the arguments an object that fits the schema after coercion.
 */
export function checkCall(raw: RawCall, tools: ToolSet | undefined, decodes = 1): CheckedCall {
  const written = raw.name.trim();
  const fail = (error: Omit<ToolCallError, 'input'>): { error: ToolCallError } => ({
    error: {
      ...error,
      input: clipInput(raw.input),
      ...(raw.id === undefined ? {} : { id: raw.id }),
      ...(written === '' ? {} : { name: clip(written, 200) }),
    },
  });
  if (written === '') return fail({ kind: 'missing_name', message: 'the call has no "name"' });
  const tool = tools?.resolve(raw.name);
  if (tools && !tool) {
    const suggest = tools.nearest(written);
    const hint = suggest === undefined ? '' : `; did you mean ${suggest}?`;
    const message = `there is no tool called ${clip(plain(written), 80)}${hint}`;
    return fail({ kind: 'unknown_tool', message, ...(suggest === undefined ? {} : { suggest }) });
  }
  const required = requiredOf(tool);
  const hints = required.length > 0 ? { required } : {};
  let args = raw.args;
  let literals = raw.literals;
  const repairs: string[] = [];
  for (let decoded = 0; typeof args === 'string' && decoded < decodes; decoded++) {
    if (args.trim() === '') {
      args = {};
      break;
    }
    const reading = readJsonText(args);
    if (reading.status !== 'ok') {
      const kind = reading.status === 'cut' && decodes > 1 ? 'unterminated' : 'malformed_json';
      const message =
        reading.status === 'cut' ? 'the arguments end before they are complete' : `arguments: ${reading.message}`;
      return fail({ kind, message, ...lineAndColumn(args, reading.at), ...hints });
    }
    args = reading.value;
    literals = reading.literals;
    repairs.push(...reading.repairs);
  }
  if (args === undefined || args === null) args = {};
  if (typeof args !== 'object' || Array.isArray(args)) {
    return fail({ kind: 'schema', message: `the arguments must be one JSON object, not ${kindOf(args)}`, ...hints });
  }
  let object = args as Record<string, unknown>;
  if (tool?.parameters !== undefined) {
    if (raw.textValues) object = typeTextValues(tool.parameters, object);
    const checked = checkArguments(tool.parameters, object, literals);
    if ('message' in checked) return fail({ kind: 'schema', message: checked.message, ...hints });
    object = checked.arguments;
  }
  return { call: { name: tool?.name ?? written, arguments: object }, repairs };
}

function checkArguments(
  schema: JsonSchema,
  sent: Record<string, unknown>,
  literals: ReadonlyMap<string, string> | undefined,
): { arguments: Record<string, unknown> } | { message: string } {
  const coerced = coerceArguments(schema, sent, literals && literals.size > 0 ? { literals } : {});
  const verdict = validateArguments(schema, coerced);
  if (!verdict.ok) {
    const asSent = coerced === sent ? verdict : validateArguments(schema, sent);
    const errors = asSent.ok ? verdict.errors : asSent.errors;
    const shown = errors
      .slice(0, MAX_ISSUES)
      .map(({ path, message }) => (path === '' ? message : `${clip(path, 120)}: ${clip(message, 200)}`));
    const more = errors.length > MAX_ISSUES ? `; and ${errors.length - MAX_ISSUES} more` : '';
    return { message: `${shown.join('; ')}${more}` };
  }
  for (const [pointer, literal] of literals ?? []) {
    if (isInexactInteger(literal) && typeof valueAt(coerced, pointer) === 'number') {
      return { message: `${pointer}: the integer ${clip(literal, 40)} is too large to be kept exactly` };
    }
  }
  return { arguments: coerced as Record<string, unknown> };
}

function valueAt(root: unknown, pointer: string): unknown {
  let at = root;
  for (const step of pointer.split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

/** The names of the parameters that a tool cannot do without. */
export function requiredOf(tool: ToolDefinition | undefined): string[] {
  const schema = tool?.parameters;
  const required = typeof schema === 'object' ? schema['required'] : undefined;
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string').slice(0, 40) : [];
}

/** Line and column of a place in a text, both from 1. */
export function lineAndColumn(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, Math.min(at, text.length));
  const lastBreak = before.lastIndexOf('\n');
  let line = 1;
  for (let found = before.indexOf('\n'); found >= 0; found = before.indexOf('\n', found + 1)) line++;
  return { line, column: before.length - lastBreak };
}

/** At most 800 characters of what was written, never half of a surrogate pair. */
export function clipInput(text: string): string {
  return clip(text, MAX_INPUT);
}

function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** A name as it may stand in a message: markup and line breaks cannot get out of it. */
function plain(name: string): string {
  return name.replace(/[<>"'`\u0000-\u001f\u007f]/g, '_');
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}
