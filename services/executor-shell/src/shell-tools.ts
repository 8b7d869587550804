import { BUILT_IN_TOOLS, YardError } from '@yardmaster/contracts';
import { defineTool, type Tool, type ToolOutcome } from '@yardmaster/executor-kit';
import type { RunnerClient } from './runner-client/runner-client.js';
import type { CommandResult, JobView, Verdict } from './runner-protocol.js';

const definitionOf = (name: string) => {
  const tool = BUILT_IN_TOOLS.find((candidate) => candidate.name === name)!;
  return {
    name,
    description: tool.description,
    effect: tool.effect,
    timeoutMs: tool.timeoutMs,
    input: tool.parameters,
  };
};

/** The runner gets the command's own limit; the call's is a little longer, so that a timeout is told by the runner. */
const MARGIN_MS = 2_000;

/** `shell_run` and `shell_job` over a runner. */
export function shellTools(runner: RunnerClient): Tool[] {
  return [
    defineTool<{ command: string; cwd?: string; timeout_s?: number; background?: boolean }>({
      ...definitionOf('shell_run'),
      async run({ command, cwd, timeout_s, background }, context) {
        const request = {
          tenant: context.tenant,
          workspace: context.workspace,
          command,
          ...(cwd === undefined ? {} : { cwd }),
          limits: {
            timeout_ms: Math.min(
              timeout_s === undefined ? 120_000 : timeout_s * 1000,
              Math.max(1000, context.timeoutMs - MARGIN_MS),
            ),
          },
        };
        return refusals(async () => {
          if (background) return jobOutcome(await runner.start(request));
          const result = await runner.run(request, {
            signal: context.signal,
            onOutput: (stream, text) => context.output(stream, text),
          });
          return commandOutcome(result);
        });
      },
    }),
    defineTool<{ job: string; action: 'status' | 'output' | 'stop' }>({
      ...definitionOf('shell_job'),
      run: ({ job, action }, context) =>
        refusals(async () => jobOutcome(await runner.job(context.tenant, job, action))),
    }),
  ];
}

/** What the runner refuses is an answer for the model; only what is our fault is an error. */
async function refusals(work: () => Promise<ToolOutcome>): Promise<ToolOutcome> {
  try {
    return await work();
  } catch (error) {
    if (YardError.is(error) && (error.class === 'INVALID' || error.class === 'NOT_FOUND'))
      return { ok: false, output: error.message, reason: error.code };
    throw error;
  }
}

function commandOutcome({ stdout, stderr, verdict }: CommandResult): ToolOutcome {
  const parts = [stdout.trimEnd(), stderr.trimEnd() === '' ? '' : `[stderr]\n${stderr.trimEnd()}`, ending(verdict)];
  const ok = verdict.status === 'ok' && verdict.exit_code === 0;
  return {
    ok,
    output: parts.filter((part) => part !== '').join('\n'),
    ...(ok ? {} : { reason: verdict.status === 'ok' ? 'exit_code' : verdict.status }),
    verdict: { ...verdict },
  };
}

/** The last line that the model reads: how it ended. */
function ending(verdict: Verdict): string {
  switch (verdict.status) {
    case 'ok':
      return verdict.signal === null ? `[exit code ${verdict.exit_code ?? 0}]` : `[ended by ${verdict.signal}]`;
    case 'timeout':
      return `[timed out after ${Math.round(verdict.duration_ms / 1000)} s; everything it started was ended]`;
    case 'killed':
      return `[ended: ${verdict.killed_reason ?? 'a limit was reached'}]`;
    case 'cancelled':
      return '[cancelled]';
    case 'blocked':
      return `[refused${verdict.rule === null ? '' : ` by rule ${verdict.rule}`}: ${verdict.reason ?? ''} Nothing was run.]`;
    case 'error':
      return `[could not be run: ${verdict.reason ?? 'unknown reason'}]`;
    case 'running':
      return '[running]';
  }
}

function jobOutcome(view: JobView): ToolOutcome {
  const state = view.state === 'ended' ? ending(view.verdict) : `[${view.state}]`;
  return {
    output: [`job ${view.job}`, view.output.trimEnd(), state].filter((part) => part !== '').join('\n'),
    verdict: { ...view.verdict, job: view.job },
  };
}
