import type { Tool, ToolContext, ToolOutcome } from '@yardmaster/executor-kit';
import type { EditRequest, RefusedEdit } from '@yardmaster/text-edit';
import type { EditOutcome, EditTask, MadeEdit } from '../content/tasks.js';
import { refusal, shown } from '../refusal.js';
import type { FileServices } from '../services.js';
import { expect, type HeldFile, holdFile, once, putContent } from '../storage/change.js';
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
/** Of places that fit; the words name fewer. */
const MAX_LINES_TOLD = 200;
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
    const made = await apply(services, context, file, settings, edits);
    // The bytes of the file went to a thread and came back.
    if (file.content !== undefined) file.content.bytes = made.bytes!;
    if (made.kind === 'refused')
      return refused(path, made.result, edits.length > 1 ? made.index + 1 : undefined, edits.length);
    if (made.kind === 'done')
      return {
        output: `${shown(path)} has all of these edits already. Nothing was written.`,
        verdict: { status: 'already_applied', already_applied: true },
      };
    const { after, hash, applied, done, diff } = made;
    const created = file.content === undefined;
    const dry = settings.dry_run === true;
    const told: ToolOutcome = {
      output: [
        ...(dry ? ['Nothing was written (dry run). The edit would be:'] : []),
        ...(created ? [`Created ${shown(path)} (${after.length} bytes).`] : []),
        ...applied
          .filter(({ index }) => !created || index > 0)
          .map(({ index, result }) => summary(path, result, edits.length > 1 ? index + 1 : undefined)),
        ...(done.length > 0 ? [`Already there before: edits ${done.map((index) => index + 1).join(', ')}.`] : []),
        diff,
      ].join('\n'),
      verdict: {
        status: dry ? 'dry_run' : created ? 'created' : 'applied',
        sha256_before: file.content?.hash ?? null,
        sha256: hash,
        ...(edits.length === 1
          ? account(applied[0]!.result)
          : { edits: applied.map(({ index, result }) => ({ edit: index + 1, ...account(result) })) }),
      },
    };
    return dry ? told : putContent(services, context, file, { bytes: after, hash }, told);
  });
}

function apply(
  services: FileServices,
  context: ToolContext,
  { content, place }: HeldFile,
  { path, min_confidence: minConfidence }: EditSettings,
  edits: readonly OneEdit[],
): Promise<EditOutcome> {
  const maxBytes = services.limits.editBytes;
  const bytes = content?.bytes;
  if (bytes !== undefined && bytes.length > maxBytes)
    throw refusal('too_large', `"${shown(place.path)}" has ${bytes.length} bytes; ${maxBytes} is the limit for edits.`);
  const task: EditTask = {
    bytes,
    path: shown(path),
    edits: edits.map((one, index) => requestOf(one, content === undefined && index === 0)),
    // A call may ask for more, never for less.
    minConfidence: minConfidence === undefined ? undefined : Math.max(DEFAULT_CONFIDENCE, minConfidence),
    syntaxGate: services.syntaxGate,
    maxBytes,
    maxDiffUnits: MAX_DIFF_UNITS,
  };
  const { tenant, signal } = context;
  const { embed } = services;
  return services.content.run('edit', task, {
    tenant,
    signal,
    ...(embed === undefined ? {} : { embed: (texts) => embed(texts, context) }),
  });
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

function summary(path: string, result: MadeEdit, number: number | undefined): string {
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
}: MadeEdit) => ({
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
      lines: result.lines.slice(0, MAX_LINES_TOLD),
      ...(result.lines.length > MAX_LINES_TOLD ? { lines_in_all: result.lines.length } : {}),
      candidates: result.candidates,
      skipped_passes: result.skipped,
    },
  };
}
