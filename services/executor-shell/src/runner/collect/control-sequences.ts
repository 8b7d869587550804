// Terminal control sequences can repaint, rename, copy to the clipboard or hide text; no reader of a result needs them.
const SEQUENCE =
  // CSI …; OSC, DCS, PM, APC, SOS … with their end; any other escape; single controls except tab, newline and return.
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
/** A sequence that may go on in the next chunk. */
const OPEN_END =
  /(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c\n]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c\n]*\x1b?)$/;
// An "unterminated" sequence may not swallow what follows for ever.
const LONGEST_SEQUENCE = 4096;

/** Removes control sequences from text that arrives in pieces. */
export class ControlStripper {
  #held = '';

  write(piece: string): string {
    const text = this.#held + piece;
    this.#held = '';
    const open = text.slice(-LONGEST_SEQUENCE).match(OPEN_END);
    if (open === null) return text.replace(SEQUENCE, '');
    this.#held = open[0];
    return text.slice(0, text.length - open[0].length).replace(SEQUENCE, '');
  }

  end(): string {
    const rest = this.#held.replace(SEQUENCE, '');
    this.#held = '';
    return rest;
  }
}
