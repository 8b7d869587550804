import { ERROR_CATALOGUE, ERROR_CLASSES, fixerOf } from '@yardmaster/contracts';
import type { Invocation } from '../cli/invocation.js';
import { nearest } from '../cli/nearest.js';
import { fields } from '../cli/output.js';
import { NothingFound } from '../connection/fragments.js';

/** `yard explain [CODE]`: from the catalogue that the API answers `GET /errors/{code}` with; no connection is needed. */
export async function explain({ args: [given], output }: Invocation): Promise<void> {
  if (given === undefined) {
    const items = Object.keys(ERROR_CATALOGUE).map(meaning);
    await output.page(
      { items: items.map((item) => ({ ...item, id: item.code })) },
      [
        { name: 'code', of: (item) => item.code },
        { name: 'class', of: (item) => item.class },
        { name: 'means', of: (item) => item.means, max: 90 },
      ],
      '',
    );
    return;
  }
  const codes = Object.keys(ERROR_CATALOGUE);
  const wanted = given.toUpperCase();
  const code = codes.find((name) => name.toUpperCase() === wanted || name === `YM-${wanted}`);
  if (code === undefined) {
    const near = nearest(wanted, codes);
    throw new NothingFound(
      `there is no code "${given.slice(0, 60)}"${near === undefined ? '; all: yard explain' : `, did you mean ${near}?`}`,
    );
  }
  const found = meaning(code);
  await output.object(found, () =>
    [
      `${found.code}: ${found.title.toLowerCase()} (${found.class})`,
      '',
      fields([
        ['means', found.means],
        ['what to do', found.remedy],
        ['who can', found.fixed_by],
      ]),
    ].join('\n'),
  );
}

function meaning(code: string) {
  const entry = ERROR_CATALOGUE[code]!;
  return {
    code,
    class: entry.class,
    title: ERROR_CLASSES[entry.class].title,
    means: entry.means,
    remedy: entry.remedy,
    fixed_by: fixerOf(entry),
  };
}
