import type { Invocation } from './invocation.js';

export interface FlagSpec {
  help: string;
  /** Name of its value in help texts; a flag without one is a switch. */
  value?: string;
  short?: string;
  /** What the value must be; text where nothing is said. */
  type?: 'number' | 'whole';
  choices?: readonly string[];
  /** May be given several times. */
  many?: boolean;
}

export interface ArgSpec {
  name: string;
  help: string;
  optional?: boolean;
  /** Takes all that follows. */
  many?: boolean;
  /** What shells complete it with. */
  complete?: 'run' | 'conversation' | 'tool' | 'service' | 'code';
}

/** Returns the exit code; 0 when it returns nothing. */
export type Handler = (invocation: Invocation) => Promise<number | void>;

/** A command: what it takes, what help says of it, and where its code is. Nothing else is loaded before it is chosen. */
export interface CommandSpec {
  summary: string;
  args?: readonly ArgSpec[];
  flags?: Readonly<Record<string, FlagSpec>>;
  /** Shown in its help, below the flags. */
  notes?: string;
  examples?: readonly string[];
  /** Asks first on a terminal, and needs --yes elsewhere; the words say what is lost, `$1` is the first argument. */
  destroys?: string;
  /** Not part of help and completion. */
  hidden?: boolean;
  load: () => Promise<Handler>;
}

export interface GroupSpec {
  summary: string;
  hidden?: boolean;
  verbs: Readonly<Record<string, CommandSpec>>;
}

export type Tree = Readonly<Record<string, CommandSpec | GroupSpec>>;

export const isGroup = (entry: CommandSpec | GroupSpec): entry is GroupSpec => 'verbs' in entry;

export const OUTPUT_FORMS = ['table', 'wide', 'json', 'jsonl', 'yaml', 'name'] as const;
export type OutputForm = (typeof OUTPUT_FORMS)[number];

/** Flags of every command. */
export const GLOBAL_FLAGS: Readonly<Record<string, FlagSpec>> = {
  output: { short: 'o', value: 'FORM', choices: OUTPUT_FORMS, help: `${OUTPUT_FORMS.join(', ')}` },
  'api-url': { value: 'URL', help: 'address of the API (else YM_API_URL, a context, the stack of this checkout)' },
  context: { value: 'NAME', help: 'a saved address and key (yard context list)' },
  tenant: { value: 'TENANT', help: 'refuse to go on when the key belongs to another tenant' },
  timeout: { value: 'SECONDS', type: 'number', help: 'longest wait; a run that is waited for goes on' },
  'no-input': { help: 'never ask anything' },
  yes: { short: 'y', help: 'answer yes to every question' },
  'dry-run': { help: 'say what would be sent or removed, and change nothing' },
  quiet: { short: 'q', help: 'no progress, hints or counts' },
  verbose: { short: 'v', help: 'requests and details of errors on stderr' },
  curl: { help: 'print the curl command that does the same, and send nothing' },
  'no-color': { help: 'no colours (also NO_COLOR, or when not a terminal)' },
  help: { short: 'h', help: 'help' },
};
