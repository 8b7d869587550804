import { type SchemaIssue, clip } from './issues.js';

/** More than this tells a model nothing new. */
const MAX_SHOWN = 10;
/** About 400 tokens. */
const MAX_LENGTH = 1600;

/**
 * What the model is told about a call it got wrong, in at most about 400 tokens; with `schema` the definition is
 * repeated once, for a tool that the model has not seen or not seen in this form.
 */
export function repairText(toolName: string, errors: readonly SchemaIssue[], schema?: unknown): string {
  const shown = errors.slice(0, MAX_SHOWN).map(({ path, message }, index) => {
    return `${index + 1}) ${path === '' ? '' : `${clip(path, 120)}: `}${clip(message, 300)}.`;
  });
  const more = errors.length > MAX_SHOWN ? ` (${errors.length - MAX_SHOWN} more)` : '';
  const list = clip(shown.join(' '), MAX_LENGTH - 200);
  const text = `Invalid arguments for ${toolName}. ${list}${more} Call ${toolName} again with corrected arguments.`;
  return schema === undefined ? text : `${text} Its parameters: ${JSON.stringify(schema)}`;
}

/** What the model is told about a name that is no tool; the suggestion is never run by itself. */
export function unknownToolText(name: string, suggestion: string | undefined): string {
  const start = `There is no tool called ${clip(name, 80)}.`;
  return suggestion === undefined
    ? `${start} Use only the tools you were shown.`
    : `${start} Did you mean ${suggestion}?`;
}
