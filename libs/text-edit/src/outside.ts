import { diffOfSplices } from './diff.js';
import { candidateOf, shown } from './describe.js';
import type { Prepared } from './prepare.js';
import { refuse } from './prepare.js';
import { alreadyApplied, explain, floor, found, sentence } from './search.js';
import { repeats } from './applied.js';
import { composeSyntax } from './syntax-place.js';
import { TextView } from './text-view.js';
import {
  PASS_NAMES,
  type AppliedEdit,
  type EditOptions,
  type EditRequest,
  type FindResult,
  type FoundEdit,
  type Pass,
  type RefusedEdit,
  type Splice,
  type SyntaxPlace,
} from './types.js';

type Skip = (pass: Pass, reason: string) => void;

const MAX_SYNTAX_LINES = 20_000;
const SYNTAX_CONFIDENCE = 0.9;

/** Pass 8: the place whose tokens are those of the old text. Keeps `before` when there is none. */
export async function bySyntax(
  content: string,
  request: EditRequest,
  prepared: Prepared,
  before: RefusedEdit,
  options: EditOptions,
  skip: Skip,
): Promise<FindResult> {
  const places = await places8(content, prepared.oldText, options, skip);
  if (!places || places.length === 0) return before;
  const view = new TextView(content);
  const lines = places.map((place) => view.lineAt(place.start) + 1);
  const place = places.length === 1 ? places[0]! : nearest(places, lines, request.lineHint);
  if (!place) {
    const candidates = places
      .slice(0, 5)
      .map((one) => candidateOf(view, view.lineAt(one.start), view.lineAt(one.end - 1), 0.79, 8));
    return refuse(
      'ambiguous',
      `${places.length} places have the same tokens as old_string: lines ${lines.join(', ')}. Nothing was changed. Send the exact text of the one you mean, or line_hint.`,
      { lines, candidates },
    );
  }
  const composed = composeSyntax(view, place, prepared.oldText, prepared.newText);
  if (typeof composed === 'string') {
    const candidate = candidateOf(view, view.lineAt(place.start), view.lineAt(place.end - 1), 0.79, 8);
    return refuse('below_confidence', explain(sentence(composed), candidate), {
      lines: [candidate.startLine],
      candidates: [candidate],
    });
  }
  if (repeats(view, composed.splice)) return alreadyApplied([view.lineAt(place.start) + 1]);
  const confidence = SYNTAX_CONFIDENCE - (composed.contradictory ? 0.1 : 0);
  return floor(
    view,
    found(view, [composed.splice], 8, confidence, composed.reindented, ['layout']),
    options.minConfidence ?? 0.8,
  );
}

async function places8(
  content: string,
  oldText: string,
  options: EditOptions,
  skip: Skip,
): Promise<SyntaxPlace[] | undefined> {
  if (!options.ast) {
    skip(8, 'no grammars loaded');
    return undefined;
  }
  if (lineCount(content) > MAX_SYNTAX_LINES) {
    skip(8, `the file has more than ${MAX_SYNTAX_LINES} lines`);
    return undefined;
  }
  try {
    const places = await options.ast.find(options.path ?? '', content, oldText);
    if (!places)
      skip(
        8,
        `no grammar for ${options.path === undefined ? 'a file without path' : options.path.replace(/^.*[/\\]/, '')}`,
      );
    return places;
  } catch (error) {
    skip(8, `the syntax engine failed: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function nearest(
  places: readonly SyntaxPlace[],
  lines: readonly number[],
  hint: number | undefined,
): SyntaxPlace | undefined {
  if (hint === undefined) return undefined;
  const order = places.map((place, i) => ({ place, away: Math.abs(lines[i]! - hint) })).sort((a, b) => a.away - b.away);
  // They differ in comments or layout, so the hint must name one and no other be near it.
  return order[0]!.away <= 5 && order[1]!.away >= 30 ? order[0]!.place : undefined;
}

/** Pass 7: puts the candidates in the order of their meaning. It never writes: vectors cannot tell `loadUser` from `deleteUser`. */
export async function byMeaning(
  prepared: Prepared,
  refused: RefusedEdit,
  options: EditOptions,
  skip: Skip,
): Promise<RefusedEdit> {
  if (!options.embed) {
    skip(7, 'no embedding endpoint');
    return refused;
  }
  if (refused.candidates.length === 0) {
    skip(7, 'no candidates to rank');
    return refused;
  }
  try {
    const vectors = await options.embed([prepared.oldText, ...refused.candidates.map((candidate) => candidate.text)]);
    if (vectors === undefined) {
      skip(7, 'no embedding endpoint');
      return refused;
    }
    if (vectors.length !== refused.candidates.length + 1)
      throw new Error(`${vectors.length} vectors for ${refused.candidates.length + 1} texts`);
    const ranked = refused.candidates
      .map((candidate, i) => ({ candidate, likeness: cosine(vectors[0]!, vectors[i + 1]!) }))
      .sort((a, b) => b.likeness - a.likeness)
      .map(({ candidate, likeness }) => ({
        ...candidate,
        pass: 7 as const,
        passName: PASS_NAMES[7],
        confidence: Math.round(Math.max(0, Math.min(0.6, likeness * 0.6)) * 1000) / 1000,
      }));
    const first = ranked[0]!;
    // The words name the place that resembles the text most; a model reads those, and perhaps nothing else.
    const isNamed = refused.status === 'below_confidence' && first.startLine === refused.candidates[0]!.startLine;
    const named = `\nBy meaning, lines ${first.startLine} to ${first.endLine} are nearest:\n${shown(first)}`;
    return { ...refused, message: refused.message + (isNamed ? '' : named), candidates: ranked };
  } catch (error) {
    options.signal?.throwIfAborted();
    skip(7, `the embedding endpoint failed: ${error instanceof Error ? error.message : String(error)}`);
    return refused;
  }
}

function cosine(a: readonly number[], b: readonly number[]): number {
  let dot = 0;
  let left = 0;
  let right = 0;
  for (let i = 0; i < a.length; i++) {
    const x = a[i]!;
    const y = b[i] ?? 0;
    dot += x * y;
    left += x * x;
    right += y * y;
  }
  return left === 0 || right === 0 ? 0 : dot / Math.sqrt(left * right);
}

/** Refuses an approximate edit after which the file has more syntax errors than before. */
export async function gate(
  content: string,
  edit: FoundEdit,
  path: string,
  options: EditOptions,
  skip: Skip,
): Promise<FindResult> {
  if (!options.ast) {
    skip(8, 'syntax gate: no grammars loaded');
    return edit;
  }
  try {
    const before = await options.ast.errors(path, content);
    const after = before === undefined ? undefined : await options.ast.errors(path, spliced(content, edit.splices));
    if (before === undefined || after === undefined) {
      skip(8, `syntax gate: no grammar for ${path.replace(/^.*[/\\]/, '')}`);
      return edit;
    }
    if (after <= before) return edit;
    const view = new TextView(content);
    const candidate = candidateOf(
      view,
      edit.startLine - 1,
      edit.endLine - 1,
      Math.min(edit.confidence, 0.79),
      edit.pass,
    );
    return refuse(
      'below_confidence',
      explain(`The edit would leave the file with ${after} syntax errors instead of ${before}.`, candidate),
      { lines: [edit.startLine], candidates: [candidate] },
    );
  } catch (error) {
    skip(8, `syntax gate: the syntax engine failed: ${error instanceof Error ? error.message : String(error)}`);
    return edit;
  }
}

function lineCount(content: string): number {
  let count = 1;
  for (let at = content.indexOf('\n'); at >= 0; at = content.indexOf('\n', at + 1)) count++;
  return count;
}

/** The content after an edit, with its diff, of which at most about `diffUnits` are written out. */
export function written(content: string, edit: FoundEdit, path: string, diffUnits?: number): AppliedEdit {
  const after = spliced(content, edit.splices);
  const diff = diffOfSplices(content, after, edit.splices, path, diffUnits);
  return { ...edit, status: 'applied', content: after, diff };
}

function spliced(content: string, splices: readonly Splice[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end, text } of splices) {
    parts.push(content.slice(from, start), text);
    from = end;
  }
  parts.push(content.slice(from));
  return parts.join('');
}
