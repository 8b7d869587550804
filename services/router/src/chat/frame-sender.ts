import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ChatFrameSchema } from '@yardmaster/contracts';

type FrameInit = MessageInitShape<typeof ChatFrameSchema>;

interface Round {
  timer: NodeJS.Timeout;
  callbacks: Set<() => void>;
}

const rounds = new Map<number, Round>();

/**
 * Calls back within `waitMs`, together with all others that wait so long: streams that send at the same moment share a
 * write to the network, which costs more than what is written. The returned function cancels it.
 */
function inRound(waitMs: number, callback: () => void): () => void {
  const round = rounds.get(waitMs) ?? openRound(waitMs);
  round.callbacks.add(callback);
  return () => {
    round.callbacks.delete(callback);
    if (round.callbacks.size > 0 || rounds.get(waitMs) !== round) return;
    clearTimeout(round.timer);
    rounds.delete(waitMs);
  };
}

function openRound(waitMs: number): Round {
  const callbacks = new Set<() => void>();
  const timer = setTimeout(() => {
    rounds.delete(waitMs);
    for (const each of callbacks) each();
  }, waitMs);
  const round = { timer, callbacks };
  rounds.set(waitMs, round);
  return round;
}

/**
 * Sends frames on, those that come within `waitMs` together and their text pieces joined: a model writes dozens of
 * pieces a second, and every frame costs each hop the same, however short it is. Order is kept. An answer that is
 * complete before anything was sent is its end frame alone, which holds everything.
 */
export class FrameSender {
  private held: FrameInit[] = [];
  private cancel: (() => void) | undefined;
  private sent = false;

  constructor(
    private readonly send: (frame: FrameInit) => void,
    private readonly waitMs: number,
  ) {}

  piece(kind: 'delta' | 'reasoning', text: string): void {
    const last = this.held.at(-1)?.kind;
    if (last?.case === kind) last.value += text;
    else this.frame({ kind: { case: kind, value: text } });
  }

  frame(frame: FrameInit): void {
    this.held.push(frame);
    if (this.waitMs === 0) this.flush();
    else this.cancel ??= inRound(this.waitMs, () => this.flush());
  }

  /** What this attempt wrote does not count. Whoever has seen nothing of it need not hear of it. */
  reset(frame: FrameInit): void {
    this.drop();
    if (!this.sent) return;
    this.send(frame);
    this.sent = false;
  }

  end(frame: FrameInit): void {
    if (this.sent) this.flush();
    else this.drop();
    this.send(frame);
  }

  drop(): void {
    this.cancel?.();
    this.cancel = undefined;
    this.held = [];
  }

  private flush(): void {
    const frames = this.held;
    this.drop();
    for (const frame of frames) this.send(frame);
    if (frames.length > 0) this.sent = true;
  }
}
