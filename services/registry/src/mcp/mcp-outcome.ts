import type { CallToolResult } from '@modelcontextprotocol/client';
import type { ToolOutcome } from '@yardmaster/executor-kit';
import { assertJsonLimits } from '@yardmaster/guard';
import { type JsonSchema, validateArguments } from '@yardmaster/tool-schema';

/** What a model reads of a result, whose structured content is checked against what the tool promised. */
export function outcomeOf(server: string, result: CallToolResult, outputSchemaJson: string): ToolOutcome {
  const { content, isError, structuredContent } = result;
  const parts = (Array.isArray(content) ? content : []).map((part) => {
    if (part.type === 'text') return part.text;
    if (part.type === 'resource' && 'text' in part.resource) return String(part.resource.text);
    if (part.type === 'resource_link') return `[resource ${part.uri}]`;
    if (part.type === 'image' || part.type === 'audio')
      return `[${part.type} ${part.mimeType}, ${part.data.length} characters of base64]`;
    return `[${part.type}]`;
  });
  const text = parts.join('\n');
  if (isError === true)
    return { ok: false, reason: 'failed', output: text === '' ? `${server} says nothing more.` : text };
  const problem = outputSchemaJson === '' ? undefined : contentProblem(structuredContent, outputSchemaJson);
  if (problem !== undefined)
    return {
      ok: false,
      reason: 'failed',
      output: `The tool has run, but its result cannot be used: ${problem}. This is a fault of the MCP server "${server}".`,
    };
  return { output: text === '' && structuredContent !== undefined ? JSON.stringify(structuredContent) : text };
}

function contentProblem(content: unknown, outputSchemaJson: string): string | undefined {
  if (content === undefined) return 'it promises structured content and sent none';
  assertJsonLimits(content);
  const verdict = validateArguments(JSON.parse(outputSchemaJson) as JsonSchema, content as Record<string, unknown>);
  if (verdict.ok) return undefined;
  const faults = verdict.errors.slice(0, 5).map(({ path, message }) => `${path === '' ? '/' : path}: ${message}`);
  return `its structured content does not fit its outputSchema (${faults.join('; ')})`;
}
