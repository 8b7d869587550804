/** What one case came to. `skipped` holds the reason, which must be one that the case's own `needs` or an optional pack allows. */
export interface Verdict {
  id: string;
  ok: boolean;
  expected?: unknown;
  got?: unknown;
  why?: string;
  skipped?: string;
}

/** Runs all cases of one file (already parsed); `file` is its path, for suites with companion data. */
export type Suite = (content: unknown, file: string) => AsyncIterable<Verdict> | Iterable<Verdict>;
