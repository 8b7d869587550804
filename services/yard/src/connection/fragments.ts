import { UsageError } from '../cli/usage-error.js';

/** Shortest piece of an id that is looked for. */
export const SHORTEST = 6;

/** Nothing has this id. Exit code 3. */
export class NothingFound extends Error {}

export interface Findable {
  /** Singular, for messages. */
  what: string;
  /** The command that lists them. */
  listCommand: string;
}

const plain = (id: string) => id.replaceAll('-', '').toLowerCase();

/** Whole ids need no search. */
export const isWholeId = (text: string) => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);

/**
 * The one item whose id contains `fragment`, hyphens or not. Ids begin with the time, so pieces of the end are what
 * tells them apart. Throws UsageError for less than six characters and, with the candidates, for several hits;
 * NothingFound when there is none.
 */
export async function findByFragment<T extends { id: string }>(
  fragment: string,
  { what, listCommand }: Findable,
  items: AsyncIterable<T> | Iterable<T>,
  describe: (item: T) => string,
): Promise<T> {
  const wanted = plain(fragment);
  if (wanted.length < SHORTEST)
    throw new UsageError(
      `"${fragment.slice(0, 60)}" is too short: at least ${SHORTEST} characters of the id of a ${what} are needed; see: ${listCommand}`,
    );
  const hits: T[] = [];
  for await (const item of items) if (plain(item.id).includes(wanted)) hits.push(item);
  if (hits.length === 1) return hits[0]!;
  if (hits.length === 0)
    throw new NothingFound(`no ${what} has "${fragment.slice(0, 60)}" in its id. See: ${listCommand}`);
  const shown = hits.slice(0, 20).map((item) => `${item.id}  ${describe(item)}`);
  throw new UsageError(`"${fragment.slice(0, 60)}" fits ${hits.length} ${what}s; give more of the id:`, [
    ...shown,
    ...(hits.length > shown.length ? [`and ${hits.length - shown.length} more`] : []),
  ]);
}
