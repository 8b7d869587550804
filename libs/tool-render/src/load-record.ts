import { type JsonSchema } from '@yardmaster/tool-schema';
import { type ToolView } from './tool-view.js';
import { jsonLine } from './view-schema.js';

const LINE = /^<function>(\{.*\})<\/function>$/;

/**
 * The result of `tool_search` and `tool_describe` as a history keeps it: the definitions as they were when they were
 * loaded, one a line, in no strategy's form. Whoever draws the history later, with whatever strategy, draws the same.
 */
export function loadRecord(tools: readonly ToolView[]): string {
  const lines = tools.map(({ name, description, parameters, server, serverTool }) =>
    jsonLine({
      description,
      name,
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(server === undefined ? {} : { server }),
      ...(serverTool === undefined ? {} : { server_tool: serverTool }),
    }),
  );
  return `<functions>\n${lines.map((line) => `<function>${line}</function>\n`).join('')}</functions>`;
}

/** The tools of such a result; none when the text is something else, such as a search without hits. */
export function readLoadRecord(text: string): ToolView[] {
  if (!text.startsWith('<functions>\n') || !text.endsWith('</functions>')) return [];
  const tools: ToolView[] = [];
  for (const line of text.split('\n')) {
    const json = LINE.exec(line)?.[1];
    if (json === undefined) continue;
    try {
      const { name, description, parameters, server, server_tool } = JSON.parse(json) as Record<string, unknown>;
      if (typeof name !== 'string' || typeof description !== 'string') continue;
      tools.push({
        name,
        description,
        parameters: parameters as JsonSchema,
        ...(typeof server === 'string' ? { server } : {}),
        ...(typeof server_tool === 'string' ? { serverTool: server_tool } : {}),
      });
    } catch {
      // A line that was cut is no definition.
    }
  }
  return tools;
}
