import { contentOf, type Hit, type Matcher, named } from './search.js';

const READ_AT_ONCE = 8;
/** Bytes that are looked through in one go, so that others get a thread in between. */
const MAX_AT_ONCE = 10_000_000;

/** Searches without any other program. */
export const ownMatcher: Matcher = async (targets, { pattern, regex, maxBytes, wanted, content, context }) => {
  const hits: Hit[] = [];
  for (let at = 0; at < targets.length && hits.length < wanted; at += READ_AT_ONCE) {
    const some = targets.slice(at, at + READ_AT_ONCE);
    // A few are read at once; more would only take memory.
    const files = await Promise.all(
      some.map(async (target) => (await contentOf(target, maxBytes).catch(() => undefined)) ?? new Uint8Array()),
    );
    for (let from = 0; from < files.length && hits.length < wanted;) {
      let to = from;
      for (let bytes = 0; to < files.length && (to === from || bytes + files[to]!.length <= MAX_AT_ONCE); to++)
        bytes += files[to]!.length;
      const give = { files: files.slice(from, to), pattern, regex, wanted: wanted - hits.length };
      const found = await content.run('match', give, context);
      hits.push(...named(some.slice(from, to), found.hits));
      from = to;
    }
  }
  return hits;
};
