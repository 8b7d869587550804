/** One edit as a model asks for it. */
export interface EditRequest {
  /** The text to replace, as the model remembers it. */
  oldString: string;
  newString: string;
  /** Replace every place; only exact and whitespace matches are ever replaced several times. */
  replaceAll?: boolean;
  /** One-based line where the model believes the old text starts. */
  lineHint?: number;
}

/** Settings of one edit. */
export interface EditOptions {
  /** Path of the file: names it in the diff, and its ending chooses the grammar. */
  path?: string;
  /** Least confidence that writes; 0.80 when absent, and nobody gets below 0.70. */
  minConfidence?: number;
  /** Vectors for ranking candidates (pass 7), which never writes; undefined: nobody has any. */
  embed?: (texts: string[]) => Promise<number[][] | undefined>;
  /** Token comparison by syntax tree (pass 8) and counting of syntax errors. */
  ast?: SyntaxEngine;
  /** Refuse an edit of pass 3 or higher after which the file has more syntax errors than before; needs `ast`. */
  syntaxGate?: boolean;
  /** Time after which the guessing passes stop, in milliseconds; 2 000 when absent. */
  budgetMs?: number;
  /** The diff ends behind the hunk with which it has more UTF-16 units than this; whole when absent. */
  diffUnits?: number;
  /** Ends the work early with the signal's reason. */
  signal?: AbortSignal;
}

/** A place with the same tokens as the old text, comments and layout aside. Offsets are UTF-16 units of the file. */
export interface SyntaxPlace {
  start: number;
  end: number;
  /** For each token of the old text: offsets in the old text and in the file. */
  tokens: { oldStart: number; oldEnd: number; fileStart: number; fileEnd: number }[];
  /** Where comments begin, in the old text and in the lines of the place. */
  oldComments: number[];
  fileComments: number[];
}

/** Reads files as syntax trees. `undefined` means that there is no grammar for this path. */
export interface SyntaxEngine {
  /** All places whose tokens equal those of `fragment` and that form whole nodes. */
  find(path: string, content: string, fragment: string): Promise<SyntaxPlace[] | undefined>;
  /** Number of error and missing nodes. */
  errors(path: string, content: string): Promise<number | undefined>;
}

export const PASS_NAMES = {
  1: 'exact',
  2: 'whitespace',
  3: 'anchors',
  4: 'line hint',
  5: 'levenshtein',
  6: 'token overlap',
  7: 'embedding',
  8: 'syntax',
  9: 'best guess',
} as const;

export type Pass = keyof typeof PASS_NAMES;

/** A pass that could not run, and why. */
export interface SkippedPass {
  pass: Pass;
  name: string;
  reason: string;
}

/** A place in the file; lines are one-based. */
export interface Candidate {
  startLine: number;
  endLine: number;
  /** The lines as they stand in the file, cut after 60 lines or 4 kB. */
  text: string;
  confidence: number;
  pass: Pass;
  passName: string;
}

/** One replacement: offsets in UTF-16 units of the content (a leading BOM counts). */
export interface Splice {
  start: number;
  end: number;
  text: string;
}

interface Outcome {
  message: string;
  skipped: SkippedPass[];
}

/** Where an edit goes and what it writes there. */
export interface FoundEdit extends Outcome {
  status: 'found';
  pass: Pass;
  passName: string;
  confidence: number;
  splices: Splice[];
  /** From the first changed unit to behind the last one. */
  span: { start: number; end: number };
  startLine: number;
  endLine: number;
  count: number;
  reindented: boolean;
  /** What was undone in the request to match: `unicode`, `listing prefixes`, `fence`, `escapes`, `entities`, ... */
  normalisations: string[];
}

/** Why nothing is written, and what helps. */
export interface RefusedEdit extends Outcome {
  status: 'already_applied' | 'no_change' | 'not_found' | 'ambiguous' | 'below_confidence' | 'invalid_input';
  /** One-based first lines of all places that fit. */
  lines: number[];
  /** Best first. */
  candidates: Candidate[];
}

export interface AppliedEdit extends Omit<FoundEdit, 'status'> {
  status: 'applied';
  content: string;
  /** Unified diff with full indentation. */
  diff: string;
}

export type FindResult = FoundEdit | RefusedEdit;
export type EditResult = AppliedEdit | RefusedEdit;
