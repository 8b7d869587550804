import type { OutputForm } from './command.js';
import { type Column, table } from './table.js';

interface Named {
  id?: unknown;
  name?: unknown;
}

/** Where results go: data on stdout in the form that -o asked for, everything else on stderr. */
export class Output {
  constructor(
    readonly form: OutputForm,
    private readonly quiet: boolean,
    private readonly out: NodeJS.WritableStream = process.stdout,
    private readonly err: NodeJS.WritableStream = process.stderr,
  ) {}

  /** Is the output for programs? */
  get structured(): boolean {
    return this.form === 'json' || this.form === 'jsonl' || this.form === 'yaml';
  }

  /** A line of text on stdout. */
  line(text: string): void {
    this.out.write(`${text}\n`);
  }

  /** A hint or count on stderr, unless -q. */
  note(text: string): void {
    if (!this.quiet) this.err.write(`${text}\n`);
  }

  /** A list: the page unchanged as JSON or YAML, an item per line as JSON lines, else a table or the names. */
  async page<T extends object>(
    page: { items: readonly T[] },
    columns: readonly Column<T>[],
    empty: string,
  ): Promise<void> {
    switch (this.form) {
      case 'jsonl':
        for (const item of page.items) this.line(JSON.stringify(item));
        return;
      case 'name':
        for (const item of page.items) this.line(nameOf(item));
        return;
      case 'table':
      case 'wide':
        if (page.items.length === 0) this.note(empty);
        else this.line(table(page.items, columns, this.form === 'wide'));
        return;
      default:
        await this.value(page);
    }
  }

  /** One object: unchanged as JSON or YAML; `text` says what people see. */
  async object(value: object, text: (wide: boolean) => string): Promise<void> {
    if (this.form === 'name') this.line(nameOf(value));
    else if (this.structured) await this.value(value);
    else this.line(text(this.form === 'wide'));
  }

  private async value(value: unknown): Promise<void> {
    if (this.form === 'jsonl') this.line(JSON.stringify(value));
    else if (this.form === 'yaml') this.line((await import('yaml')).stringify(value).trimEnd());
    else this.line(JSON.stringify(value, null, 2));
  }
}

function nameOf(item: object): string {
  const { id, name } = item as Named;
  return String(id ?? name ?? '');
}

/** `label  value` lines; what is absent is left out. */
export function fields(rows: readonly (readonly [string, string | number | null | undefined])[]): string {
  const present = rows.filter(([, value]) => value !== null && value !== undefined && value !== '');
  const width = Math.max(...present.map(([label]) => label.length));
  return present.map(([label, value]) => `${label.padEnd(width)}  ${value}`).join('\n');
}
