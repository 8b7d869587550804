import { posix } from 'node:path';
import { judgeCode } from './code-patterns.js';
import { isForbidden, judgePath, type Place, placeName } from './paths.js';
import { copy, type Flow, Refuse, type RuleContext, show } from './walker.js';
import { type Resolved, type Taint, UNKNOWN } from './words.js';

/** A rule answers what the command prints where that is known; nothing = go on as with any command. */
export type Rule = (context: RuleContext) => Flow | undefined | void;

const flow = (text: string | null, taints: Iterable<Taint> = []): Flow => ({ text, taints: new Set(taints) });
const texts = (args: readonly Resolved[]): string[] => args.map((arg) => arg.text);
const judge = (path: string, { folders }: RuleContext): Place => judgePath(path, folders);

/** Options and operands of a command line; options that take a value in the next word are named by `valued`. */
function options(
  args: readonly Resolved[],
  valued = '',
): { flags: string[]; operands: string[]; values: Map<string, string> } {
  const flags: string[] = [];
  const operands: string[] = [];
  const values = new Map<string, string>();
  let only = false;
  for (let i = 0; i < args.length; i++) {
    const { text } = args[i]!;
    if (only || text === '-' || !text.startsWith('-')) operands.push(text);
    else if (text === '--') only = true;
    else if (text.startsWith('--')) {
      const [name, ...value] = text.split('=');
      flags.push(name!);
      if (value.length > 0) values.set(name!, value.join('='));
      else if (valued.split(' ').includes(name!)) values.set(name!, args[++i]?.text ?? '');
    } else {
      for (let j = 1; j < text.length; j++) {
        const flag = `-${text[j]}`;
        flags.push(flag);
        if (valued.split(' ').includes(flag)) {
          values.set(flag, j + 1 < text.length ? text.slice(j + 1) : (args[++i]?.text ?? ''));
          break;
        }
      }
    }
  }
  return { flags, operands, values };
}

/** GNU tools take any unambiguous beginning of a long option. */
const hasLong = (flags: readonly string[], name: string, least: number): boolean =>
  flags.some((flag) => flag.length >= least && name.startsWith(flag));

function refuseDelete(name: string, path: string, where: Place, recursive: boolean): never {
  throw new Refuse(
    'destructive-delete',
    `${name} would ${recursive ? 'recursively delete' : 'delete (remove)'} ${JSON.stringify(show(path))}, ${placeName(where)}. Delete only paths inside the workspace or in /tmp, named one by one.`,
  );
}

const remove: Rule = (context) => {
  const { flags, operands } = options(context.args);
  const recursive = flags.includes('-r') || flags.includes('-R') || hasLong(flags, '--recursive', 5);
  if (flags.includes('--no-preserve-root'))
    throw new Refuse(
      'destructive-delete',
      'rm --no-preserve-root is meant to delete the root directory. Name the paths in the workspace instead.',
    );
  for (const path of operands) {
    const where = judge(path, context);
    if (isForbidden(where) && (recursive || where !== 'home')) refuseDelete(context.name, path, where, recursive);
  }
};

const shred: Rule = (context) => {
  for (const path of options(context.args, '-n -s').operands) {
    const where = judge(path, context);
    if (where === 'device')
      throw new Refuse(
        'device-write',
        `${context.name} would overwrite ${JSON.stringify(show(path))}, a device (/dev, disk). Devices cannot be written.`,
      );
    if (isForbidden(where)) refuseDelete(context.name, path, where, false);
  }
};

const find: Rule = (context) => {
  const words = texts(context.args);
  let i = 0;
  while (i < words.length && /^-[HLPDO]/.test(words[i]!)) i += words[i] === '-D' ? 2 : 1;
  const paths: string[] = [];
  for (; i < words.length && !/^[-(!,]/.test(words[i]!); i++) paths.push(words[i]!);
  if (paths.length === 0) paths.push('.');
  const placed = paths.map((path) => ({ path, where: judge(path, context) }));
  const bad = placed.find(({ where }) => isForbidden(where));
  for (; i < words.length; i++) {
    const word = words[i]!;
    if (word === '-delete' && bad !== undefined)
      throw new Refuse(
        'destructive-delete',
        `find -delete would delete everything it finds below ${JSON.stringify(show(bad.path))}, ${placeName(bad.where)}. Search inside the workspace.`,
      );
    if (/^-(fprint0?|fls|fprintf)$/.test(word)) writeTo(words[i + 1] ?? '', context, 'find');
    if (!/^-(exec|execdir|ok|okdir)$/.test(word)) continue;
    const end = words.findIndex(
      (text, index) => index > i && (text === ';' || (text === '+' && words[index - 1] === '{}')),
    );
    const inner = context.args.slice(i + 1, end === -1 ? undefined : end);
    // What is found lies below each of the start paths.
    for (const { path } of placed) {
      const found = `${path.replace(/\/+$/, '')}/${UNKNOWN}`;
      context.walker.command(
        inner.map((arg) => ({ ...arg, text: arg.text.replaceAll('{}', path === '.' ? `./${UNKNOWN}` : found) })),
        copy(context.shell),
        flow(null),
        context.depth + 1,
      );
    }
    if (end === -1) break;
    i = end;
  }
  return flow(placed.map(({ path }) => `${path.replace(/\/+$/, '')}/${UNKNOWN}`).join('\n'));
};

const permissions: Rule = (context) => {
  const { flags, operands } = options(
    context.args.filter((arg) => !/^-[rwxXstugoa,=+-]+$/.test(arg.text) || /^-R/.test(arg.text)),
  );
  const recursive = flags.includes('-R') || hasLong(flags, '--recursive', 5);
  const reference = flags.includes('--reference');
  for (const path of operands.slice(reference ? 0 : 1)) {
    const where = judge(path, context);
    if (isForbidden(where) && (recursive || where !== 'home'))
      throw new Refuse(
        'permission-change',
        `${context.name} would change permissions or owner ${recursive ? 'recursively ' : ''}of ${JSON.stringify(show(path))}, ${placeName(where)}. Change only files inside the workspace.`,
      );
  }
};

function writeTo(path: string, context: RuleContext, name = context.name): void {
  const where = judge(path, context);
  if (where === 'device')
    throw new Refuse(
      'device-write',
      `${name} would write to ${JSON.stringify(show(path))}, a device (/dev, disk). Devices cannot be written.`,
    );
  if (isForbidden(where))
    throw new Refuse(
      'write-outside',
      `${name} would write to ${JSON.stringify(show(path))}, ${placeName(where)} (system files are read-only). Write inside the workspace or /tmp.`,
    );
}

const dd: Rule = (context) => {
  for (const { text } of context.args) if (text.startsWith('of=')) writeTo(text.slice(3), context);
};

/** Everything that is named is written. */
const writesAll =
  (valued = ''): Rule =>
  (context) => {
    for (const path of options(context.args, valued).operands) writeTo(path, context);
    return context.name === 'tee' ? flow(context.stdin.text, context.stdin.taints) : undefined;
  };

const truncate: Rule = writesAll('-s -r --size --reference');

const sed: Rule = (context) => {
  const { flags, operands, values } = options(context.args, '-e -f --expression --file');
  if (!flags.includes('-i') && !hasLong(flags, '--in-place', 4)) return;
  // `-i` may carry a suffix, which looks like more flags; operands are what counts.
  for (const path of operands.slice(values.size > 0 ? 0 : 1)) writeTo(path, context);
};

/** cp, mv, install, ln: the last operand, or -t, is written. */
const transfer: Rule = (context) => {
  const { operands, values } = options(context.args, '-t -S -m -o -g --target-directory --suffix --mode');
  const target = values.get('-t') ?? values.get('--target-directory');
  const sources = target === undefined ? operands.slice(0, -1) : operands;
  const to = target ?? (operands.length > 1 ? operands.at(-1) : undefined);
  if (context.name === 'mv') {
    for (const path of sources) {
      const where = judge(path, context);
      if (isForbidden(where))
        throw new Refuse(
          'move-outside',
          `mv would move away ${JSON.stringify(show(path))}, ${placeName(where)}. Move only files inside the workspace.`,
        );
    }
    if (to !== undefined && /^\/dev\/(null|zero|full)$/.test(to))
      throw new Refuse('move-outside', `mv to ${to} destroys what is moved. Use rm for files inside the workspace.`);
  }
  if (to !== undefined && !(context.name === 'ln' && judge(to, context) === 'home')) {
    const where = judge(to, context);
    if (where !== 'home') writeTo(to, context);
  }
};

const rsync: Rule = (context) => {
  const { operands } = options(
    context.args,
    '-e -f -T --exclude --include --filter --rsh --exclude-from --include-from',
  );
  const to = operands.length > 1 ? operands.at(-1)! : '';
  if (to === '' || /^[^/]+:/.test(to)) return;
  const where = judge(to, context);
  if (isForbidden(where) && context.args.some((arg) => arg.text.startsWith('--del')))
    refuseDelete('rsync --delete', to, where, true);
  writeTo(to, context);
};

const formatDevice: Rule = (context) => {
  const { flags, operands } = options(context.args, '-t -L -b -m -o -N -O -U -T -E -i -I -j --label --type');
  if (
    flags.includes('-l') ||
    flags.includes('--list') ||
    flags.includes('--help') ||
    flags.includes('-V') ||
    flags.includes('--version')
  )
    return;
  for (const path of [
    ...operands,
    ...context.args.filter((arg) => arg.text.startsWith('/dev/')).map((arg) => arg.text),
  ]) {
    const where = judge(path, context);
    if (where === 'device' || (path.startsWith('/') && isForbidden(where)))
      throw new Refuse(
        'format-device',
        `${context.name} would format or partition ${JSON.stringify(show(path))}, a device or file system. Use an image file in the workspace instead.`,
      );
  }
};

const power: Rule = (context) => {
  const words = texts(context.args);
  if (words.some((word) => word === '--help' || word === '--version')) return;
  if (context.name === 'init' || context.name === 'telinit') {
    if (!words.some((word) => /^[016s]$/i.test(word))) return;
  } else if (context.name === 'systemctl') {
    if (
      !words.some((word) => /^(poweroff|reboot|halt|kexec|suspend|hibernate|emergency|rescue|isolate|exit)$/.test(word))
    )
      return;
  } else if (
    context.name === 'loginctl' &&
    !words.some((word) => /^(poweroff|reboot|halt|suspend|hibernate|terminate-|kill-)/.test(word))
  )
    return;
  throw new Refuse(
    'power',
    `${context.name} would shut down or reboot (power off) the machine; a command cannot and must not.`,
  );
};

const kill: Rule = (context) => {
  const words = texts(context.args);
  let i = 0;
  if (words[0] !== undefined && /^-(l|L|-list|-table)$/.test(words[0])) return;
  for (; i < words.length; i++) {
    const word = words[i]!;
    if (word === '--') {
      i++;
      break;
    }
    if (/^-(s|n|-signal|q|-queue|-timeout)$/.test(word)) i++;
    else if (i === 0 && /^-(\d+|[A-Z][A-Z0-9+-]*)$/i.test(word) && words.length > 1) continue;
    else if (/^--(signal|queue)=/.test(word)) continue;
    else break;
  }
  if (words.slice(i).includes('-1'))
    throw new Refuse(
      'kill-all',
      'kill with -1 signals every process (all processes) that it may. Name the processes that the command started.',
    );
};

const killByName: Rule = (context) => {
  if (context.name === 'killall5')
    throw new Refuse('kill-all', 'killall5 kills every process. Name the processes that the command started.');
  const { flags, operands } = options(
    context.args.filter((arg) => !/^-([A-Z]{2,}|\d+)$/.test(arg.text)),
    '-s -g -G -P -t -u -U --signal',
  );
  const everything =
    operands.some((text) => /^(\.?\*?|\^?\.[*+]?\$?|\^|\$)$/.test(text)) ||
    (operands.length === 0 && (flags.includes('-u') || flags.includes('-U')));
  if (everything && (operands.length > 0 || context.args.length > 0))
    throw new Refuse(
      'kill-all',
      `${context.name} would kill every process (all processes). Name the processes that the command started.`,
    );
};

const privileges: Rule = (context) => {
  const words = texts(context.args);
  if (words.length === 1 && /^(--help|--version|-h|-V)$/.test(words[0]!)) return;
  if (
    (context.name === 'mount' || context.name === 'swapon') &&
    (words.length === 0 || words.every((word) => /^-(l|-show|s)$/.test(word)))
  )
    return;
  if (
    context.name === 'sysctl' &&
    !words.some((word) => word.includes('=') || /^(-w|--write|-p|--load|--system)/.test(word))
  )
    return;
  if (context.name === 'losetup' && words.every((word) => /^(-a|-l|--all|--list)$/.test(word))) return;
  throw new Refuse(
    'privileges',
    `${context.name} needs privileges (namespaces, mounts, kernel) that a command does not get. Work with the files in the workspace.`,
  );
};

const chroot: Rule = (context) => privileges(context);

const SHELLS = ['sh', 'bash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', 'fish', 'rbash', 'busybox-sh'];
const INTERPRETERS = [
  'python',
  'python2',
  'python3',
  'perl',
  'ruby',
  'node',
  'nodejs',
  'php',
  'lua',
  'deno',
  'bun',
  'pypy3',
];

/** What reaches a shell or interpreter as program text. */
function refuseTainted(taints: ReadonlySet<Taint>, receiver: string): void {
  if (taints.has('download'))
    throw new Refuse(
      'download-to-shell',
      `Downloaded (remote) text would be run by ${receiver} without being looked at, as curl | sh does. Save it to a file, read it, then run it.`,
    );
  if (taints.has('decode'))
    throw new Refuse(
      'decode-to-shell',
      `Decoded text (base64 or the like) would be run by ${receiver}, a shell at the end of a pipe, which hides what runs. Write the commands plainly.`,
    );
}

const shell: Rule = (context) => {
  const { args, walker, stdin, depth } = context;
  const inner = copy(context.shell);
  inner.functions.clear();
  let i = 0;
  let readsStdin = false;
  for (; i < args.length; i++) {
    const { text } = args[i]!;
    if (!/^[-+]/.test(text) || text === '-') break;
    if (text === '--') {
      i++;
      break;
    }
    if (/^(--rcfile|--init-file)$/.test(text)) {
      refuseTainted(args[++i]?.taints ?? new Set(), context.name);
      continue;
    }
    if (/^[-+][oO]$/.test(text)) {
      i++;
      continue;
    }
    if (/^-[a-zA-Z]*c/.test(text) && !text.startsWith('--')) {
      const script = args[i + 1];
      if (script === undefined) return;
      refuseTainted(script.taints, context.name);
      inner.positional = texts(args.slice(i + 3));
      return walker.script(script.text, inner, stdin, depth + 1);
    }
    if (/^-[a-zA-Z]*s/.test(text)) readsStdin = true;
  }
  const file = args[i];
  if (
    file !== undefined &&
    !readsStdin &&
    file.text !== '-' &&
    !/^\/(dev\/stdin|proc\/self\/fd\/0|dev\/fd\/0)$/.test(file.text)
  ) {
    // `bash <(curl …)`
    refuseTainted(file.taints, context.name);
    inner.positional = texts(args.slice(i + 1));
    return file.content === undefined ? flow(null) : walker.script(file.content, inner, stdin, depth + 1);
  }
  refuseTainted(stdin.taints, context.name);
  inner.positional = texts(args.slice(i));
  if (stdin.text !== null) return walker.script(stdin.text, inner, flow(null), depth + 1);
  return flow(null);
};

const interpreter: Rule = (context) => {
  const { args, stdin } = context;
  const code: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const { text, taints } = args[i]!;
    if (/^-[a-zA-Z]*[ceEpr]$/.test(text) || text === '--eval' || text === '--print') {
      refuseTainted(args[i + 1]?.taints ?? new Set(), context.name);
      code.push(args[++i]?.text ?? '');
    } else if (/^--(eval|print)=/.test(text)) code.push(text.slice(text.indexOf('=') + 1));
    else if (text === 'eval' && /^(deno|bun)$/.test(context.name)) code.push(args[++i]?.text ?? '');
    else if (text === '-m' || text === '-W' || text === '-X') i++;
    else if (!text.startsWith('-')) {
      refuseTainted(taints, context.name);
      if (code.length > 0) break;
      return;
    }
  }
  if (code.length === 0) {
    refuseTainted(stdin.taints, context.name);
    if (stdin.text !== null) code.push(stdin.text);
  }
  for (const text of code) judgeCode(text, context);
  return flow(null);
};

const awk: Rule = (context) => {
  const { operands } = options(context.args, '-F -v -f');
  if (operands[0] !== undefined) judgeCode(operands[0], context);
};

const evaluate: Rule = ({ args, shell: current, stdin, walker, depth }) => {
  for (const arg of args) {
    if (arg.taints.has('download'))
      throw new Refuse(
        'download-to-shell',
        'eval would run downloaded (remote) text without a look at it. Save it to a file, read it, then run it.',
      );
    if (arg.taints.has('decode'))
      throw new Refuse(
        'decode-to-shell',
        'eval would run decoded text (base64 or the like), which hides what the shell runs. Write the commands plainly.',
      );
  }
  return walker.script(texts(args).join(' '), current, stdin, depth + 1);
};

const source: Rule = (context) => {
  const file = context.args[0];
  if (file === undefined) return;
  refuseTainted(file.taints, context.name);
  if (/^\/(dev\/stdin|dev\/fd\/0|proc\/self\/fd\/0)$/.test(file.text)) {
    refuseTainted(context.stdin.taints, context.name);
    if (context.stdin.text !== null)
      return context.walker.script(context.stdin.text, context.shell, flow(null), context.depth + 1);
  }
  // Whatever a file does to variables is not known.
  return file.content === undefined
    ? flow(null)
    : context.walker.script(file.content, context.shell, flow(null), context.depth + 1);
};

const trap: Rule = ({ args, shell: current, walker, depth }) => {
  const words = texts(args).filter((word, index) => !(index === 0 && word === '--'));
  if (words.length < 2 || words[0] === '-' || words[0] === '' || words[0]!.startsWith('-')) return;
  walker.script(words[0]!, copy(current), flow(null), depth + 1);
};

const changeFolder: Rule = ({ args, shell: current, folders }) => {
  const target = texts(args).find((word) => word === '-' || !word.startsWith('-'));
  const before = current.cwd;
  if (target === undefined) current.cwd = folders.home;
  else if (target === '-') {
    const old = current.values.get('OLDPWD');
    current.cwd = typeof old === 'string' && old !== UNKNOWN ? old : null;
  } else if (target.includes(UNKNOWN)) current.cwd = null;
  else if (target === '~' || target.startsWith('~/')) current.cwd = posix.resolve(folders.home, `.${target.slice(1)}`);
  else
    current.cwd = target.startsWith('/')
      ? posix.resolve(target)
      : before === null
        ? null
        : posix.resolve(before, target);
  current.values.set('OLDPWD', before ?? UNKNOWN);
  current.values.set('PWD', current.cwd ?? UNKNOWN);
  return flow('');
};

const popFolder: Rule = ({ shell: current }) => {
  const old = current.values.get('OLDPWD');
  current.cwd = typeof old === 'string' && old !== UNKNOWN ? old : null;
};

const declare: Rule = ({ args, shell: current }) => {
  for (const { text, taints } of args) {
    const match = /^(\w+)=(.*)$/s.exec(text);
    if (match === null) continue;
    current.values.set(match[1]!, match[2]!);
    current.taints.set(match[1]!, taints);
  }
};

const setWords: Rule = ({ args, shell: current }) => {
  const words = texts(args);
  const from = words.indexOf('--');
  if (from !== -1) current.positional = words.slice(from + 1);
  else if (words.length > 0 && !/^[-+]/.test(words[0]!)) current.positional = words;
};

const shift: Rule = ({ args, shell: current }) => {
  if (current.positional !== null) current.positional = current.positional.slice(Number(args[0]?.text ?? 1) || 1);
};

const read: Rule = ({ args, shell: current, stdin }) => {
  const { operands, flags } = options(args, '-d -i -n -N -p -t -u -a');
  const first = stdin.text === null || stdin.text.includes(UNKNOWN) ? null : stdin.text.split('\n')[0]!.trim();
  operands.forEach((name, index) => {
    if (!/^\w+$/.test(name)) return;
    const words = first?.split(/\s+/) ?? [];
    current.values.set(
      name,
      first === null || flags.includes('-d')
        ? UNKNOWN
        : index === operands.length - 1
          ? words.slice(index).join(' ')
          : (words[index] ?? ''),
    );
  });
};

const unset: Rule = ({ args, shell: current }) => {
  for (const { text } of args) current.values.delete(text);
};

const echo: Rule = ({ args }) => {
  const words = texts(args);
  let escapes = false;
  let end = '\n';
  while (words[0] !== undefined && /^-[neE]+$/.test(words[0])) {
    if (words[0].includes('e')) escapes = true;
    if (words[0].includes('n')) end = '';
    words.shift();
  }
  const text = words.join(' ') + end;
  return flow(escapes ? unescape(text) : text, taintsOf(args));
};

const printf: Rule = ({ args, shell: current }) => {
  let rest = args;
  let variable: string | null = null;
  if (rest[0]?.text === '-v') {
    variable = rest[1]?.text ?? null;
    rest = rest.slice(2);
  }
  if (rest[0]?.text === '--') rest = rest.slice(1);
  const format = rest[0]?.text ?? '';
  const values = texts(rest.slice(1));
  let out = '';
  do {
    out += unescape(format).replace(/%(%|[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|\([^)]*\)T)/g, (_all, kind: string) => {
      if (kind === '%') return '%';
      const value = values.shift() ?? '';
      return kind.endsWith('b') ? unescape(value) : value;
    });
  } while (values.length > 0 && /%[^%]/.test(format) && out.length < 65_536);
  if (variable !== null) {
    current.values.set(variable, out);
    return flow('');
  }
  return flow(out, taintsOf(args));
};

function taintsOf(args: readonly Resolved[]): Set<Taint> {
  return new Set(args.flatMap((arg) => [...arg.taints]));
}

function unescape(text: string): string {
  return text.replace(/\\(x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|u[0-9a-fA-F]{1,4}|[abefnrtv\\'"])/g, (_all, code: string) => {
    if (code.startsWith('x') || code.startsWith('u')) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
    return (
      ({ a: '\x07', b: '\b', e: '\x1b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' } as Record<string, string>)[
        code
      ] ?? code
    );
  });
}

/** Copies its input when it names no file. */
const cat: Rule = ({ args, stdin }) => {
  const { operands } = options(args);
  const taints = new Set([...stdin.taints, ...taintsOf(args)]);
  return operands.length === 0 || (operands.length === 1 && operands[0] === '-')
    ? flow(stdin.text, taints)
    : flow(null, taints);
};

const download: Rule = (context) => {
  // `curl -o /etc/x`
  const { values } = options(
    context.args,
    context.name === 'wget'
      ? '-O -P -o --output-document --directory-prefix'
      : '-o --output --output-dir -H -d -X -u -A',
  );
  for (const name of ['-o', '-O', '-P', '--output', '--output-document', '--output-dir', '--directory-prefix']) {
    const path = values.get(name);
    if (path !== undefined && path !== '-') writeTo(path, context);
  }
  return flow(null, ['download']);
};

/** Programs that turn unreadable text into readable text, where their options say so. */
const decode =
  (isDecoding: (words: readonly string[]) => boolean): Rule =>
  ({ args, stdin }) =>
    flow(null, isDecoding(texts(args)) ? [...stdin.taints, 'decode'] : stdin.taints);
const flagged =
  (pattern: RegExp) =>
  (words: readonly string[]): boolean =>
    words.some((word) => pattern.test(word));
const always = (): boolean => true;

const translate: Rule = ({ args, stdin }) => {
  const [from = '', to = ''] = texts(args.filter((arg) => !arg.text.startsWith('-')));
  // A change of letters is a cipher; a change of case, of blanks or line ends, or a deletion, is not.
  const plain = /^\[?(?:a-z|A-Z|\[?:(?:lower|upper):\]?)\]?$/;
  const cipher = /[a-zA-Z]/.test(from) && /[a-zA-Z]/.test(to) && !(plain.test(from) && plain.test(to));
  return flow(null, cipher ? [...stdin.taints, 'decode'] : stdin.taints);
};

/** `$(which rm)` names what it asks for. */
const which: Rule = ({ args }) => {
  const name = texts(args).findLast((word) => !word.startsWith('-'));
  return name === undefined || name.includes(UNKNOWN) ? undefined : flow(`${name}\n`);
};

const basename: Rule = ({ args }) => {
  const { text } = args[0] ?? { text: UNKNOWN };
  return text.includes(UNKNOWN) || text.startsWith('-') ? undefined : flow(`${posix.basename(text)}\n`);
};

const dirname: Rule = ({ args }) => {
  const { text } = args[0] ?? { text: UNKNOWN };
  return text.includes(UNKNOWN) || text.startsWith('-') ? undefined : flow(`${posix.dirname(text)}\n`);
};

const printFolder: Rule = ({ shell: current }) => (current.cwd === null ? undefined : flow(`${current.cwd}\n`));

/** Runs later what it reads now. */
const later: Rule = (context) => {
  refuseTainted(context.stdin.taints, context.name);
  if (context.stdin.text !== null)
    context.walker.script(context.stdin.text, copy(context.shell), flow(null), context.depth + 1);
};

const runsText =
  (option: RegExp): Rule =>
  ({ args, shell: current, stdin, walker, depth }) => {
    const words = texts(args);
    const at = words.findIndex((word) => option.test(word));
    if (at !== -1 && words[at + 1] !== undefined) {
      refuseTainted(args[at + 1]!.taints, words[at]!);
      walker.script(words[at + 1]!, copy(current), stdin, depth + 1);
    }
  };

const git: Rule = (context) => {
  const words = texts(context.args);
  let folder = context.shell.cwd ?? UNKNOWN;
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (word === '-C') folder = words[++i] ?? folder;
    else if (/^--(work-tree|git-dir)=/.test(word)) folder = word.slice(word.indexOf('=') + 1);
    else if (word === '-c') {
      const alias = /^alias\.[\w-]+=!(.*)$/s.exec(words[++i] ?? '');
      if (alias !== null) context.walker.script(alias[1]!, copy(context.shell), flow(null), context.depth + 1);
    } else if (!word.startsWith('-')) {
      const where = judge(folder, context);
      if (word === 'clean' && isForbidden(where)) refuseDelete('git clean', folder, where, true);
      return;
    }
  }
};

const tar: Rule = (context) => {
  for (const { text } of context.args) {
    const action = /^--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command)=(.*)$/s.exec(text);
    if (action !== null) context.walker.script(action[1]!, copy(context.shell), flow(null), context.depth + 1);
  }
  const { values, flags } = options(
    context.args.map((arg, index) =>
      index === 0 && /^[a-zA-Z]+$/.test(arg.text) ? { ...arg, text: `-${arg.text}` } : arg,
    ),
    '-C -f --directory --file',
  );
  const into = values.get('-C') ?? values.get('--directory');
  if (into !== undefined && (flags.includes('-x') || flags.includes('--extract'))) writeTo(into, context);
};

const crontab: Rule = (context) => {
  if (context.args.some((arg) => arg.text === '-r')) refuseDelete('crontab -r', 'the crontab', 'outside', false);
};

/** Rules by the name of the command. */
export const COMMAND_RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['rm', remove],
  ['unlink', remove],
  ['rmdir', remove],
  ['srm', remove],
  [
    'rimraf',
    (context) => remove({ ...context, args: [{ text: '-r', quoted: false, taints: new Set() }, ...context.args] }),
  ],
  ['shred', shred],
  ['wipe', shred],
  ['find', find],
  ['fd', find],
  ['chmod', permissions],
  ['chown', permissions],
  ['chgrp', permissions],
  ['chattr', permissions],
  ['setfacl', permissions],
  ['dd', dd],
  ['tee', writesAll('--output-error')],
  ['sponge', writesAll()],
  ['truncate', truncate],
  ['fallocate', writesAll('-l -o --length --offset')],
  ['sed', sed],
  ['cp', transfer],
  ['mv', transfer],
  ['install', transfer],
  ['ln', transfer],
  ['rsync', rsync],
  ...[
    'mkfs',
    'mke2fs',
    'mkswap',
    'mkdosfs',
    'wipefs',
    'blkdiscard',
    'fdisk',
    'sfdisk',
    'cfdisk',
    'gdisk',
    'sgdisk',
    'parted',
    'partprobe',
    'hdparm',
    'cryptsetup',
    'mdadm',
    'badblocks',
    'nwipe',
  ].map((name): [string, Rule] => [name, formatDevice]),
  ...[
    'ext2',
    'ext3',
    'ext4',
    'xfs',
    'btrfs',
    'vfat',
    'fat',
    'msdos',
    'ntfs',
    'exfat',
    'f2fs',
    'minix',
    'cramfs',
    'bfs',
    'reiserfs',
    'jfs',
  ].map((name): [string, Rule] => [`mkfs.${name}`, formatDevice]),
  ...['shutdown', 'reboot', 'poweroff', 'halt', 'init', 'telinit', 'systemctl', 'loginctl'].map(
    (name): [string, Rule] => [name, power],
  ),
  ['kill', kill],
  ['pkill', killByName],
  ['killall', killByName],
  ['killall5', killByName],
  ['skill', killByName],
  ...[
    'unshare',
    'nsenter',
    'mount',
    'umount',
    'pivot_root',
    'bwrap',
    'capsh',
    'setcap',
    'insmod',
    'modprobe',
    'rmmod',
    'kexec',
    'losetup',
    'swapon',
    'swapoff',
    'sysctl',
    'lxc-unshare',
    'ip-netns',
  ].map((name): [string, Rule] => [name, privileges]),
  ['chroot', chroot],
  ['switch_root', chroot],
  ...SHELLS.map((name): [string, Rule] => [name, shell]),
  ...INTERPRETERS.map((name): [string, Rule] => [name, interpreter]),
  ...['python3.9', 'python3.10', 'python3.11', 'python3.12', 'python3.13', 'python3.14', 'perl5'].map(
    (name): [string, Rule] => [name, interpreter],
  ),
  ...['awk', 'gawk', 'mawk', 'nawk'].map((name): [string, Rule] => [name, awk]),
  ['eval', evaluate],
  ['source', source],
  ['.', source],
  ['trap', trap],
  ['cd', changeFolder],
  ['chdir', changeFolder],
  ['pushd', changeFolder],
  ['popd', popFolder],
  ...['export', 'declare', 'typeset', 'local', 'readonly'].map((name): [string, Rule] => [name, declare]),
  ['set', setWords],
  ['shift', shift],
  ['read', read],
  ['unset', unset],
  ['echo', echo],
  ['printf', printf],
  ['cat', cat],
  ['tac', cat],
  ...[
    'curl',
    'wget',
    'fetch',
    'aria2c',
    'axel',
    'lynx',
    'links',
    'http',
    'https',
    'nc',
    'ncat',
    'netcat',
    'socat',
    'ftp',
    'tftp',
    'GET',
    'lwp-request',
    'w3m',
  ].map((name): [string, Rule] => [name, download]),
  ['base64', decode(flagged(/^(-[a-zA-Z]*[dD]|--d.*)$/))],
  ['base32', decode(flagged(/^(-[a-zA-Z]*[dD]|--d.*)$/))],
  ['basenc', decode(flagged(/^(-[a-zA-Z]*[dD]|--d.*)$/))],
  ['xxd', decode(flagged(/^-[a-z]*r/))],
  ['openssl', decode(flagged(/^(-d|-decode|base64|enc)$/))],
  ['uudecode', decode(always)],
  ['gpg', decode(flagged(/^(-d|--decrypt)$/))],
  ['rev', decode(always)],
  ['rot13', decode(always)],
  ['tr', translate],
  ...['gunzip', 'zcat', 'bunzip2', 'bzcat', 'unxz', 'xzcat', 'lzcat', 'zstdcat', 'unzstd', 'uncompress', 'brotli'].map(
    (name): [string, Rule] => [name, decode(always)],
  ),
  ...['gzip', 'bzip2', 'xz', 'zstd', 'lz4'].map((name): [string, Rule] => [
    name,
    decode(flagged(/^(-[a-zA-Z0-9]*d|--decompress|--uncompress)/)),
  ]),
  ['which', which],
  ['basename', basename],
  ['dirname', dirname],
  ['pwd', printFolder],
  ['at', later],
  ['batch', later],
  ['su', runsText(/^(-[a-z]*c|--command)$/)],
  ['script', runsText(/^(-[a-z]*c|--command)$/)],
  ['git', git],
  ['tar', tar],
  ['bsdtar', tar],
  ['crontab', crontab],
]);
