import { oneLine } from '../terminal.js';

/** Silence after which a call is said to be unanswered. */
const SILENCE_MS = 10_000;

/**
 * Says once for each call that nothing has been heard of for a while: most often no executor serves its kind, and then
 * nothing else would tell. A call that waits for a person's decision is not silent.
 */
export class UnansweredCalls {
  private readonly open = new Map<string, string>();
  private readonly told = new Set<string>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly say: (hint: string) => void) {}

  /** Told of every event of the run, which ends the silence. */
  see({ type, data }: { type: string; data: Record<string, unknown> }): void {
    const call = String(data['call']);
    if (type === 'tool.requested' || type === 'tool.started') {
      if (!this.told.has(call)) this.open.set(call, String(data['name']));
    } else if (type === 'tool.approval_required' || type === 'tool.completed') this.open.delete(call);
    this.close();
    if (this.open.size > 0) this.timer = setTimeout(() => this.tell(), SILENCE_MS);
  }

  close(): void {
    clearTimeout(this.timer);
  }

  private tell(): void {
    const names = [...new Set(this.open.values())].map((name) => oneLine(name, 64)).join(', ');
    for (const call of this.open.keys()) this.told.add(call);
    this.open.clear();
    this.say(
      `  nothing heard of ${names} for ${SILENCE_MS / 1000} s; does an executor serve it? See: yard queue list, yard doctor`,
    );
  }
}
