const BREAKS =
  /`+|\n[ \t]*(?:\r?\n|<(?:tool_call|toolcall|tool-call|function_call|invoke|\/?think|\/?thinking|tool_result)\b|`{3,}|~{3,})/gi;

/**
 * Finds where inline code ends. Inline code stays within its paragraph: an empty line, a fence or a tag that starts a
 * line ends it. The runs of backticks of a paragraph are indexed once, since many unclosed ones would otherwise each
 * search the rest of the text.
 */
export class CodeSpans {
  private runs = new Map<number, number[]>();
  private from = 0;
  private to = -1;
  private whole = false;

  /** The index after the run of `length` backticks that closes the one ending at `from`; -1 if none does. */
  close(text: string, from: number, length: number, final: boolean): number | 'need' {
    if (from < this.from || from >= this.to) this.index(text, from);
    const starts = this.runs.get(length);
    while (starts && starts.length > 0 && starts[starts.length - 1]! < from) starts.pop();
    const start = starts?.[starts.length - 1];
    if (start !== undefined) {
      // A run that touches the end of what is known may still grow.
      if (!final && start + length === text.length) return 'need';
      return start + length;
    }
    return final || this.whole ? -1 : 'need';
  }

  /** Forgets everything: the text has changed. */
  reset(): void {
    this.to = -1;
  }

  private index(text: string, from: number): void {
    this.runs.clear();
    this.from = from;
    this.to = text.length;
    this.whole = false;
    BREAKS.lastIndex = from;
    for (let hit = BREAKS.exec(text); hit; hit = BREAKS.exec(text)) {
      if (text.charCodeAt(hit.index) !== 0x60) {
        this.to = hit.index;
        this.whole = true;
        break;
      }
      const known = this.runs.get(hit[0].length);
      if (known) known.push(hit.index);
      else this.runs.set(hit[0].length, [hit.index]);
    }
    // Used from the end, so that the next one is popped in constant time.
    for (const starts of this.runs.values()) starts.reverse();
  }
}
