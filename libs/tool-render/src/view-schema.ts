import { type JsonSchema, neutralise, neutraliseDeep } from '@yardmaster/tool-schema';
import { type ToolView } from './tool-view.js';

/** A tool with everything that a model reads of it made safe (S1): no text of a tenant becomes a control token. */
export interface ShownTool {
  name: string;
  description: string;
  /** Always an object schema, without properties for a tool that takes none. */
  parameters: Record<string, unknown>;
}

const shown = new WeakMap<ToolView, ShownTool>();

/** What a model is shown of a tool. */
export function showTool(tool: ToolView): ShownTool {
  let known = shown.get(tool);
  if (!known) {
    known = {
      name: neutralise(tool.name),
      description: neutralise(tool.description),
      parameters: shownParameters(tool.parameters),
    };
    shown.set(tool, known);
  }
  return known;
}

function shownParameters(parameters: JsonSchema | null | undefined): Record<string, unknown> {
  if (typeof parameters !== 'object' || parameters === null) return { type: 'object', properties: {} };
  return neutraliseDeep(parameters) as Record<string, unknown>;
}

/** E1: JSON in one line that cannot end the block it stands in; it still parses to the same value. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replaceAll('</', '<\\/');
}
