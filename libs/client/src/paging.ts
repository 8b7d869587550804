import type { Page } from './types.js';

/** All items of a list, fetched a page at a time as they are asked for. */
export async function* paged<T>(page: (cursor: string | undefined) => Promise<Page<T>>): AsyncGenerator<T, void, void> {
  let cursor: string | undefined;
  do {
    const found = await page(cursor);
    yield* found.items;
    cursor = found.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
