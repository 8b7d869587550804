import { checkText, refused } from './assert-url.js';
import type { Policy } from './policy.js';

/** One request of a chain of redirects; its text is checked, its addresses are checked by whoever sends it. */
export interface Hop {
  url: URL;
  method: string;
  headers: Record<string, string>;
}

/** What a hop came to: a redirect with its `Location`, or the end. */
export interface Landed<R> {
  location?: string | undefined;
  response: R;
}

const MAX_HOPS = 3;

/**
 * What may travel to another origin. A list of what is harmless and not of what is secret: providers keep inventing
 * names for keys.
 */
const HARMLESS = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'if-modified-since',
  'if-none-match',
  'mcp-protocol-version',
  'range',
  'traceparent',
  'user-agent',
]);

/**
 * Sends a request and follows redirects by hand: GET and HEAD only, at most three, each judged like a first address,
 * never from https to http, credentials dropped when the origin changes. Throws DENIED otherwise.
 * `send` must resolve and judge the hop's address itself (`judge`, or an `Outbound`): one resolution, then the socket.
 */
export async function followRedirects<R>(
  raw: string,
  request: { method?: string; headers?: Readonly<Record<string, string>> },
  policy: Policy,
  send: (hop: Hop) => Promise<Landed<R>>,
): Promise<{ response: R; hop: Hop }> {
  const method = (request.method ?? 'GET').toUpperCase();
  let hop: Hop = { url: checkText(raw, policy), method, headers: { ...request.headers } };
  for (let hops = 0; ; hops++) {
    const { location, response } = await send(hop);
    if (location === undefined) return { response, hop };
    // An operator's address is that origin and no other: whoever configured it meant it.
    if (policy.kind === 'operator') throw refused('origin', hop.url.hostname);
    if (method !== 'GET' && method !== 'HEAD') throw refused('method', hop.url.hostname);
    if (hops === MAX_HOPS) throw refused('hops', hop.url.hostname);
    const url = checkText(location, policy, hop.url);
    if (hop.url.protocol === 'https:' && url.protocol === 'http:') throw refused('http', url.hostname);
    const kept = Object.entries(hop.headers).filter(([name]) => HARMLESS.has(name.toLowerCase()));
    hop = { url, method, headers: url.origin === hop.url.origin ? hop.headers : Object.fromEntries(kept) };
  }
}
