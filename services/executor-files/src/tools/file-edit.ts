import type { Tool, ToolContext, ToolOutcome } from '@yardmaster/executor-kit';
import { type AppliedEdit, type EditRequest, type RefusedEdit, unifiedDiff } from '@yardmaster/text-edit';
import { refusal, shown } from '../refusal.js';
import type { FileServices } from '../services.js';
import { expect, type HeldFile, holdFile, once, putContent } from '../storage/change.js';
import { sha256 } from '../storage/read-file.js';
import { decodeUtf8 } from '../text/decode.js';
import { fileTool } from './definition.js';

interface OneEdit {
  old_string: string;
  new_string: string;
  replace_all?: boolean;
  line_hint?: number;
}

interface EditSettings {
  path: string;
  expected_sha256?: string;
  min_confidence?: number;
  dry_run?: boolean;
}

const MAX_DIFF_UNITS = 60_000;
const DEFAULT_CONFIDENCE = 0.8;

/** `file_edit`: one replacement, by the passes of the matcher. */
export const fileEdit = (services: FileServices): Tool =>
  fileTool<OneEdit & EditSettings>('file_edit', (args, context) =>
    once(services, context, () => edit(services, context, args, [args])),
  );

/** `file_multi_edit`: the edits one after the other on one copy, written when all of them fit. */
export const fileMultiEdit = (services: FileServices): Tool =>
  fileTool<EditSettings & { edits: OneEdit[] }>('file_multi_edit', (args, context) =>
    once(services, context, () => edit(services, context, args, args.edits)),
  );

function edit(
  services: FileServices,
  context: ToolContext,
  settings: EditSettings,
  edits: readonly OneEdit[],
): Promise<ToolOutcome> {
  const { path, expected_sha256: expected } = settings;
  const maxBytes = services.limits.editBytes;
  // Only blank old text asks for a new file: any other must not leave folders behind when it is refused.
  const create = expected === undefined && settings.dry_run !== true && isBlank(edits[0]!.old_string);
  return holdFile(services, context, path, { create, maxBytes }, async (file) => {
    expect(file, expected);
    const before = file.content === undefined ? null : textOf(file, maxBytes);
    const outcome = await applyAll(services, context, settings, edits, before);
    if (!('content' in outcome)) return outcome;
    const { content, applied } = outcome;
    const bytes = Buffer.from(content);
    const hash = sha256(bytes);
    if (bytes.length > maxBytes)
      throw refusal(
        'too_large',
        `The file would have ${bytes.length} bytes; ${maxBytes} is the limit. Nothing was written.`,
        {
          bytes: bytes.length,
          limit: maxBytes,
        },
      );
    const diff = edits.length === 1 ? applied[0]!.result.diff : unifiedDiff(before ?? '', content, shown(path));
    const dry = settings.dry_run === true;
    const told: ToolOutcome = {
      output: [
        ...(dry ? ['Nothing was written (dry run). The edit would be:'] : []),
        ...(before === null ? [`Created ${shown(path)} (${bytes.length} bytes).`] : []),
        ...applied
          .filter(({ index }) => before !== null || index > 0)
          .map(({ index, result }) => summary(path, result, edits.length > 1 ? index + 1 : undefined)),
        ...(outcome.done.length > 0
          ? [`Already there before: edits ${outcome.done.map((index) => index + 1).join(', ')}.`]
          : []),
        diff.length > MAX_DIFF_UNITS ? `${diff.slice(0, MAX_DIFF_UNITS)}\n(the rest of the diff is left out)` : diff,
      ].join('\n'),
      verdict: {
        status: dry ? 'dry_run' : before === null ? 'created' : 'applied',
        sha256_before: file.content?.hash ?? null,
        sha256: hash,
        ...(edits.length === 1
          ? account(applied[0]!.result)
          : { edits: applied.map(({ index, result }) => ({ edit: index + 1, ...account(result) })) }),
      },
    };
    return dry ? told : putContent(services, context, file, { bytes, hash }, told);
  });
}

interface Applied {
  content: string;
  applied: { index: number; result: AppliedEdit }[];
  /** Edits whose result was in the file before. */
  done: number[];
}

async function applyAll(
  services: FileServices,
  context: ToolContext,
  { path, min_confidence: minConfidence }: EditSettings,
  edits: readonly OneEdit[],
  before: string | null,
): Promise<Applied | ToolOutcome> {
  let content = before;
  const applied: Applied['applied'] = [];
  const done: number[] = [];
  for (const [index, one] of edits.entries()) {
    const result = await services.engine.apply(content, requestOf(one, content === null), {
      path: shown(path),
      signal: context.signal,
      syntaxGate: services.syntaxGate,
      // A call may ask for more, never for less.
      ...(minConfidence === undefined ? {} : { minConfidence: Math.max(DEFAULT_CONFIDENCE, minConfidence) }),
      ...(services.embed === undefined ? {} : { embed: services.embed }),
    });
    if (result.status === 'applied') {
      content = result.content;
      applied.push({ index, result });
    } else if (result.status === 'already_applied' && edits.length > 1) done.push(index);
    else return refused(path, result, edits.length > 1 ? index + 1 : undefined, edits.length);
  }
  if (content === null || applied.length === 0)
    return {
      output: `${shown(path)} has all of these edits already. Nothing was written.`,
      verdict: { status: 'already_applied', already_applied: true },
    };
  return { content, applied, done };
}

const isBlank = (text: string) => text.trim() === '';

function requestOf({ old_string, new_string, replace_all, line_hint }: OneEdit, isNew: boolean): EditRequest {
  return {
    oldString: isNew && isBlank(old_string) ? '' : old_string,
    newString: new_string,
    ...(replace_all === undefined ? {} : { replaceAll: replace_all }),
    ...(line_hint === undefined ? {} : { lineHint: line_hint }),
  };
}

function textOf({ place, content }: HeldFile, maxBytes: number): string {
  const { bytes } = content!;
  const name = shown(place.path);
  if (bytes.length > maxBytes)
    throw refusal('too_large', `"${name}" has ${bytes.length} bytes; ${maxBytes} is the limit for edits.`);
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  if (bytes.includes(0))
    throw refusal('binary', `"${name}" is binary (it holds NUL bytes) and cannot be edited as text.`);
  throw refusal(
    'not_utf8',
    `"${name}" is not UTF-8. It was not changed: convert it first, for example with iconv in a shell command.`,
  );
}

function summary(path: string, result: AppliedEdit, number: number | undefined): string {
  const { startLine, endLine, pass, passName, confidence, count } = result;
  const what = number === undefined ? `Edited ${shown(path)}` : `Edit ${number}`;
  const where = startLine === endLine ? `line ${startLine}` : `lines ${startLine}-${endLine}`;
  const how = pass === 1 ? '' : `, found by ${passName} (confidence ${confidence.toFixed(2)})`;
  return `${what}: ${count > 1 ? `${count} places, ` : ''}${where}${how}.`;
}

const account = ({
  pass,
  passName,
  confidence,
  startLine,
  endLine,
  count,
  reindented,
  normalisations,
  skipped,
}: AppliedEdit) => ({
  pass,
  pass_name: passName,
  confidence,
  start_line: startLine,
  end_line: endLine,
  count,
  reindented,
  normalisations,
  skipped_passes: skipped,
});

function refused(path: string, result: RefusedEdit, number: number | undefined, of: number): ToolOutcome {
  const done = result.status === 'already_applied';
  const head = number === undefined ? '' : `Edit ${number} of ${of} does not fit, so none was made. `;
  return {
    ok: done,
    output: `${head}${result.message}`,
    ...(done ? {} : { reason: result.status }),
    verdict: {
      status: result.status,
      ...(done ? { already_applied: true } : {}),
      ...(number === undefined ? {} : { edit: number }),
      path,
      lines: result.lines,
      candidates: result.candidates,
      skipped_passes: result.skipped,
    },
  };
}
