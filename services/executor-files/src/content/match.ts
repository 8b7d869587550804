// Lines of files that match a pattern, in threads only (see work.ts).
import { RE2JS } from 're2js';
import { ContentRefusal, type LineHit, type Pattern } from './tasks.js';

const MAX_LINE_UNITS = 300;

/** The matching lines of each file. The engine's time is linear in the text: patterns come from models. */
export function match(files: readonly Uint8Array[], { pattern, regex }: Pattern, wanted: number): LineHit[][] {
  const find = regex ? linear(pattern) : (line: string) => line.indexOf(pattern);
  let left = wanted;
  return files.map((bytes) => {
    const hits: LineHit[] = [];
    if (left <= 0 || bytes.includes(0)) return hits;
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
    if (!regex && !text.includes(pattern)) return hits;
    let line = 0;
    for (let at = 0; at < text.length && hits.length < left;) {
      const found = text.indexOf('\n', at);
      const end = found < 0 ? text.length : found;
      line++;
      const whole = text.slice(at, end > at && text[end - 1] === '\r' ? end - 1 : end);
      const matchAt = find(whole);
      if (matchAt >= 0) hits.push({ line, text: excerpt(whole, matchAt) });
      at = end + 1;
    }
    left -= hits.length;
    return hits;
  });
}

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

const invalidPattern = (why: string) =>
  new ContentRefusal(
    'invalid_input',
    `The pattern is no regular expression that can be run here (look-around and back-references are not): ${why.slice(0, 300)}. For plain text leave regex out.`,
  );

const LINE = /^\/proc\/self\/fd\/(\d+)\0(\d+):(.*)$/;
const BINARY = /^(?:Binary file )?\/proc\/self\/fd\/(\d+)\0?:? (?:binary file matches|matches)/;

/** What ripgrep printed, by file. It takes several files at once; the order is ours. */
export function collect(stdout: Uint8Array, firstFd: number, files: number, { pattern, regex }: Pattern): LineHit[][] {
  const byFile = Array.from({ length: files }, (): LineHit[] => []);
  const binary = new Set<number>();
  for (const raw of Buffer.from(stdout.buffer, stdout.byteOffset, stdout.length).toString('utf8').split('\n')) {
    const found = LINE.exec(raw.replace(/\r$/, ''));
    if (found === null) {
      const told = BINARY.exec(raw);
      if (told !== null) binary.add(Number(told[1]) - firstFd);
      continue;
    }
    const text = found[3]!;
    const at = regex ? 0 : Math.max(0, text.indexOf(pattern));
    byFile[Number(found[1]) - firstFd]?.push({ line: Number(found[2]), text: excerpt(text, at) });
  }
  for (const index of binary) if (byFile[index] !== undefined) byFile[index] = [];
  return byFile;
}

/** A line as it is shown: its part around the match, when it is long. */
function excerpt(line: string, matchAt: number): string {
  if (line.length <= MAX_LINE_UNITS) return line;
  const from = Math.max(0, Math.min(matchAt - 60, line.length - MAX_LINE_UNITS));
  const cut = line.slice(from, from + MAX_LINE_UNITS).replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
  return `${from > 0 ? '…' : ''}${cut}${from + MAX_LINE_UNITS < line.length ? '…' : ''}`;
}
