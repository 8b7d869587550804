import type { AppliedEdit, EditRequest, RefusedEdit } from '@yardmaster/text-edit';
import type { Decoded } from './decode.js';
import type { Listing } from './listing.js';

/** What a thread is given for each kind of work on content, and what it hands back. Bytes are moved, not copied. */
export interface Tasks {
  /** SHA-256, hex. The bytes come back. */
  hash: { give: { bytes: Uint8Array }; back: { bytes: Uint8Array; hash: string } };
  /** A text as it is written to a file. */
  encode: { give: { text: string }; back: { bytes: Uint8Array; hash: string } };
  /** The numbered lines of a file from `offset` (counted from 1), at most `limit`. */
  list: { give: { bytes: Uint8Array; offset: number; limit: number }; back: Listed };
  describe: { give: { bytes: Uint8Array }; back: { hash: string; encoding: string } };
  edit: { give: EditTask; back: EditOutcome };
  /** Lines of each file that match; files that hold NUL bytes have none. */
  match: { give: { files: Uint8Array[] } & Pattern & { wanted: number }; back: { hits: LineHit[][] } };
  /** What ripgrep printed about so many files that it knows by the numbers of their descriptors, from `firstFd`. */
  collect: { give: { stdout: Uint8Array; firstFd: number; files: number } & Pattern; back: { hits: LineHit[][] } };
}

export interface Pattern {
  pattern: string;
  regex: boolean;
}

/** A line that matches; `line` counts from 1, `text` is cut. */
export interface LineHit {
  line: number;
  text: string;
}

export type Listed =
  | { kind: 'binary'; hash: string }
  | (Omit<Extract<Decoded, { kind: 'text' }>, 'text'> & {
      hash: string;
      listing: Listing;
      eol: 'lf' | 'crlf' | 'mixed' | 'none';
      finalNewline: boolean;
    });

/** Edits of one file, made one after the other. */
export interface EditTask {
  /** Undefined: there is no file yet. */
  bytes: Uint8Array | undefined;
  /** As it is shown: names the file in texts, and its ending chooses the grammar. */
  path: string;
  edits: EditRequest[];
  minConfidence: number | undefined;
  syntaxGate: boolean;
  /** Largest file in bytes, before and after. */
  maxBytes: number;
  maxDiffUnits: number;
}

/** An edit that was made, without the texts. */
export type MadeEdit = Omit<AppliedEdit, 'content' | 'diff' | 'splices'>;

/** `bytes` are those that were given. */
export type EditOutcome = { bytes: Uint8Array | undefined } & (
  | {
      kind: 'applied';
      after: Uint8Array;
      hash: string;
      diff: string;
      applied: { index: number; result: MadeEdit }[];
      /** Edits whose result was in the file before. */
      done: number[];
    }
  | { kind: 'refused'; index: number; result: RefusedEdit }
  | { kind: 'done' }
);

/** What a thread is sent: a task, or the answer to what it asked while it worked on one. */
export type ToThread =
  | { id: number; name: keyof Tasks; give: unknown; mayEmbed: boolean }
  | { id: number; vectors: number[][] | undefined }
  | { id: number; failed: string };

/** What a thread sends: its result, a refusal, a failure, or texts to be embedded. */
export type FromThread =
  | { id: number; back: unknown }
  | { id: number; refused: { reason: ContentReason; message: string; details: Record<string, unknown> } }
  | { id: number; failed: string }
  | { id: number; embed: string[] };

export type ContentReason = 'invalid_input' | 'too_large' | 'binary' | 'not_utf8';

/** A refusal inside a thread, where no error of ours is known: it is put into words that cross to the main thread. */
export class ContentRefusal extends Error {
  readonly reason: ContentReason;
  readonly details: Record<string, unknown>;

  constructor(reason: ContentReason, message: string, details: Record<string, unknown> = {}) {
    super(message);
    this.reason = reason;
    this.details = details;
  }
}
