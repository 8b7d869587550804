import { ToolSearch, catalogueOf, type ToolView } from '@yardmaster/tool-render';
import type { Suite, Verdict } from '../suite.ts';

interface SearchFile {
  catalogue: ToolView[];
  /** Like `"en recall@5": 0.9`; `same language` is all groups without the cross-language ones. */
  floors: Record<string, number>;
  cases: { id: string; lang: string; query: string; expected: { in_top?: number; tool?: string; empty?: boolean } }[];
}

/** One verdict a case; a miss fails only where its group falls short of the floor, and then all misses of the group do. */
export const suite: Suite = function* (content) {
  const { catalogue, floors, cases } = content as SearchFile;
  const index = new ToolSearch(catalogueOf(catalogue));
  const found = cases.map((one) => {
    const names = index.search(one.query, one.expected.in_top ?? 5).map((hit) => hit.name);
    const ok = one.expected.empty ? names.length === 0 : names.includes(one.expected.tool ?? '');
    return { one, names, ok };
  });
  const shortOf = new Map<string, string>();
  for (const [name, floor] of Object.entries(floors)) {
    const group = /^(.*) recall@\d+$/.exec(name)?.[1] ?? name;
    const members = found.filter(({ one }) => (group === 'same language' ? isSameLanguage(one.lang) : one.lang === group));
    const recall = members.filter(({ ok }) => ok).length / members.length;
    console.error(`${name}: ${recall.toFixed(3)}, floor ${floor}`);
    if (recall >= floor) continue;
    for (const { one } of members) shortOf.set(one.id, `${name} is ${recall.toFixed(3)}, below its floor of ${floor}`);
  }
  for (const { one, names, ok } of found) {
    const counts = one.lang === 'none' || shortOf.has(one.id);
    if (!ok) console.error(`${counts ? 'miss' : 'miss, not counted'} ${one.id} ${one.query}: ${names.join(', ')}`);
    const verdict: Verdict = { id: one.id, ok: ok || !counts };
    yield verdict.ok ? verdict : { ...verdict, expected: one.expected, got: names, why: shortOf.get(one.id) ?? 'weak hits' };
  }
};

function isSameLanguage(lang: string): boolean {
  return lang !== 'none' && !lang.startsWith('x_');
}
