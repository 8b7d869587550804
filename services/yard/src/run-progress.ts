import { oneLine, printable, seconds, type Terminal } from './terminal.js';

export interface ShownEvent {
  id?: number | undefined;
  type: string;
  at: string;
  data: Record<string, unknown>;
}

/** Shows the events of a run as they happen: steps, tools with their arguments, failovers, the answer. */
export class RunProgress {
  private step = 0;
  private attempt: { step: number; provider: string; dialect: string } | undefined;
  private readonly startedAt = performance.now();
  private readonly requested = new Map<string, string>();

  constructor(private readonly terminal: Terminal) {}

  show(event: ShownEvent): void {
    const { terminal } = this;
    const { data } = event;
    switch (event.type) {
      case 'run.started':
        terminal.line(terminal.dim(`  run started in conversation ${String(data['conversation_id'])}`));
        return;
      case 'step.started':
        this.step = Number(data['step']);
        return;
      case 'message.attempt':
        this.attempt = {
          step: Number(data['step']),
          provider: String(data['provider']),
          dialect: String(data['dialect']),
        };
        return;
      case 'usage':
        this.showUsage(data);
        return;
      case 'message.completed':
        if (data['final'] !== true) terminal.line(`  ${terminal.dim('says')}  ${oneLine(String(data['text']))}`);
        return;
      case 'tool.requested':
        this.requested.set(String(data['call']), String(data['name']));
        terminal.line(
          `  ${terminal.cyan('calls')} ${String(data['name'])} ${terminal.dim(oneLine(JSON.stringify(data['arguments']), 90))}`,
        );
        return;
      case 'tool.approval_required':
        terminal.line(
          `  ${terminal.yellow('waits')} ${String(data['name'])} needs approval (call ${String(data['call'])})`,
        );
        return;
      case 'tool.completed':
        this.showResult(data);
        return;
      default:
        return;
    }
  }

  private showUsage(data: Record<string, unknown>): void {
    const { terminal } = this;
    const attempts = (data['attempts'] ?? []) as {
      provider: string;
      outcome: string;
      status: number;
      duration_ms: number;
    }[];
    for (const failed of attempts.filter((attempt) => attempt.outcome !== 'ok'))
      terminal.line(
        `  ${terminal.yellow('failover')} ${failed.provider} failed (${failed.status === 0 ? failed.outcome : `HTTP ${failed.status}`}): the next provider answers`,
      );
    const took = attempts.at(-1)?.duration_ms ?? 0;
    terminal.line(
      `${terminal.bold(`step ${this.step}`)}  ${String(data['provider'])} ${terminal.dim(`(${String(data['model'])}, ${data['dialect'] === 'native' ? 'native tool calls' : `XML tool calls: ${String(data['dialect'])}`}, ${seconds(took)})`)}`,
    );
  }

  private showResult(data: Record<string, unknown>): void {
    const { terminal } = this;
    const ok = data['ok'] === true;
    const took = seconds(Number(data['duration_ms'] ?? 0));
    const word = ok
      ? terminal.green('ok')
      : terminal.red(`failed${data['reason'] === undefined ? '' : ` (${oneLine(String(data['reason']), 40)})`}`);
    const first = oneLine(
      String(data['output'] ?? '')
        .split('\n')
        .find((line) => line.trim() !== '') ?? '',
      80,
    );
    terminal.line(`        ${word} ${terminal.dim(`${took}  ${first}`)}`);
  }

  /** What the whole run came to. */
  summary(run: {
    state: string;
    steps: number;
    usage?: { prompt_tokens?: number; completion_tokens?: number; cost_usd?: number };
    output?: string | null;
    reason?: string | null;
    error?: { code?: string; message?: string } | null;
  }): void {
    const { terminal } = this;
    const tokens = (run.usage?.prompt_tokens ?? 0) + (run.usage?.completion_tokens ?? 0);
    const state =
      run.state === 'completed'
        ? terminal.green(run.state)
        : terminal.red(`${run.state}${run.reason ? ` (${run.reason})` : ''}`);
    if (run.output) {
      terminal.line();
      for (const line of printable(run.output).split('\n')) terminal.line(`  ${line}`);
    }
    if (run.error) terminal.line(`  ${terminal.red(run.error.code ?? 'error')} ${printable(run.error.message ?? '')}`);
    terminal.line();
    terminal.line(
      `${state} in ${seconds(performance.now() - this.startedAt)}: ${run.steps} steps, ${tokens} tokens, ${costWords(run.usage?.cost_usd ?? 0, tokens)}`,
    );
  }
}

/** A model without a price costs nobody knows what, which is not nothing. */
function costWords(usd: number, tokens: number): string {
  if (usd > 0) return `${usd.toFixed(4)} USD`;
  return tokens > 0 ? 'cost unknown (the model has no price)' : 'no cost';
}
