import type { Page } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';

/** Rows of a list where nothing is said. */
export const DEFAULT_LIMIT = 20;
/** Most that the API gives at once. */
const LARGEST_PAGE = 200;

/** How many items are wanted: --all, --limit, or 20. */
export const wantedItems = (invocation: Invocation): number =>
  invocation.on('all') ? Number.POSITIVE_INFINITY : (invocation.number('limit') ?? DEFAULT_LIMIT);

/**
 * As many items as are wanted, as one page; several requests where one does not reach. `until` ends the list at the
 * first item that it holds for.
 */
export async function collect<T>(
  wanted: number,
  page: (query: { limit: number; cursor?: string }) => Promise<Page<T>>,
  until: (item: T) => boolean = () => false,
): Promise<Page<T>> {
  const items: T[] = [];
  let cursor: string | undefined;
  for (;;) {
    const limit = Math.max(1, Math.min(LARGEST_PAGE, wanted - items.length));
    const found = await page({ limit, ...(cursor !== undefined && { cursor }) });
    const end = found.items.findIndex(until);
    items.push(...(end < 0 ? found.items : found.items.slice(0, end)));
    if (end >= 0 || found.next_cursor === null) return { ...found, items, next_cursor: null };
    if (items.length >= wanted) return { ...found, items };
    cursor = found.next_cursor;
  }
}
