/** How text is shown: colours only on a terminal, and not when NO_COLOR or --no-color says so. Every state is also a word. */
export class Terminal {
  readonly colour: boolean;
  private readonly silent: boolean;

  constructor(
    private readonly out: NodeJS.WriteStream,
    options: { noColour?: boolean; silent?: boolean } = {},
  ) {
    this.silent = options.silent ?? false;
    this.colour = out.isTTY === true && !options.noColour && !process.env['NO_COLOR'];
  }

  line(text = ''): void {
    if (!this.silent) this.out.write(`${text}\n`);
  }

  private paint(code: number, text: string): string {
    return this.colour ? `\u001B[${code}m${text}\u001B[0m` : text;
  }

  dim = (text: string) => this.paint(2, text);
  bold = (text: string) => this.paint(1, text);
  green = (text: string) => this.paint(32, text);
  red = (text: string) => this.paint(31, text);
  yellow = (text: string) => this.paint(33, text);
  cyan = (text: string) => this.paint(36, text);
}

/** Control characters of models and tools never reach the terminal: they could move the cursor, or worse. */
export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

/** The text on one line of at most `width` characters. */
export function oneLine(text: string, width = 100): string {
  const flat = printable(text.replace(/\s+/g, ' ').trim());
  return flat.length > width ? `${flat.slice(0, width - 1)}…` : flat;
}

export const seconds = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
