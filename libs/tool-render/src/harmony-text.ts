import { neutralise } from '@yardmaster/tool-schema';
import { normaliseForHarmony } from './harmony-schema.js';
import { typeText } from './harmony-type.js';
import { type ToolView } from './tool-view.js';
import { showTool } from './view-schema.js';

const lines = new WeakMap<ToolView, string>();

/** The lines that a namespace holds for a tool: its description as comments and `type NAME = (_: {…}) => any;`. */
export function harmonyToolLines(tool: ToolView, name = tool.name): string {
  const known = name === tool.name ? lines.get(tool) : undefined;
  if (known !== undefined) return known;
  const shown = showTool(tool);
  const comments = rustLines(shown.description).map((line) => `// ${line}\n`);
  const parameters = normaliseForHarmony(shown.parameters);
  const text = `${comments.join('')}type ${neutralise(name)} = ${signature(parameters)} => any;`;
  if (name === tool.name) lines.set(tool, text);
  return text;
}

function signature(parameters: Record<string, unknown>): string {
  const properties = parameters['properties'];
  const hasProperties = typeof properties === 'object' && properties !== null && Object.keys(properties).length > 0;
  return hasProperties || Array.isArray(parameters['oneOf']) ? `(_: ${typeText(parameters, '')})` : '()';
}

/** The developer message with its sections; without tools and instructions it is empty. */
export function harmonyDeveloperMessage(instructions: string | null | undefined, tools: readonly ToolView[]): string {
  const sections: string[] = [];
  if (typeof instructions === 'string') sections.push('# Instructions', instructions);
  if (tools.length > 0) sections.push('# Tools', harmonyNamespace(tools));
  return `<|start|>developer<|message|>${sections.join('\n\n')}<|end|>`;
}

function harmonyNamespace(tools: readonly ToolView[]): string {
  const body = tools.map((tool) => `${harmonyToolLines(tool)}\n\n`).join('');
  return `## functions\n\nnamespace functions {\n\n${body}} // namespace functions`;
}

/** The text of a message without the tokens around it, for servers whose chat template writes those. */
export function harmonyBody(message: string): string {
  return message.replace(/^[\s\S]*?<\|message\|>/, '').replace(/<\|end\|>$/, '');
}

/** A message of the conversation; special tokens in its text are opened, or anyone could end it. */
export function harmonyMessage(role: string, text: string): string {
  const header = role === 'assistant' ? 'assistant<|channel|>final' : role;
  return `<|start|>${header}<|message|>${neutralise(text)}<|end|>`;
}

/** What a tool gave back. */
export function harmonyToolMessage(name: string, text: string): string {
  const author = `functions.${neutralise(name)}`;
  return `<|start|>${author} to=assistant<|channel|>commentary<|message|>${neutralise(text)}<|end|>`;
}

/** Lines as Rust's `str::lines` gives them: an ending line break starts no further line, `\r\n` counts as one break. */
function rustLines(text: string): string[] {
  const found = text.split(/\r?\n/);
  if (found.at(-1) === '') found.pop();
  return found;
}
