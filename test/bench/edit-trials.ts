// The accuracy generator of the edit benchmark: draws a block from a file, an intended edit of it, and what a model
// would send for it after misremembering the block in k ways. Seeded: the same files and seed give the same trials.

export interface Source {
  path: string;
  content: string;
}

export interface Trial {
  path: string;
  content: string;
  oldString: string;
  newString: string;
  lineHint?: number;
  hintOffset?: number;
  /** The file after the intended edit; absent when the block is not in this file. */
  truth?: string;
  /** As `truth`, with swapped lines in the file's order: nobody can say which of the two is meant. */
  otherTruth?: string;
  /** Offsets of the true block. */
  from: number;
  to: number;
  /** One-based first line of the true block. */
  line: number;
  kinds: string[];
  unique: boolean;
  twin: boolean;
  language: string;
}

/** One line of the block: as it is in the old text, and as it is in the new text after the intended edit. */
interface Item {
  swapped?: boolean;
  old?: string;
  next?: string;
  /** The line in the file before and after the intended edit; absent for a line that only the model believes in. */
  was?: string;
  will?: string;
  edited?: boolean;
}

type Random = () => number;

/** Mulberry32: small, seeded, good enough to draw trials. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const pick = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
const between = (random: Random, low: number, high: number) => low + Math.floor(random() * (high - low + 1));
const indentOf = (line: string) => /^[ \t]*/.exec(line)![0];
const isComment = (line: string) => /^\s*(\/\/|#(?!!|include|define)|--\s|\*\s|\/\*)/.test(line);

/** Changes one token of a line in the same way in all its forms, the token of the intended edit aside. */
function onToken(
  random: Random,
  item: Item,
  fits: (token: string) => boolean,
  change: (token: string) => string,
): boolean {
  const split = (text: string) => text.split(/([\p{L}\p{N}_]+)/u);
  const old = split(item.old ?? '');
  const next = split(item.next ?? '');
  const places = old
    .map((token, i) => i)
    .filter((i) => i % 2 === 1 && fits(old[i]!) && (item.edited !== true || old[i] === next[i]));
  if (places.length === 0) return false;
  const at = pick(random, places);
  const changed = change(old[at]!);
  if (changed === old[at]) return false;
  old[at] = changed;
  if (item.next !== undefined && next.length === old.length) next[at] = changed;
  item.old = old.join('');
  item.next = next.join('');
  return true;
}

function typo(random: Random, token: string): string {
  const at = between(random, 1, token.length - 2);
  const way = random();
  if (way < 0.34) return token.slice(0, at) + token.slice(at + 1);
  if (way < 0.67) return token.slice(0, at) + token[at + 1]! + token[at]! + token.slice(at + 2);
  return token.slice(0, at) + String.fromCharCode(97 + between(random, 0, 25)) + token.slice(at + 1);
}

const NAMES = [
  'entry',
  'payload',
  'bucket',
  'worker',
  'handle',
  'cursor',
  'limitValue',
  'total_count',
  'nextItem',
  'settings',
];
// Apart from the names above, or what the model sends could name the twin.
const TWIN_NAMES = ['alpha', 'wagon', 'signalBox', 'depot', 'carriage', 'laneCount', 'spare', 'freight'];
const WORDS = [
  'how',
  'the',
  'value',
  'is',
  'kept',
  'for',
  'later',
  'calls',
  'when',
  'it',
  'must',
  'not',
  'change',
  'again',
];

/** Ways of misremembering. Each returns false when the block offers nothing to misremember in that way. */
const CONTENT: Record<string, (random: Random, items: Item[]) => boolean> = {
  typo: (random, items) =>
    onToken(
      random,
      pick(random, items),
      (token) => token.length >= 4 && /^[A-Za-z_]+$/.test(token),
      (token) => typo(random, token),
    ),
  number: (random, items) =>
    onToken(
      random,
      pick(random, items),
      (token) => /^\d+$/.test(token),
      (token) => String(Number(token) + between(random, 1, 9)),
    ),
  word: (random, items) =>
    onToken(
      random,
      pick(random, items),
      (token) => token.length >= 3 && /^[a-z]+$/.test(token),
      () => pick(random, WORDS),
    ),
  rename: (random, items) => {
    const names = items.flatMap((item) => (item.old ?? '').match(/\b[A-Za-z_][A-Za-z0-9_]{3,}\b/g) ?? []);
    if (names.length === 0) return false;
    const name = pick(random, names);
    const other = pick(random, NAMES);
    const swap = (text: string) => text.replace(new RegExp(`\\b${name}\\b`, 'g'), other);
    if (items.some((item) => item.edited === true && swap(item.old!) !== item.old && swap(item.next!) === item.next))
      return false;
    for (const item of items) {
      if (item.old !== undefined) item.old = swap(item.old);
      if (item.next !== undefined && item.old !== undefined) item.next = swap(item.next);
    }
    return true;
  },
  'comment reworded': (random, items) => {
    const item = items.find((one) => one.edited !== true && one.old !== undefined && isComment(one.old));
    if (!item) return false;
    const head = /^\s*\S+\s/.exec(item.old!);
    if (!head) return false;
    item.old = item.next = head[0] + Array.from({ length: 6 }, () => pick(random, WORDS)).join(' ');
    return true;
  },
  'comment dropped': (_random, items) => {
    const at = items.findIndex(
      (one) => one.edited !== true && one.swapped !== true && one.old !== undefined && isComment(one.old),
    );
    if (at < 0 || items.length < 4) return false;
    items[at] = { was: items[at]!.was!, will: items[at]!.will! };
    return true;
  },
  'lines swapped': (random, items) => {
    const places = items
      .map((_, i) => i)
      .filter(
        (i) =>
          i + 1 < items.length &&
          [items[i]!, items[i + 1]!].every(
            (one) => one.edited !== true && one.old !== undefined && one.was !== undefined && one.old.trim() !== '',
          ) &&
          items[i]!.old !== items[i + 1]!.old,
      );
    if (places.length === 0) return false;
    const at = pick(random, places);
    // The model sends the lines in its own order in both texts, so that order is what it asks for.
    const [a, b] = [items[at]!, items[at + 1]!];
    items[at] = { old: b.old!, next: b.next!, was: a.was!, will: b.will!, swapped: true };
    items[at + 1] = { old: a.old!, next: a.next!, was: b.was!, will: a.will!, swapped: true };
    return true;
  },
  'line dropped': (random, items) => {
    const places = items
      .map((_, i) => i)
      .filter(
        (i) =>
          items[i]!.edited !== true &&
          items[i]!.old !== undefined &&
          items[i]!.was !== undefined &&
          items[i]!.swapped !== true &&
          items[i]!.old!.trim() !== '',
      );
    if (places.length === 0 || items.length < 4) return false;
    const at = pick(random, places);
    items[at] = { was: items[at]!.was!, will: items[at]!.will! };
    return true;
  },
  'line added': (random, items) => {
    if (items.length < 3) return false;
    const at = between(random, 0, items.length);
    const near = items[Math.min(at, items.length - 1)]!.old ?? '';
    const text = `${indentOf(near)}${pick(random, NAMES)}(${pick(random, WORDS)}, ${between(random, 1, 99)});`;
    items.splice(at, 0, { old: text, next: text });
    return true;
  },
  'middle elided': (_random, items) => {
    const at = items.findIndex((one) => one.edited === true);
    const [from, to] = at < items.length / 2 ? [at + 2, items.length - 2] : [2, at - 2];
    if (to - from < 3 || items.slice(from, to).some((one) => one.swapped === true)) return false;
    const hidden = items.slice(from, to).map((one) => ({
      ...(one.was === undefined ? {} : { was: one.was }),
      ...(one.will === undefined ? {} : { will: one.will }),
    }));
    items.splice(from, to - from, { old: '...', next: '...' }, ...hidden);
    return true;
  },
  're-wrapped': (random, items) => {
    const places = items
      .map((_, i) => i)
      .filter((i) => items[i]!.edited !== true && /\w\(([^()]+, )+[^()]+\)[;,]?$/.test(items[i]!.old ?? ''));
    if (places.length === 0) return false;
    const item = items[pick(random, places)]!;
    const match = /^(.*\w\()([^()]+)(\)[;,]?)$/.exec(item.old!)!;
    const inner = `${indentOf(item.old!)}  `;
    item.old = item.next = [
      match[1]!,
      ...match[2]!.split(', ').map((part, i, all) => inner + part + (i < all.length - 1 ? ',' : '')),
      indentOf(item.old!) + match[3]!,
    ].join('\n');
    return true;
  },
};

const LAYOUT: Record<string, (random: Random, items: Item[]) => boolean> = {
  'indent shift': (random, items) => {
    const more = random() < 0.5;
    if (!more && !items.every((item) => /^(\s{2}|$)/.test(item.old ?? item.next ?? ''))) return false;
    return everyLine(
      items,
      (line) => (line.trim() === '' ? line : more ? `    ${line}` : line.replace(/^(\t| {1,4})/, '')),
      !more,
    );
  },
  'tabs for spaces': (_random, items) =>
    everyLine(items, (line) => line.replace(/^( {4})+/, (blanks) => '\t'.repeat(blanks.length / 4)), true) ||
    everyLine(items, (line) => line.replace(/^\t+/, (tabs) => '    '.repeat(tabs.length)), true),
  '2 for 4': (_random, items) => {
    const widths = items.map((item) => indentOf(item.old ?? item.next ?? '').length);
    if (items.some((item) => indentOf(item.old ?? item.next ?? '').includes('\t'))) return false;
    if (widths.every((width) => width % 4 === 0) && widths.some((width) => width > 0))
      return everyLine(items, (line) => line.replace(/^ +/, (blanks) => ' '.repeat(blanks.length / 2)), true);
    if (widths.every((width) => width % 2 === 0) && widths.some((width) => width > 0))
      return everyLine(items, (line) => line.replace(/^ +/, (blanks) => ' '.repeat(blanks.length * 2)), true);
    return false;
  },
  'trailing blanks': (random, items) => {
    const item = pick(random, items);
    if (item.old === undefined || item.edited === true) return false;
    item.old += '  ';
    if (item.next !== undefined) item.next += '  ';
    return true;
  },
  'blank line added': (random, items) => {
    const places = items
      .map((_, i) => i)
      .filter((i) => i > 0 && items[i]!.old !== undefined && items.slice(0, i).some((item) => item.old !== undefined));
    if (places.length === 0) return false;
    items.splice(pick(random, places), 0, { old: '', next: '' });
    return true;
  },
  'blank line missing': (_random, items) => {
    const at = items.findIndex((item, i) => i > 0 && i < items.length - 1 && item.old === '' && item.was !== undefined);
    if (at < 0) return false;
    items[at] = { was: items[at]!.was!, will: items[at]!.will! };
    return true;
  },
  'first line dedented': (_random, items) => {
    const item = items[0]!;
    if (
      item.old === undefined ||
      item.next === undefined ||
      indentOf(item.old) === '' ||
      items.filter((one) => one.old !== undefined).length < 2
    )
      return false;
    item.old = item.old.trimStart();
    item.next = item.next.trimStart();
    return true;
  },
  'unicode signs': (random, items) => {
    const item = pick(random, items);
    if (item.old === undefined || item.next === undefined) return false;
    const fold = (line: string) =>
      indentOf(line) +
      line
        .trimStart()
        .replace(/"([^"]*)"/, '\u201c$1\u201d')
        .replace(/'([^']*)'/, '\u2018$1\u2019')
        .replace(/ - /, ' \u2013 ')
        .replace(/(\w) (\w)/, '$1\u00a0$2');
    if (fold(item.old) === item.old) return false;
    item.old = fold(item.old);
    item.next = fold(item.next);
    return true;
  },
  nfd: (_random, items) => everyLine(items, (line) => line.normalize('NFD'), true),
};

/** Ways of wrapping a whole text, applied last. */
const ENVELOPE: Record<string, (text: string, line: number, form: (line: number) => string) => string> = {
  'listing prefixes': (text, line, form) =>
    text
      .split('\n')
      .map((one, i) => form(line + i) + one)
      .join('\n'),
  fence: (text) => `\`\`\`\n${text}\n\`\`\``,
  escapes: (text) => JSON.stringify(text).slice(1, -1),
  entities: (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  crlf: (text) => text.replaceAll('\n', '\r\n'),
};

const LISTINGS = [
  (line: number) => `${String(line).padStart(6)}→`,
  (line: number) => `${line}: `,
  (line: number) => `${line} | `,
];

export const LAYOUT_KINDS = new Set([...Object.keys(LAYOUT), ...Object.keys(ENVELOPE), 'crlf file']);
/** Kinds after which the block still has as many lines, each a likeness of its own. */
export const SAME_COUNT_KINDS = new Set(['typo', 'number', 'word', 'rename', 'comment reworded']);

function everyLine(items: Item[], change: (line: string) => string, mustChange: boolean): boolean {
  const changed = items.some((item) => item.old !== undefined && change(item.old) !== item.old);
  if (mustChange && !changed) return false;
  for (const item of items) {
    if (item.old !== undefined) item.old = change(item.old);
    if (item.next !== undefined) item.next = change(item.next);
  }
  return changed;
}

function blockLength(random: Random): number {
  const at = random();
  if (at < 0.15) return 1;
  if (at < 0.6) return between(random, 2, 5);
  return at < 0.9 ? between(random, 6, 15) : between(random, 16, 40);
}

const keys = (text: string) =>
  text
    .replaceAll('\r\n', '\n')
    .split('\n')
    .map((line) => line.trim().replace(/\s+/g, ' '))
    .filter((line) => line !== '');

/** First line indices (among the file's non-blank lines) where the block's non-blank lines stand. */
function placesOf(file: readonly string[], block: readonly string[]): number[] {
  const found: number[] = [];
  for (let at = 0; at + block.length <= file.length; at++)
    if (block.every((key, i) => file[at + i] === key)) found.push(at);
  return found;
}

/** As `placesOf`, the order of the lines aside: swapped lines may make the text that of another block. */
function placesInAnyOrder(file: readonly string[], block: readonly string[]): number[] {
  const wanted = [...block].sort().join('\n');
  const first = new Set(block);
  const found: number[] = [];
  for (let at = 0; at + block.length <= file.length; at++) {
    if (!first.has(file[at]!)) continue;
    if (
      file
        .slice(at, at + block.length)
        .sort()
        .join('\n') === wanted
    )
      found.push(at);
  }
  return found;
}

/** Draws one trial, or nothing when the draw is one whose truth is undefined. */
export function draw(random: Random, sources: readonly Source[]): Trial | undefined {
  const source = pick(random, sources);
  const language = /\.([a-z]+)$/i.exec(source.path)?.[1]?.toLowerCase() ?? 'other';
  const lines = source.content.split('\n');
  const final = lines.at(-1) === '';
  if (final) lines.pop();
  const absent = random() < 0.1;
  const origin = absent ? pick(random, sources) : source;
  const pool = absent ? origin.content.split('\n') : lines;
  if (absent && origin === source) return undefined;
  const length = Math.min(blockLength(random), pool.length);
  const from = between(random, 0, pool.length - length);
  const block = pool.slice(from, from + length);
  if (block[0]!.trim() === '' || block.at(-1)!.trim() === '') return undefined;

  // The intended edit: one token changed, one line added.
  const items: Item[] = block.map((text) => ({ old: text, next: text, was: text, will: text }));
  const editable = items.filter((item) => /[A-Za-z]{3,}/.test(item.old!));
  if (editable.length === 0) return undefined;
  const target = pick(random, editable);
  const token = pick(random, target.old!.match(/[A-Za-z_]{3,}/g)!);
  const parts = target.old!.split(/([\p{L}\p{N}_]+)/u);
  const at = parts.findIndex((part, i) => i % 2 === 1 && part.includes(token));
  if (at < 0) return undefined;
  parts[at] = `${pick(random, NAMES)}${between(random, 2, 99)}`;
  target.next = target.will = parts.join('');
  target.edited = true;
  const after = items.indexOf(target);
  const added = `${indentOf(target.old!)}added_${between(random, 100, 999)}();`;
  items.splice(after + 1, 0, { next: added, will: added });

  // What the model remembers of it.
  const k = between(random, 0, 5);
  const kinds: string[] = [];
  let envelope: string | undefined;
  let crlfFile = false;
  for (let tries = 0; kinds.length < k && tries < 30; tries++) {
    const group = random();
    if (group < 0.12) {
      const name = pick(random, [...Object.keys(ENVELOPE), 'crlf file']);
      if (name === 'crlf file') {
        if (!crlfFile) kinds.push(name);
        crlfFile = true;
      } else if (envelope === undefined) {
        envelope = name;
        kinds.push(name);
      }
      continue;
    }
    const table = group < 0.45 ? LAYOUT : CONTENT;
    const name = pick(random, Object.keys(table));
    if (kinds.includes(name) && name !== 'typo' && name !== 'number') continue;
    if (table[name]!(random, items)) kinds.push(name);
  }
  const shown = items.filter((item) => item.old !== undefined);
  let oldString = shown.map((item) => item.old!).join('\n');
  let newString = items
    .filter((item) => item.next !== undefined)
    .map((item) => item.next!)
    .join('\n');
  if (oldString === newString || oldString.trim() === '') return undefined;

  // A twin of the block somewhere else in the file.
  let content = lines;
  let line = from;
  let twin = false;
  let twinLine: number | undefined;
  const twinLines = new Set<string>();
  if (!absent && random() < 0.2) {
    const copy = block.map((text) => ({ old: text, next: text }));
    let changes = 0;
    for (let i = between(random, 1, 3); i > 0; i--)
      if (
        onToken(
          random,
          pick(random, copy),
          (part) => part.length >= 2,
          () => pick(random, TWIN_NAMES),
        )
      )
        changes++;
    if (changes > 0) {
      const spots = lines.map((_, i) => i).filter((i) => i <= from || i >= from + length);
      const spot = pick(random, spots);
      content = [...lines.slice(0, spot), ...copy.map((item) => item.old), ...lines.slice(spot)];
      if (spot <= from) line = from + length;
      twin = true;
      twinLine = spot;
      for (const item of copy) twinLines.add(item.old);
    }
  }
  const eol = crlfFile ? '\r\n' : '\n';
  const text = content.join(eol) + (final ? eol : '');
  const lineStart = (index: number) => content.slice(0, index).reduce((sum, one) => sum + one.length + eol.length, 0);
  const start = absent ? 0 : lineStart(line);
  const end = absent ? 0 : start + block.join(eol).length;

  // Undefined truth: a single line without its indentation stands in the file as it is, as a part of a line.
  if (!absent && shown.length === 1 && oldString !== target.was && target.was!.includes(oldString)) return undefined;
  // Undefined truth: what the model sends is, but for blanks, another block of the file.
  const file = keys(text);
  const sent = keys(oldString);
  const own = absent ? -1 : keys(content.slice(0, line).join('\n')).length;
  const places = kinds.includes('lines swapped') ? placesInAnyOrder(file, sent) : placesOf(file, sent);
  if (places.some((place) => place !== own)) {
    if (absent || placesOf(file, keys(block.join('\n'))).length < 2) return undefined;
  }
  // The same for its very text, blanks included, when the true place no longer has it.
  const exact = oldString.replaceAll('\n', eol);
  if (!absent && !text.slice(start, end).includes(exact) && text.includes(exact)) return undefined;
  // A block of a sibling file whose lines are mostly here as well (a copied configuration) is not absent.
  const telling = block.map((one) => one.trim().replace(/\s+/g, ' ')).filter((key) => key.length > 3);
  if (absent && (text.includes(oldString) || telling.filter((key) => file.includes(key)).length * 2 >= telling.length))
    return undefined;
  const unique =
    !absent &&
    placesOf(file, keys(block.join('\n'))).length === 1 &&
    text.indexOf(block.join(eol)) === text.lastIndexOf(block.join(eol));

  if (envelope !== undefined) {
    const form = pick(random, LISTINGS);
    const plain = oldString;
    oldString = ENVELOPE[envelope]!(oldString, line + 1, form);
    newString = ENVELOPE[envelope]!(newString, line + 1, form);
    // Nothing in the old text shows that the new text is wrapped.
    if (oldString === plain && envelope !== 'crlf') return undefined;
  }
  const trial: Trial = {
    path: source.path,
    content: text,
    oldString,
    newString,
    from: start,
    to: end,
    line: line + 1,
    kinds,
    unique,
    twin,
    language,
  };
  if (!absent) {
    const written = (line: (item: Item) => string | undefined) =>
      text.slice(0, start) + items.flatMap((item) => line(item) ?? []).join(eol) + text.slice(end);
    trial.truth = written((item) => item.will);
    if (kinds.includes('lines swapped'))
      trial.otherTruth = written((item) => (item.swapped === true ? item.was : item.will));
  }
  if (!absent && random() < 0.25) {
    const offset = pick(random, [0, 1, 3, 20]);
    // Among equal blocks the nearest to the hint is meant; a hint that names another one leaves the truth undefined.
    if (!unique && offset > 0) return undefined;
    // The same for a hint that has drifted to a twin that is no other in what the model shows.
    if (offset > 0 && twinLine !== undefined && shown.every(({ was }) => was === undefined || twinLines.has(was)))
      return undefined;
    trial.lineHint = line + 1 + offset;
    trial.hintOffset = offset;
  }
  return trial;
}

export type Outcome = 'right' | 'other text' | 'wrong place' | 'refused' | 'no-op' | 'absent written';

/** What became of a trial: `written` is the content, or why nothing was written. */
export function judge(trial: Trial, written: string | 'refused' | 'no-op', refused: boolean): Outcome {
  if (refused) return written === 'no-op' ? 'no-op' : 'refused';
  if (trial.truth === undefined) return 'absent written';
  if (written === trial.truth || written === trial.otherTruth) return 'right';
  if (written === trial.content) return 'no-op';
  const tail = trial.content.length - trial.to;
  const inside =
    written.length >= trial.from + tail &&
    written.startsWith(trial.content.slice(0, trial.from)) &&
    (tail === 0 || written.endsWith(trial.content.slice(trial.to)));
  return inside ? 'other text' : 'wrong place';
}
