import { applyEdit, createSyntaxEngine, type EditResult, type SyntaxEngine } from '@yardmaster/text-edit';
import type { Suite, Verdict } from '../suite.ts';

interface EditCase {
  id: string;
  path: string;
  content: string | null;
  old_string: string;
  new_string: string;
  replace_all?: boolean;
  line_hint?: number;
  expected: { ok: true; content: string; pass_at_most?: number } | { ok: false; error: string; error_also?: string[]; places?: number[] };
}

/** An edit delivered twice is told apart from one that changes nothing; the cases know one word for both. */
const codeOf = (result: EditResult) => (result.status === 'already_applied' ? 'no_change' : result.status);

export const suite: Suite = async function* (content) {
  const ast = createSyntaxEngine();
  try {
    for (const one of content as EditCase[]) yield await verdict(one, ast);
  } finally {
    await ast.close();
  }
};

async function verdict(one: EditCase, ast: SyntaxEngine): Promise<Verdict> {
  const result = await applyEdit(
    one.content,
    {
      oldString: one.old_string,
      newString: one.new_string,
      ...(one.replace_all === undefined ? {} : { replaceAll: one.replace_all }),
      ...(one.line_hint === undefined ? {} : { lineHint: one.line_hint }),
    },
    { path: one.path, ast },
  );
  const { id, expected } = one;
  const fail = (why: string): Verdict => ({ id, ok: false, expected, got: result, why });
  if (expected.ok) {
    if (result.status !== 'applied') return fail(`refused with ${result.status}: ${result.message}`);
    if (result.content !== expected.content) return fail('another text was written');
    if (result.pass > (expected.pass_at_most ?? 9)) return fail(`pass ${result.pass}, at most ${expected.pass_at_most} wanted`);
    return { id, ok: true };
  }
  if (result.status === 'applied') return fail('written, and must be refused');
  const codes = [expected.error, ...(expected.error_also ?? [])];
  if (!codes.includes(codeOf(result))) return fail(`refused with ${codeOf(result)}`);
  if (expected.places && expected.places.join() !== result.lines.join()) return fail(`places ${result.lines.join()}`);
  return { id, ok: true };
}
