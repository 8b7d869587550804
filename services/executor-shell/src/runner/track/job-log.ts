/** The newest output of a background job, addressed by byte offsets that never change. */
export class JobLog {
  readonly #cap: number;
  #chunks: Buffer[] = [];
  /** Offset of the first kept byte. */
  #start = 0;
  #end = 0;

  /** `start` is the offset of its first byte: above 0 for what is left of an earlier log. */
  constructor(capBytes: number, start = 0) {
    this.#cap = capBytes;
    this.#start = start;
    this.#end = start;
  }

  get end(): number {
    return this.#end;
  }

  append(text: string): void {
    const bytes = Buffer.from(text);
    this.#chunks.push(bytes);
    this.#end += bytes.length;
    while (this.#chunks.length > 1 && this.#end - this.#start - this.#chunks[0]!.length >= this.#cap)
      this.#start += this.#chunks.shift()!.length;
    if (this.#chunks.length > 512) this.#chunks = [Buffer.concat(this.#chunks)];
  }

  /** What came after the offset, at most `mostBytes` (the newest), and the offset to go on from. */
  read(after: number, mostBytes: number): { output: string; skipped: number; next: number } {
    const all = Buffer.concat(this.#chunks);
    const from = Math.min(Math.max(0, after), this.#end);
    let begin = Math.max(from, this.#start, this.#end - mostBytes);
    while (begin < this.#end && begin > from && (all[begin - this.#start]! & 0xc0) === 0x80) begin++;
    return { output: all.subarray(begin - this.#start).toString(), skipped: begin - from, next: this.#end };
  }
}
