import type { Alignment } from './alignment.js';
import { insertionIsThere, placesOf, repeats } from './applied.js';
import { decide } from './approximate.js';
import { findMatches, oldLines, type Clock } from './candidates.js';
import { compose } from './compose.js';
import { candidateOf, candidateOfMatch, namedLines, shown } from './describe.js';
import { elidedSplices, elides } from './elision.js';
import { unwrapped } from './envelope.js';
import { exactSplice, occurrences } from './exact.js';
import { collapseBlanks, foldedKey } from './fold.js';
import { linesOf } from './lines.js';
import { prepare, refuse, withoutCommonEdges, type Prepared } from './prepare.js';
import type { TextView } from './text-view.js';
import {
  PASS_NAMES,
  type Candidate,
  type EditRequest,
  type FindResult,
  type FoundEdit,
  type Pass,
  type RefusedEdit,
  type Splice,
} from './types.js';
import { fragmentPlaces, fragmentSplice, wholeLinePlaces } from './whitespace.js';

/** What the passes that need no one else came to; `open` when the passes by syntax and meaning may still add to it. */
export interface Search {
  result: FindResult;
  open: boolean;
  prepared?: Prepared;
}

interface Place {
  line: number;
  end: number;
  splice: () => { splice: Splice; reindented: boolean; contradictory: boolean } | string;
}

interface Form {
  exactOld: string;
  exactNew: string;
  oldText: string;
  newText: string;
  normalisation?: string;
  hint?: number;
}

const HINT_LIMIT = 200;
/** Nobody gets below this, whatever is asked for. */
const CONFIDENCE_FLOOR = 0.7;

/** Passes 1 to 6 and 9 over one text. */
export function search(view: TextView, request: EditRequest, minConfidence: number, expired: Clock): Search {
  const prepared = prepare(request);
  if ('status' in prepared) return { result: prepared, open: false };
  const hint = request.lineHint === undefined ? undefined : request.lineHint - 1;
  const envelopes: Form[] = unwrapped(prepared.exactOld, prepared.exactNew).map((form) => ({
    exactOld: form.oldText,
    exactNew: form.newText,
    ...withoutCommonEdges(form.oldText, form.newText),
    normalisation: form.name,
    ...(form.line === undefined ? {} : { hint: form.line - 1 }),
  }));
  for (const form of [{ ...prepared, ...(hint === undefined ? {} : { hint }) }, ...envelopes] as Form[]) {
    for (const stage of stages(view, form)) {
      const places = stage.places();
      if (places.length === 0) continue;
      const normalisations = [
        ...(form.normalisation === undefined ? [] : [form.normalisation]),
        ...stage.normalisations,
      ];
      const pass: Pass = stage.exact && form.normalisation === undefined ? 1 : 2;
      const result = choose(
        view,
        request,
        form,
        places,
        pass,
        stage.confidence - (form.normalisation === undefined ? 0 : 0.04),
        normalisations,
        hint ?? form.hint,
      );
      return { result: floor(view, result, minConfidence), open: false, prepared };
    }
  }
  const there = insertionIsThere(view, prepared.oldText, prepared.newText);
  if (there.length > 0) return { result: alreadyApplied(there), open: false, prepared };
  if (request.replaceAll === true) return { result: notFoundForAll(view, prepared, expired), open: false, prepared };
  const structural = envelopes.find((form) => form.normalisation !== 'escapes' && form.normalisation !== 'entities');
  const forms: Form[] = structural ? [structural] : [{ ...prepared }, ...envelopes];
  let refused: Search | undefined;
  const likeness = ({ result }: Search) => (result.status === 'found' ? 1 : (result.candidates[0]?.confidence ?? 0));
  let best: { search: Search; confidence: number } | undefined;
  for (const form of forms) {
    const one = approximate(view, form, hint ?? form.hint, minConfidence, expired);
    if (one.result.status === 'already_applied') return { ...one, prepared };
    // A form without the envelope is nearer to the file when it is the right one.
    if (one.result.status === 'found' && (!best || one.result.confidence > best.confidence))
      best = { search: one, confidence: one.result.confidence };
    if (!refused || likeness(one) > likeness(refused)) refused = one;
  }
  if (best) return { ...best.search, prepared };
  return {
    ...refused!,
    prepared: structural ? { ...prepared, oldText: structural.oldText, newText: structural.newText } : prepared,
  };
}

/** The ways in which a text can stand in a file and be the same text; each is asked only when the one before found nothing. */
function stages(
  view: TextView,
  form: Form,
): { exact: boolean; confidence: number; normalisations: string[]; places: () => Place[] }[] {
  const aligned = (alignments: Alignment[]): Place[] =>
    alignments.map((alignment) => ({
      line: alignment.first,
      end: view.starts[alignment.last + 1]!,
      splice: () => compose(view, alignment, form.oldText, form.newText),
    }));
  return [
    {
      exact: true,
      confidence: 1,
      normalisations: [],
      places: () => exactPlaces(view, form),
    },
    {
      exact: false,
      confidence: 0.98,
      normalisations: ['blanks'],
      places: () => aligned(wholeLinePlaces(view, view.raw(), form.oldText, collapseBlanks)),
    },
    {
      exact: false,
      confidence: 0.96,
      normalisations: ['unicode'],
      places: () => aligned(wholeLinePlaces(view, view.folded(), form.oldText, foldedKey)),
    },
    {
      exact: false,
      confidence: 0.96,
      normalisations: ['part of a line'],
      places: () =>
        fragmentPlaces(view, form.oldText).map((place) => ({
          line: place.line,
          end: place.end,
          splice: () => {
            const splice = fragmentSplice(view, place, form.oldText, form.newText);
            return splice
              ? { splice, reindented: false, contradictory: false }
              : 'old_string begins or ends inside a line, and new_string does not fit there';
          },
        })),
    },
  ];
}

function exactPlaces(view: TextView, form: Form): Place[] {
  const found = occurrences(view.lf, form.exactOld);
  // Indented text inside a deeper indentation is the line with other blanks, and is to be re-indented as such. So is a
  // whole line without its indentation that is deleted with its line end: the blanks left over would indent the next line.
  const deletes = form.exactOld.endsWith('\n') && !form.exactNew.endsWith('\n');
  const inside = (at: number) => {
    if (at === 0 || !/[ \t]/.test(view.lf[at - 1]!)) return false;
    if (/^[ \t]/.test(form.exactOld)) return true;
    return deletes && view.lf.slice(view.lf.lastIndexOf('\n', at - 1) + 1, at).trim() === '';
  };
  if (
    found.length > 0 &&
    found.every(inside) &&
    wholeLinePlaces(view, view.raw(), form.oldText, collapseBlanks).length > 0
  )
    return [];
  return found.map((at) => {
    const splice = exactSplice(view, at, form.exactOld, form.exactNew);
    return {
      line: view.lineOfLf(at),
      end: splice.end,
      splice: () => ({ splice, reindented: false, contradictory: false }),
    };
  });
}

function choose(
  view: TextView,
  request: EditRequest,
  form: Form,
  places: Place[],
  pass: Pass,
  confidence: number,
  normalisations: string[],
  hint: number | undefined,
): FindResult {
  let chosen = places;
  // A listing's numbers name the line: the only exact place elsewhere, while the same lines stand there with other
  // blanks, is not certain.
  if (places.length === 1 && form.hint !== undefined && request.lineHint === undefined && request.replaceAll !== true) {
    const numbered = form.hint;
    const loose = wholeLinePlaces(view, view.folded(), form.oldText, foldedKey);
    const away = Math.abs(places[0]!.line - numbered);
    if (loose.some((place) => Math.abs(place.first - numbered) < away)) return ambiguous(view, places, pass, numbered);
  }
  let reported = pass;
  if (places.length > 1 && request.replaceAll !== true) {
    const nearest = nearestTo(places, hint);
    if (!nearest || hint === undefined) return ambiguous(view, places, pass, hint);
    // The same lines with other blanks may stand nearer still: then the hint and the text contradict each other.
    const loose = wholeLinePlaces(view, view.folded(), form.oldText, foldedKey);
    if (loose.some((place) => Math.abs(place.first - hint) < Math.abs(nearest.line - hint)))
      return ambiguous(view, places, pass, hint);
    chosen = [nearest];
    reported = 4;
  }
  // An edit that was made before may leave another place that fits exactly; the hint tells that it is not the one meant.
  if (request.replaceAll !== true && hint !== undefined) {
    const distance = Math.abs(chosen[0]!.line - hint);
    const made = placesOf(view, form.exactNew).filter((line) => Math.abs(line - 1 - hint) < distance);
    if (made.length > 0 && Math.abs(made[0]! - 1 - hint) <= 3) return alreadyApplied(made);
  }
  const splices: Splice[] = [];
  const lines: number[] = [];
  let reindented = false;
  let contradictory = false;
  let repeated = 0;
  let behind = 0;
  for (const place of chosen) {
    const composed = place.splice();
    if (typeof composed === 'string')
      return refuse('below_confidence', `${sentence(composed)} ${ADVICE}`, {
        lines: [place.line + 1],
        candidates: [shownPlace(view, place, pass, confidence)],
      });
    if (composed.splice.start < behind) continue;
    behind = composed.splice.end;
    if (repeats(view, composed.splice)) repeated++;
    splices.push(composed.splice);
    lines.push(place.line + 1);
    reindented ||= composed.reindented;
    contradictory ||= composed.contradictory;
  }
  if (repeated === splices.length) return alreadyApplied(lines);
  return found(view, splices, reported, confidence - (contradictory ? 0.1 : 0), reindented, normalisations);
}

function nearestTo(places: readonly Place[], hint: number | undefined): Place | undefined {
  if (hint === undefined) return undefined;
  const away = (place: Place) => Math.abs(place.line - hint);
  const sorted = [...places].sort((a, b) => away(a) - away(b));
  const [nearest, second] = sorted;
  if (!nearest || away(nearest) > HINT_LIMIT || (second && away(second) === away(nearest))) return undefined;
  return nearest;
}

function approximate(
  view: TextView,
  form: Form,
  hint: number | undefined,
  minConfidence: number,
  expired: Clock,
): Search {
  if (elides(form.oldText)) {
    const elided = elidedSplices(view, form.oldText, form.newText);
    if (typeof elided === 'string')
      return {
        result: refuse('below_confidence', `${sentence(elided)} ${ADVICE}`, guesses(view, form, expired)),
        open: false,
      };
    return {
      result: floor(view, found(view, elided.splices, 3, 0.9, elided.reindented, ['elision']), minConfidence),
      open: false,
    };
  }
  const old = oldLines(form.oldText, form.newText);
  const matches = findMatches(view, old, expired);
  const decided = decide(view, old, matches, hint);
  if ('alignment' in decided) {
    const composed = compose(view, decided.alignment, form.oldText, form.newText);
    if (typeof composed === 'string') {
      const candidate = candidateOf(
        view,
        decided.alignment.first,
        decided.alignment.last,
        Math.min(decided.confidence, 0.79),
        decided.pass,
      );
      return {
        result: refuse('below_confidence', explain(sentence(composed), candidate), {
          lines: [candidate.startLine],
          candidates: [candidate],
        }),
        open: true,
      };
    }
    if (repeats(view, composed.splice)) return { result: alreadyApplied([decided.alignment.first + 1]), open: false };
    const confidence = decided.confidence - (composed.contradictory ? 0.1 : 0);
    const normalisations = form.normalisation === undefined ? [] : [form.normalisation];
    return {
      result: floor(
        view,
        found(view, [composed.splice], decided.pass, confidence, composed.reindented, normalisations),
        minConfidence,
      ),
      open: true,
    };
  }
  const best = matches.list[0];
  const made = placesOf(view, form.newText);
  if (made.length === 1 && isMade(form, best === undefined ? undefined : candidateOfMatch(view, best), made[0]!))
    return { result: alreadyApplied(made), open: false };
  if (decided.rivals.length > 1) {
    const candidates = decided.rivals.slice(0, 5).map((match) => candidateOfMatch(view, match));
    const lines = decided.rivals.map((match) => view.folded().numbers[match.pairs[0]!.at]! + 1).sort((a, b) => a - b);
    return {
      result: refuse(
        'ambiguous',
        `old_string is not in the file as it is, and ${decided.rivals.length} places resemble it about equally: ${namedLines(lines)}. Nothing was changed. Send the exact text of the one you mean with a line that only it has, or line_hint.`,
        { lines, candidates },
      ),
      open: true,
    };
  }
  if (!best)
    return {
      result: refuse(
        'not_found',
        'Nothing in the file resembles old_string. Nothing was changed. Read the file again: it may be another file, or the text was changed or removed.',
      ),
      open: true,
    };
  const candidate = candidateOfMatch(view, best);
  return {
    result: refuse('below_confidence', explain(sentence(decided.reason), candidate), {
      lines: [candidate.startLine],
      candidates: matches.list.slice(0, 3).map((match) => candidateOfMatch(view, match)),
    }),
    open: true,
  };
}

/** Old text is nowhere, new text stands once, says enough, and nothing elsewhere resembles the old text more. */
function isMade(form: Form, best: Candidate | undefined, line: number): boolean {
  const old = new Set(form.oldText.split('\n').map(foldedKey));
  const added = form.newText
    .split('\n')
    .map(foldedKey)
    .filter((key) => key !== '' && !old.has(key));
  // Where what resembles the old text is the new text, little is enough to tell.
  if (added.join('').length < (best === undefined ? 8 : 4)) return false;
  const height = linesOf(form.newText).length;
  return best === undefined || (best.startLine < line + height && best.endLine >= line);
}

function guesses(view: TextView, form: Form, expired: Clock): Pick<RefusedEdit, 'lines' | 'candidates'> {
  const matches = findMatches(view, oldLines(form.oldText, form.newText), expired);
  const candidates = matches.list.slice(0, 3).map((match) => candidateOfMatch(view, match));
  return { lines: candidates.map((candidate) => candidate.startLine), candidates };
}

function notFoundForAll(view: TextView, prepared: Prepared, expired: Clock): RefusedEdit {
  const near = guesses(view, { ...prepared }, expired);
  const where = near.lines.length > 0 ? ` It resembles ${namedLines(near.lines)}.` : '';
  return refuse(
    'not_found',
    `old_string is not in the file, and replace_all replaces only text that is there.${where} Nothing was changed. Read the file and send its exact text.`,
    near,
  );
}

function ambiguous(view: TextView, places: readonly Place[], pass: Pass, hint: number | undefined): RefusedEdit {
  const lines = places.map((place) => place.line + 1);
  const hinted = hint === undefined ? 'line_hint with its line' : 'a line_hint that is nearer to one of them';
  return refuse(
    'ambiguous',
    `old_string stands in ${places.length} places: ${namedLines(lines)}. Nothing was changed. Send more lines around the one you mean, or ${hinted}, or replace_all to change all of them.`,
    {
      lines,
      candidates: places.slice(0, 5).map((place) => shownPlace(view, place, pass, 0.79)),
    },
  );
}

function shownPlace(view: TextView, place: Place, pass: Pass, confidence: number): Candidate {
  return candidateOf(view, place.line, Math.max(place.line, view.lineAt(Math.max(place.end - 1, 0))), confidence, pass);
}

export function alreadyApplied(lines: number[]): RefusedEdit {
  return refuse(
    'already_applied',
    `The file already holds new_string at ${namedLines(lines)}: the edit was made before. Nothing was changed.`,
    { lines },
  );
}

/** A found edit from its splices, which are in order and do not overlap. */
export function found(
  view: TextView,
  splices: Splice[],
  pass: Pass,
  confidence: number,
  reindented: boolean,
  normalisations: string[],
): FoundEdit {
  const span = { start: splices[0]!.start, end: splices.at(-1)!.end };
  return {
    status: 'found',
    pass,
    passName: PASS_NAMES[pass],
    confidence: Math.round(confidence * 1000) / 1000,
    splices,
    span,
    startLine: view.lineAt(span.start) + 1,
    endLine: view.lineAt(Math.max(span.start, span.end - 1)) + 1,
    count: splices.length,
    reindented,
    normalisations,
    message: '',
    skipped: [],
  };
}

/** A found edit, unless it is less certain than asked for. */
export function floor(view: TextView, result: FindResult, minConfidence: number): FindResult {
  if (result.status !== 'found') return result;
  const least = Math.max(CONFIDENCE_FLOOR, minConfidence);
  if (result.confidence >= least) return { ...result, message: message(result) };
  const candidate = candidateOf(view, result.startLine - 1, result.endLine - 1, result.confidence, result.pass);
  return refuse(
    'below_confidence',
    explain(`The best place has a confidence of ${result.confidence}, less than the ${least} asked for.`, candidate),
    { lines: [result.startLine], candidates: [candidate] },
  );
}

function message(result: FoundEdit): string {
  const places = result.count === 1 ? '1 replacement' : `${result.count} replacements`;
  const how = result.pass === 1 ? 'exact match' : `matched by ${result.passName}, confidence ${result.confidence}`;
  return `${places} at ${result.startLine === result.endLine ? `line ${result.startLine}` : `lines ${result.startLine} to ${result.endLine}`} (${how}).`;
}

const ADVICE = 'Nothing was changed. Read the file and send its exact text as old_string.';

/** A refusal's message with the nearest lines, ready to be sent back. */
export function explain(reason: string, candidate: Candidate): string {
  return `old_string is not in the file as it is. ${reason} Nothing was changed. The nearest lines are ${candidate.startLine} to ${candidate.endLine}; if they are meant, send their exact text as old_string:\n${shown(candidate)}`;
}

export function sentence(reason: string): string {
  return `${reason[0]!.toUpperCase()}${reason.slice(1)}.`;
}
