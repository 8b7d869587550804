import { setImmediate as nextTurn } from 'node:timers/promises';
import { RE2JS } from 're2js';
import { refusal } from '../refusal.js';
import { contentOf, excerpt, type Hit, type Matcher } from './search.js';

const SLICE_MS = 8;
const READ_AT_ONCE = 8;

/** Searches without any other program, with an engine whose time is linear in the text: patterns come from models. */
export const ownMatcher: Matcher = async (targets, { pattern, regex, maxBytes, wanted, signal }) => {
  const find = regex ? linear(pattern) : (line: string) => line.indexOf(pattern);
  const hits: Hit[] = [];
  let contents: (Buffer | undefined)[] = [];
  let turnAt = performance.now() + SLICE_MS;
  for (const [index, target] of targets.entries()) {
    // A few are read at once; more would only take memory.
    if (index % READ_AT_ONCE === 0)
      contents = await Promise.all(
        targets.slice(index, index + READ_AT_ONCE).map((next) => contentOf(next, maxBytes).catch(() => undefined)),
      );
    signal.throwIfAborted();
    const bytes = contents[index % READ_AT_ONCE];
    if (bytes === undefined || bytes.includes(0)) continue;
    const text = bytes.toString('utf8');
    if (!regex && !text.includes(pattern)) continue;
    let line = 0;
    for (let at = 0; at < text.length && hits.length < wanted;) {
      const found = text.indexOf('\n', at);
      const end = found < 0 ? text.length : found;
      line++;
      const whole = text.slice(at, end > at && text[end - 1] === '\r' ? end - 1 : end);
      const matchAt = find(whole);
      if (matchAt >= 0) hits.push({ path: target.path, line, text: excerpt(whole, matchAt) });
      at = end + 1;
      if (performance.now() > turnAt) {
        await nextTurn();
        signal.throwIfAborted();
        turnAt = performance.now() + SLICE_MS;
      }
    }
    if (hits.length >= wanted) break;
  }
  return hits;
};

function linear(pattern: string): (line: string) => number {
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
  } catch (error) {
    throw invalidPattern((error as Error).message);
  }
  return (line) => {
    const matcher = compiled.matcher(line);
    return matcher.find() ? matcher.start() : -1;
  };
}

/** The refusal of a pattern that the engine cannot run. */
export const invalidPattern = (why: string) =>
  refusal(
    'invalid_input',
    `The pattern is no regular expression that can be run here (look-around and back-references are not): ${why.slice(0, 300)}. For plain text leave regex out.`,
  );
