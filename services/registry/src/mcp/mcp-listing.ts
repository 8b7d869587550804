import type { Client, StandardSchemaV1 } from '@modelcontextprotocol/client';

/** Pages that one listing may have; more is a fault of the server. */
const MOST_PAGES = 100;
/** Tools that a server may list. */
export const MOST_TOOLS = 2_000;
const LONGEST_NAME = 128;

/** One tool as a server describes it, of the right shape and not judged yet. */
export interface ListedTool {
  name: string;
  description: string;
  inputSchema: unknown;
  outputSchema: unknown;
  annotations: Readonly<Record<string, unknown>>;
}

export interface Listing {
  tools: ListedTool[];
  /** What is no tool, by its name (or its place), with the reason. */
  misshapen: Map<string, string>;
  /** How long the server says that this holds, in milliseconds. */
  ttlMs: number | undefined;
}

// The client refuses a whole page for one tool of the wrong shape, so what comes is judged here, tool by tool.
const ANYTHING: StandardSchemaV1<unknown, Page> = {
  '~standard': { version: 1, vendor: 'yardmaster', validate: (value) => ({ value: value as Page }) },
};

interface Page {
  tools?: unknown;
  nextCursor?: unknown;
  ttlMs?: unknown;
}

/**
 * All pages of a server's tools, by name. Throws in plain words when the server does not end, lists too many, or has not
 * sent all of them after `timeoutMs`.
 */
export async function listTools(client: Client, timeoutMs: number, signal: AbortSignal): Promise<Listing> {
  const late = AbortSignal.timeout(timeoutMs);
  try {
    // The limit of the client is one for each page; a little longer than that for all, which says it better.
    return await listPages(client, timeoutMs + 1_000, AbortSignal.any([signal, late]));
  } catch (error) {
    if (late.aborted && !signal.aborted) throw new Error(`its list of tools has not come within ${timeoutMs / 1000} s`);
    throw error;
  }
}

async function listPages(client: Client, timeoutMs: number, signal: AbortSignal): Promise<Listing> {
  const listing: Listing = { tools: [], misshapen: new Map(), ttlMs: undefined };
  if (client.getServerCapabilities()?.tools === undefined) return listing;
  const cursors = new Set<string>();
  let place = 0;
  for (let cursor: string | undefined; ;) {
    const page = await client.request(
      { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
      ANYTHING,
      { timeout: timeoutMs, signal },
    );
    if (!Array.isArray(page.tools)) throw new Error('its list of tools is no list');
    for (const raw of page.tools as unknown[]) {
      if (++place > MOST_TOOLS) throw new Error(`it lists more than ${MOST_TOOLS} tools`);
      const tool = readTool(raw);
      if (typeof tool === 'string') listing.misshapen.set(nameOf(raw) ?? `#${place}`, tool);
      else listing.tools.push(tool);
    }
    if (typeof page.ttlMs === 'number' && page.ttlMs > 0)
      listing.ttlMs = Math.min(listing.ttlMs ?? Infinity, page.ttlMs);
    const { nextCursor } = page;
    if (nextCursor === undefined || nextCursor === null) break;
    if (typeof nextCursor !== 'string') throw new Error('the cursor of its next page is no text');
    if (cursors.has(nextCursor)) throw new Error('its pages do not end: a cursor comes again');
    if (cursors.add(nextCursor).size >= MOST_PAGES) throw new Error(`its pages do not end: more than ${MOST_PAGES}`);
    cursor = nextCursor;
  }
  listing.tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  return listing;
}

function nameOf(raw: unknown): string | undefined {
  const name = (raw as { name?: unknown } | null)?.name;
  return typeof name === 'string' && name !== '' ? name.slice(0, LONGEST_NAME) : undefined;
}

function readTool(raw: unknown): ListedTool | string {
  if (!isObject(raw)) return 'it is no object';
  const { name, title, description, inputSchema, outputSchema, annotations } = raw;
  if (typeof name !== 'string' || name === '') return 'it has no name';
  if (name.length > LONGEST_NAME) return `its name is longer than ${LONGEST_NAME} characters`;
  if (/[\u0000-\u001f\u007f]/.test(name)) return 'its name has control characters';
  if (!isObject(inputSchema)) return 'its inputSchema is no object';
  if (outputSchema !== undefined && !isObject(outputSchema)) return 'its outputSchema is no object';
  const said = [description, title].find((text) => typeof text === 'string' && text.trim() !== '');
  return {
    name,
    description: typeof said === 'string' ? said : '',
    inputSchema,
    outputSchema,
    annotations: isObject(annotations) ? annotations : {},
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
