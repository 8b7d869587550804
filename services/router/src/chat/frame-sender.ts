import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ChatFrameSchema } from '@yardmaster/contracts';

type FrameInit = MessageInitShape<typeof ChatFrameSchema>;

/**
 * Sends frames on, with the text pieces that come within `waitMs` joined into one: a model writes dozens of pieces a
 * second, and every frame costs each hop the same, however short it is. Order is kept.
 */
export class FrameSender {
  private text = '';
  private kind: 'delta' | 'reasoning' | undefined;
  private timer: NodeJS.Timeout | undefined;
  private lastSentAt = 0;

  constructor(
    private readonly send: (frame: FrameInit) => void,
    private readonly waitMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The first piece after a pause goes out at once, so that a reader sees the answer begin. */
  piece(kind: 'delta' | 'reasoning', text: string): void {
    if (this.kind !== undefined && this.kind !== kind) this.flush();
    this.kind = kind;
    this.text += text;
    const idle = this.now() - this.lastSentAt;
    if (idle >= this.waitMs) this.flush();
    else this.timer ??= setTimeout(() => this.flush(), this.waitMs - idle);
  }

  frame(frame: FrameInit): void {
    this.flush();
    this.send(frame);
  }

  /** Text that was not sent yet is dropped: the attempt that wrote it does not count. */
  drop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.text = '';
    this.kind = undefined;
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.kind === undefined || this.text === '') return;
    const frame: FrameInit = { kind: { case: this.kind, value: this.text } };
    this.text = '';
    this.kind = undefined;
    this.lastSentAt = this.now();
    this.send(frame);
  }
}
