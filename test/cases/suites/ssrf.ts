// Suite `ssrf`: addresses that a tenant can choose, through the outbound guard, with a fake resolver and a fake server.
import { type AllowEntry, followRedirects, judge, tenantPolicy } from '@yardmaster/guard';
import type { Suite, Verdict } from '../suite.ts';

interface Case {
  id: string;
  url: string;
  method?: string;
  /** What the fake resolver answers; absent: the guard must not ask. */
  resolves_to?: string[];
  /** What a second look-up of the same name would answer: the guard must not make one. */
  then_resolves_to?: string[];
  redirects?: { location: string; resolves_to?: string[] }[];
  allow?: AllowEntry[];
  platform_deny?: string[];
  must_connect_to?: string;
  must_drop_headers?: string[];
  expected: 'allow' | 'deny';
}

export const suite: Suite = async function* (content) {
  for (const one of (content as { cases: Case[] }).cases) yield await run(one);
};

async function run(one: Case): Promise<Verdict> {
  const wrong: string[] = [];
  let answers = one.resolves_to;
  const connected: string[] = [];
  let headers: Record<string, string> = {};
  let hops = 0;
  let verdict: 'allow' | 'deny' = 'allow';
  let why: string | undefined;
  const secrets = Object.fromEntries((one.must_drop_headers ?? []).map((name) => [name, 'secret']));
  try {
    const policy = tenantPolicy({ allow: one.allow ?? [], platformDeny: one.platform_deny ?? [] });
    await followRedirects(one.url, { method: one.method ?? 'GET', headers: secrets }, policy, async (hop) => {
      let asked = 0;
      const { address } = await judge(hop.url, policy, async (name) => {
        if (answers === undefined) wrong.push(`asked the resolver for ${name}`);
        if (++asked > 1) {
          wrong.push(`asked the resolver ${asked} times in one hop`);
          return one.then_resolves_to ?? answers ?? [];
        }
        return answers ?? [];
      });
      connected.push(address);
      headers = hop.headers;
      const redirect = one.redirects?.[hops++];
      answers = redirect?.resolves_to ?? answers;
      return { response: undefined, location: redirect?.location };
    });
  } catch (error) {
    verdict = 'deny';
    const { details, message } = error as { details?: { reason?: string }; message: string };
    why = details?.reason ?? message;
    if (details?.reason === undefined) wrong.push(`not a refusal: ${message}`);
  }
  if (verdict !== one.expected) wrong.push(`${verdict}${why === undefined ? '' : ` (${why})`}`);
  if (one.must_connect_to !== undefined && connected.at(-1) !== one.must_connect_to)
    wrong.push(`connected to ${connected.at(-1) ?? 'nothing'}`);
  for (const name of one.must_drop_headers ?? []) if (name in headers) wrong.push(`${name} was sent on`);
  return {
    id: one.id,
    ok: wrong.length === 0,
    expected: one.expected,
    got: verdict,
    ...(wrong.length > 0 && { why: wrong.join('; ') }),
  };
}
