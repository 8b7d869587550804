import { BUILT_IN_TOOLS } from '@yardmaster/contracts';
import { defineTool, type Tool, type ToolContext, type ToolOutcome } from '@yardmaster/executor-kit';
import { asOutcome } from '../refusal.js';

/** A built-in tool by its public name, with what runs it; refusals become results. */
export function fileTool<A>(name: string, run: (args: A, context: ToolContext) => Promise<ToolOutcome>): Tool {
  const tool = BUILT_IN_TOOLS.find((candidate) => candidate.name === name && candidate.kind === 'files');
  if (tool === undefined) throw new TypeError(`There is no built-in file tool ${name}.`);
  return defineTool<A>({
    name,
    description: tool.description,
    effect: tool.effect,
    timeoutMs: tool.timeoutMs,
    input: tool.parameters,
    run: (args, context) => asOutcome(() => run(args, context)),
  });
}
