const OPEN = '<think>';
const CLOSE = '</think>';

/** Where the parts of a text go. */
export interface ThinkSink {
  text(piece: string): void;
  /** A piece of an inline think block; `end` closes the block. */
  think(piece: string): void;
  thinkEnd(): void;
  /** A lone close tag: all text so far (without its last `cut` characters, part of the tag) and `tail` were reasoning. */
  loneClose(tail: string, cut: number): void;
}

/**
 * Moves think blocks at the start of a text to the reasoning, piece by piece, without ever showing a piece of a tag.
 * Tags later in the text stay; a close tag that nothing opened makes everything before it reasoning, since some
 * templates put the open tag into the prompt.
 */
export class ThinkFilter {
  private mode: 'lead' | 'inside' | 'text' = 'lead';
  private held = '';
  private tail = '';
  private blocks = 0;
  private mayBeLone = true;

  /** `prefilled`: the open tag stood in the prompt, so the text begins inside of a block. */
  constructor(
    private readonly sink: ThinkSink,
    private prefilled = false,
  ) {}

  get sawBlock(): boolean {
    return this.blocks > 0;
  }

  /** The block that the prompt opened has not ended: no close tag came, or nothing did. */
  get isInPrefilled(): boolean {
    return this.prefilled;
  }

  /** Reasoning came in a field of its own: the server splits it from the text, which is the answer then. */
  splitElsewhere(): void {
    if (this.mode === 'lead' && this.held === '') this.prefilled = false;
  }

  push(piece: string): void {
    let rest = piece;
    while (rest !== '') {
      if (this.mode === 'text') {
        rest = this.inText(rest);
      } else if (this.mode === 'inside') {
        rest = this.inside(rest);
      } else {
        rest = this.inLead(rest);
      }
    }
  }

  /** A call begins: from here on a lone close tag means nothing. */
  callBegins(): void {
    this.mayBeLone = false;
  }

  /** The end of the text: what was held back because it might have been a tag. */
  end(): void {
    const held = this.held;
    this.held = '';
    if (this.mode === 'inside') {
      if (held !== '') this.sink.think(held);
      this.sink.thinkEnd();
    } else if (held !== '' && this.mode === 'lead') {
      if (this.prefilled) this.sink.think(held);
      else if (this.blocks === 0 || held.trim() !== '') this.sink.text(held);
    }
  }

  private inLead(piece: string): string {
    const text = this.held + piece;
    const body = text.trimStart();
    if (body.startsWith(OPEN)) {
      this.held = '';
      this.mode = 'inside';
      this.blocks++;
      return body.slice(OPEN.length);
    }
    if (body.length < OPEN.length && OPEN.startsWith(body)) {
      this.held = text;
      return '';
    }
    this.held = '';
    if (this.prefilled) {
      this.mode = 'inside';
      this.blocks++;
      return text;
    }
    this.mode = 'text';
    return this.blocks > 0 ? body : text;
  }

  private inside(piece: string): string {
    const text = this.held + piece;
    this.held = '';
    const close = text.indexOf(CLOSE);
    if (close === -1) {
      const keep = partialSuffix(text, CLOSE);
      if (text.length > keep) this.sink.think(text.slice(0, text.length - keep));
      this.held = text.slice(text.length - keep);
      return '';
    }
    if (close > 0) this.sink.think(text.slice(0, close));
    this.sink.thinkEnd();
    this.prefilled = false;
    this.mode = 'lead';
    return text.slice(close + CLOSE.length);
  }

  private inText(piece: string): string {
    if (!this.mayBeLone || this.blocks > 0) {
      this.sink.text(piece);
      return '';
    }
    const text = this.tail + piece;
    const open = text.indexOf(OPEN);
    const close = text.indexOf(CLOSE);
    if (close !== -1 && (open === -1 || close < open)) {
      const start = close - this.tail.length;
      this.sink.loneClose(start >= 0 ? piece.slice(0, start) : '', start >= 0 ? 0 : -start);
      this.tail = '';
      this.blocks++;
      this.mode = 'lead';
      return text.slice(close + CLOSE.length);
    }
    if (open !== -1) this.mayBeLone = false;
    else this.tail = text.slice(text.length - partialSuffix(text, CLOSE, OPEN));
    this.sink.text(piece);
    return '';
  }
}

/** Length of the longest end of `text` that a tag may begin with. */
function partialSuffix(text: string, ...tags: readonly string[]): number {
  const from = text.lastIndexOf('<');
  if (from === -1) return 0;
  const end = text.slice(from);
  return tags.some((tag) => end.length < tag.length && tag.startsWith(end)) ? end.length : 0;
}
