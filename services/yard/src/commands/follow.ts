import type { Run } from '@yardmaster/client';
import { Interrupted, StillRunning } from '../cli/interruptions.js';
import type { Invocation } from '../cli/invocation.js';
import type { Session } from '../connection/session.js';
import { exitCodeOf } from '../exit-codes.js';
import { UnansweredCalls } from './unanswered-calls.js';
import { RunProgress } from '../run-progress.js';
import { printable } from '../terminal.js';

export interface FollowOptions {
  after?: number | undefined;
  /** Told of a call that needs approval; an exit code ends the following. */
  onApproval: (call: string) => Promise<number | undefined>;
}

/**
 * Shows a run's steps on stderr until its end and the answer alone on stdout; the exit code tells how it ended.
 * With -o jsonl the events go to stdout instead. Ctrl-C and --timeout leave the run going.
 */
export async function follow(
  invocation: Invocation,
  session: Session,
  run: string,
  options: FollowOptions,
): Promise<number> {
  const { output } = invocation;
  const { signal, release } = detachable(invocation, run);
  const progress = new RunProgress(invocation.terminal);
  const unanswered = new UnansweredCalls((hint) => output.note(hint));
  try {
    for await (const event of session.api.runs.events(run, {
      signal,
      ...(options.after === undefined ? {} : { after: options.after }),
      onReconnect: (attempt) => output.note(`connection lost, trying again (${attempt})`),
    })) {
      unanswered.see(event);
      if (output.form === 'jsonl') output.line(JSON.stringify(event));
      else if (!output.structured && output.form !== 'name') progress.show(event);
      if (event.type !== 'tool.approval_required') continue;
      const code = await options.onApproval(String(event.data['call']));
      if (code !== undefined) return code;
    }
    const done = await session.api.runs.result(run, { signal });
    await showResult(invocation, done, progress);
    return exitCodeOf(done.state);
  } finally {
    unanswered.close();
    release();
  }
}

/** The run after its end: the answer as text, or the object. */
export async function showResult(invocation: Invocation, run: Run, progress?: RunProgress): Promise<void> {
  const { output, terminal } = invocation;
  if (output.form === 'jsonl') return;
  if (output.structured || output.form === 'name') {
    await output.object(run, () => '');
    return;
  }
  progress?.summary({ ...run, output: null });
  if (run.output) output.line(terminal.colour ? printable(run.output) : run.output);
  output.note(invocation.terminal.dim(`run ${run.id}`));
}

/** A signal that ends following by Ctrl-C or --timeout, with the words that say that the run goes on. */
export function detachable(invocation: Invocation, run: string): { signal: AbortSignal; release: () => void } {
  const stop = new AbortController();
  const interrupt = () =>
    stop.abort(new Interrupted(`\ndetached, the run goes on; cancel with: yard run cancel ${run}`));
  process.once('SIGINT', interrupt);
  const { waitMs } = invocation;
  const timer =
    waitMs === undefined
      ? undefined
      : setTimeout(
          () =>
            stop.abort(
              new StillRunning(
                `not over after ${waitMs / 1000} s, the run goes on; follow it with: yard run watch ${run}`,
              ),
            ),
          waitMs,
        );
  return {
    signal: stop.signal,
    release() {
      clearTimeout(timer);
      process.off('SIGINT', interrupt);
    },
  };
}
