import type { Pace } from '../pace.js';

/** The rules of one .gitignore file, for paths relative to its folder. */
export interface IgnoreFile {
  /** True: ignored; false: taken back by a `!` rule; undefined: no rule speaks of it. */
  says(path: string, isFolder: boolean, pace?: Pace): Promise<boolean | undefined>;
}

interface Rule {
  ignored: boolean;
  foldersOnly: boolean;
  /** `undefined` stands for `**`. Anchored rules match the whole path, others its last name. */
  parts: (Part | undefined)[];
  anchored: boolean;
}

/** A pattern for one name: literal units, `?`, `*` and sets. */
type Part = (string | typeof ANY | typeof STAR | { set: string; negated: boolean })[];

const ANY = Symbol('?');
const STAR = Symbol('*');
const MAX_RULES = 2_000;
const MAX_RULE_UNITS = 500;
/** One rule on one path takes a few milliseconds at most. */
const RULES_AT_ONCE = 4;

/**
 * Reads the text of a .gitignore. Own matching instead of regular expressions: the rules come from a tenant, and a
 * backtracking engine can be kept busy for ever by them. Time is at most the product of pattern and path, in slices.
 */
export async function parseIgnore(text: string, pace?: Pace): Promise<IgnoreFile> {
  const rules: Rule[] = [];
  for (const line of text.split('\n', MAX_RULES)) {
    const rule = parseRule(line);
    if (rule !== undefined) rules.push(rule);
    if (pace?.isDue === true) await pace.turn();
  }
  rules.reverse();
  return {
    async says(path, isFolder, asked) {
      const names = path.split('/');
      for (const [index, { foldersOnly, anchored, parts, ignored }] of rules.entries()) {
        if (index % RULES_AT_ONCE === RULES_AT_ONCE - 1 && asked?.isDue === true) await asked.turn();
        if (foldersOnly && !isFolder) continue;
        if (anchored ? matchesParts(parts, names) : matchesName(parts[0]!, names.at(-1)!)) return ignored;
      }
      return undefined;
    },
  };
}

/** Do these files, the outermost first, each with its folder's path, ignore a path? The innermost that speaks decides. */
export async function isIgnored(
  files: readonly { base: string; rules: IgnoreFile }[],
  path: string,
  isFolder: boolean,
  pace?: Pace,
): Promise<boolean> {
  for (let i = files.length - 1; i >= 0; i--) {
    const { base, rules } = files[i]!;
    const said = await rules.says(base === '' ? path : path.slice(base.length + 1), isFolder, pace);
    if (said !== undefined) return said;
  }
  return false;
}

function parseRule(line: string): Rule | undefined {
  let text = line.replace(/\r$/, '');
  if (text.length > MAX_RULE_UNITS) return undefined;
  // Blanks at the end do not count unless a backslash keeps them.
  while (text.endsWith(' ') && !/(^|[^\\])(\\\\)*\\ $/.test(text)) text = text.slice(0, -1);
  if (text === '' || text.startsWith('#')) return undefined;
  const ignored = !text.startsWith('!');
  if (!ignored) text = text.slice(1);
  const foldersOnly = text.endsWith('/');
  if (foldersOnly) text = text.slice(0, -1);
  const anchored = text.includes('/');
  if (text.startsWith('/')) text = text.slice(1);
  if (text === '') return undefined;
  const parts: Rule['parts'] = [];
  for (const part of text.split('/')) {
    if (part === '**') {
      if (parts.length === 0 || parts.at(-1) !== undefined) parts.push(undefined);
    } else {
      const parsed = parsePart(part);
      if (parsed === undefined) return undefined;
      parts.push(parsed);
    }
  }
  // A lone `**` speaks of everything.
  if (!anchored && parts[0] === undefined) return { ignored, foldersOnly, anchored: false, parts: [[STAR]] };
  return { ignored, foldersOnly, anchored, parts };
}

function parsePart(text: string): Part | undefined {
  const part: Part = [];
  for (let i = 0; i < text.length; i++) {
    const unit = text[i]!;
    if (unit === '\\') {
      if (++i >= text.length) return undefined;
      part.push(text[i]!);
    } else if (unit === '*') {
      if (part.at(-1) !== STAR) part.push(STAR);
    } else if (unit === '?') part.push(ANY);
    else if (unit === '[') {
      const found = /^\[([!^]?)(\]?(?:\[:[a-z]+:\]|\\[\s\S]|[^\]\\])*)\]/.exec(text.slice(i));
      if (found === null) return undefined;
      part.push({ set: found[2]!, negated: found[1] !== '' });
      i += found[0].length - 1;
    } else part.push(unit);
  }
  return part;
}

/** `**` takes any number of names, at the end at least one; only the last one met need be tried longer. */
function matchesParts(parts: Rule['parts'], names: readonly string[]): boolean {
  let part = 0;
  let name = 0;
  let retryPart = -1;
  let retryName = 0;
  while (name < names.length) {
    if (part < parts.length && parts[part] === undefined) {
      if (part === parts.length - 1) return true;
      retryPart = ++part;
      retryName = name;
    } else if (part < parts.length && matchesName(parts[part]!, names[name]!)) {
      part++;
      name++;
    } else if (retryPart >= 0) {
      part = retryPart;
      name = ++retryName;
    } else return false;
  }
  return part === parts.length;
}

function matchesName(part: Part, name: string): boolean {
  let at = 0;
  let unit = 0;
  let retryAt = -1;
  let retryUnit = 0;
  while (unit < name.length) {
    const wanted = part[at];
    if (wanted === STAR) {
      retryAt = ++at;
      retryUnit = unit;
    } else if (wanted !== undefined && matchesUnit(wanted, name[unit]!)) {
      at++;
      unit++;
    } else if (retryAt >= 0) {
      at = retryAt;
      unit = ++retryUnit;
    } else return false;
  }
  while (part[at] === STAR) at++;
  return at === part.length;
}

function matchesUnit(wanted: Exclude<Part[number], typeof STAR>, unit: string): boolean {
  if (wanted === ANY) return true;
  if (typeof wanted === 'string') return wanted === unit;
  return inSet(wanted.set, unit) !== wanted.negated;
}

const CLASSES: Record<string, RegExp> = {
  alnum: /[A-Za-z0-9]/,
  alpha: /[A-Za-z]/,
  digit: /[0-9]/,
  lower: /[a-z]/,
  upper: /[A-Z]/,
  space: /\s/,
  punct: /[!-/:-@[-`{-~]/,
  xdigit: /[0-9A-Fa-f]/,
};

function inSet(set: string, unit: string): boolean {
  for (let i = 0; i < set.length;) {
    const named = /^\[:([a-z]+):\]/.exec(set.slice(i, i + 14));
    if (named !== null && CLASSES[named[1]!] !== undefined) {
      if (CLASSES[named[1]!]!.test(unit)) return true;
      i += named[0].length;
      continue;
    }
    const from = set[i] === '\\' ? set[++i] : set[i];
    i++;
    if (from === undefined) return false;
    if (set[i] === '-' && i + 1 < set.length) {
      let to = set[i + 1]!;
      i += 2;
      if (to === '\\') to = set[i++] ?? '\\';
      if (unit >= from && unit <= to) return true;
    } else if (unit === from) return true;
  }
  return false;
}
