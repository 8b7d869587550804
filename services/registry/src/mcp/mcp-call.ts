import type { Client } from '@modelcontextprotocol/client';
import type { ToolOutcome } from '@yardmaster/executor-kit';
import { type McpLink, ownError } from './mcp-link.js';
import { outcomeOf } from './mcp-outcome.js';
import { unlessAborted } from './unless-aborted.js';

export interface McpCall {
  /** The tool's name on its server. */
  tool: string;
  args: Record<string, unknown>;
  outputSchemaJson: string;
  signal: AbortSignal;
  timeoutMs: number;
  /** May it run again when nobody knows whether it ran? Only what a trusted server says of itself makes it so. */
  mayRepeat: boolean;
}

/**
 * The outcome of a call. A server says that something is wrong in a result or in an error, and the model reads either;
 * a connection that breaks is another thing: then nobody knows whether the tool ran.
 */
export async function callTool(link: McpLink, call: McpCall): Promise<ToolOutcome> {
  const { id } = link.definition;
  link.busy++;
  try {
    for (let tries = 1; ; tries++) {
      let client: Client;
      try {
        client = await unlessAborted(link.connect(), call.signal);
      } catch (error) {
        if (call.signal.aborted) {
          // Another try may have come after one that nobody knows the end of.
          if (tries > 1) throw error;
          const reason = ownError(error)?.class === 'TIMEOUT' ? 'timeout' : 'cancelled';
          return {
            ok: false,
            reason,
            output: `The call ended before the MCP server "${id}" was connected. Nothing was run.`,
          };
        }
        const ours = ownError(error);
        const code = ours === undefined ? '' : ` [${ours.code}]`;
        const words =
          ours !== undefined ? ours.message : `The MCP server "${id}" cannot be reached: ${link.describe(error)}.`;
        return { ok: false, reason: 'failed', output: `${words} Nothing was run.${code}` };
      }
      try {
        const result = await client.callTool(
          { name: call.tool, arguments: call.args },
          { signal: call.signal, timeout: call.timeoutMs },
        );
        const outcome = outcomeOf(id, result, call.outputSchemaJson);
        return { ...outcome, output: link.clean(outcome.output) };
      } catch (error) {
        if (call.signal.aborted) throw error;
        const how = await failureOf(error);
        const words = link.describe(error);
        if (how === 'answered') return { ok: false, reason: 'failed', output: `${id}: ${words}` };
        // The server has forgotten the session, after a restart of its own: nothing was run.
        if (how === 'stale') {
          await link.reset();
          if (tries === 1) continue;
        }
        if (how === 'refused' || how === 'stale')
          return { ok: false, reason: 'failed', output: `The MCP server "${id}" did not take the call: ${words}.` };
        // Over HTTP other calls go on in the same session; a process that is gone has taken them with it.
        if (how === 'lost' && link.definition.transport.kind === 'stdio') await link.reset();
        if (how === 'lost' && call.mayRepeat && tries === 1) continue;
        return {
          ok: false,
          reason: how === 'timeout' ? 'timeout' : 'failed',
          outcomeUnknown: !call.mayRepeat,
          output: `The MCP server "${id}" gave no answer that can be used: ${words}. Whether the tool took effect is not known.`,
        };
      }
    }
  } finally {
    link.busy--;
    link.lastUsed = Date.now();
  }
}

/** `answered`: an error of JSON-RPC; `refused` and `stale`: never run; else nobody knows, and only `lost` is worth another try. */
async function failureOf(
  error: unknown,
): Promise<'answered' | 'refused' | 'stale' | 'timeout' | 'lost' | 'unreadable'> {
  const { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } =
    await import('@modelcontextprotocol/client');
  const ours = ownError(error);
  if (ours !== undefined) return ours.class === 'DENIED' ? 'refused' : 'unreadable';
  if (error instanceof UnauthorizedError) return 'refused';
  if (error instanceof SdkHttpError) {
    if (error.status === 404) return 'stale';
    return error.status !== undefined && error.status < 500 ? 'refused' : 'lost';
  }
  if (error instanceof ProtocolError) return 'answered';
  if (error instanceof SdkError) {
    if (error.code === SdkErrorCode.RequestTimeout) return 'timeout';
    if (error.code === SdkErrorCode.InvalidResult) return 'unreadable';
    return 'lost';
  }
  // `fetch failed`, a broken pipe: nothing came back.
  return 'lost';
}
