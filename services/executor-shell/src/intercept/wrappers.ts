import { type Flow, type Shell } from './walker.js';
import { type Resolved, UNKNOWN } from './words.js';
import { posix } from 'node:path';

/** Options of a wrapper that take a value in the next word. */
const VALUE_OPTIONS: ReadonlyMap<string, string> = new Map([
  ['env', 'uSC'],
  ['nice', 'n'],
  ['ionice', 'cnp'],
  ['chrt', 'TPD'],
  ['timeout', 'ks'],
  ['nohup', ''],
  ['setsid', ''],
  ['sudo', 'ugpCDhRrtT'],
  ['doas', 'uC'],
  ['exec', 'a'],
  ['command', ''],
  ['builtin', ''],
  ['busybox', ''],
  ['toybox', ''],
  ['stdbuf', 'ioe'],
  ['time', 'of'],
  ['unbuffer', ''],
  ['catchsegv', ''],
  ['strace', 'oeEpsSau'],
  ['ltrace', 'oeps'],
  ['faketime', ''],
  ['firejail', ''],
  ['proot', 'rbw'],
  ['fakeroot', 'lis'],
  ['setarch', ''],
  ['linux64', ''],
  ['linux32', ''],
  ['taskset', 'p'],
  ['numactl', 'NmCpi'],
  ['prlimit', ''],
  ['setpriv', ''],
  ['runuser', 'ugG'],
  ['gosu', ''],
  ['su-exec', ''],
  ['cgexec', 'g'],
  ['xargs', 'IndPLsaEe'],
  ['parallel', 'jIaN'],
  ['watch', 'n'],
  ['flock', 'wE'],
  ['ld.so', ''],
  ['eatmydata', ''],
  ['rlwrap', ''],
  ['caffeinate', ''],
  ['coproc', ''],
]);
/** Wrappers whose first operand is not the command. */
const SKIP_OPERANDS: ReadonlyMap<string, number> = new Map([
  ['timeout', 1],
  ['chrt', 1],
  ['taskset', 1],
  ['flock', 1],
  ['faketime', 1],
  ['setarch', 1],
  ['gosu', 1],
  ['su-exec', 1],
]);

export interface Unwrapped {
  fields: Resolved[];
  /** Set where the wrapper hands a text to a shell. */
  script?: string;
  /** Set where the wrapper changes the folder. */
  cwd?: string | null;
}

/** Takes wrappers such as `env -i nice timeout 5` off a command. */
export function unwrap(fields: Resolved[], shell: Shell, stdin: Flow): Unwrapped {
  let rest = fields;
  let cwd: string | null | undefined;
  for (let turn = 0; turn < 32 && rest.length > 0; turn++) {
    const text = rest[0]!.text;
    const name = /\/ld-linux[^/]*\.so[.\d]*$|\/ld-musl/.test(text) ? 'ld.so' : text.slice(text.lastIndexOf('/') + 1);
    // A function of that name comes first.
    if (shell.functions.has(text)) break;
    const withValue = VALUE_OPTIONS.get(name);
    if (withValue === undefined) break;
    const step = strip(name, withValue, rest.slice(1), stdin);
    if (step.script !== undefined) return { fields: [], script: step.script };
    if (step.cwd !== undefined) {
      const base: string | null = cwd === undefined ? shell.cwd : cwd;
      cwd =
        step.cwd.includes(UNKNOWN) || (base === null && !step.cwd.startsWith('/'))
          ? null
          : posix.resolve(base ?? '/', step.cwd);
    }
    // What merely asks about a command (`command -v rm`) runs nothing; a bare `exec` only redirects.
    if (step.fields.length === 0) return { fields: [], ...(cwd === undefined ? {} : { cwd }) };
    rest = step.fields;
  }
  return { fields: rest, ...(cwd === undefined ? {} : { cwd }) };
}

function strip(
  name: string,
  withValue: string,
  args: Resolved[],
  stdin: Flow,
): { fields: Resolved[]; script?: string; cwd?: string } {
  let i = 0;
  let cwd: string | undefined;
  let replace: string | null = null;
  for (; i < args.length; i++) {
    const arg = args[i]!.text;
    if (name === 'env' && /^\w+=/.test(arg)) continue;
    if ((name === 'sudo' || name === 'doas') && /^[A-Za-z_]\w*=/.test(arg)) continue;
    if (arg === '--') {
      i++;
      break;
    }
    if (!arg.startsWith('-') || arg === '-') {
      if (name === 'env' && arg === '-') continue;
      break;
    }
    if (name === 'command' && /^-[vV]/.test(arg)) return { fields: [] };
    if (name === 'env') {
      const split = /^(?:-S|--split-string=?)(.*)$/s.exec(arg);
      if (split !== null)
        return {
          fields: [],
          script: [
            split[1] === '' ? (args[++i]?.text ?? '') : split[1]!,
            ...args.slice(i + 1).map((next) => quote(next.text)),
          ].join(' '),
        };
      const chdir = /^(?:-C|--chdir=?)(.*)$/s.exec(arg);
      if (chdir !== null) {
        cwd = chdir[1] === '' ? (args[++i]?.text ?? '') : chdir[1]!;
        continue;
      }
    }
    if (name === 'flock' && (arg === '-c' || arg === '--command'))
      return { fields: [], script: args[i + 1]?.text ?? '' };
    if (name === 'xargs' || name === 'parallel') {
      const marker = /^(?:-I|--replace=?|-i)(.*)$/s.exec(arg);
      if (marker !== null) {
        replace = marker[1] !== '' ? marker[1]! : arg === '-I' ? (args[++i]?.text ?? '{}') : '{}';
        continue;
      }
    }
    if (/^-[A-Za-z]$/.test(arg) && withValue.includes(arg[1]!)) i++;
    else if (
      /^--(signal|kill-after|adjustment|user|group|unset|max-args|max-procs|arg-file|delimiter|cpu-list|interval|wait|timeout)$/.test(
        arg,
      )
    )
      i++;
  }
  if (name === 'flock' && args[i + 1]?.text === '-c') return { fields: [], script: args[i + 2]?.text ?? '' };
  i += SKIP_OPERANDS.get(name) ?? 0;
  let fields = args.slice(i);
  if (name === 'xargs' || name === 'parallel') {
    const given = stdin.text === null ? [UNKNOWN] : stdin.text.split(/[\s\0]+/).filter(Boolean);
    const marker: string | null =
      replace ?? (name === 'parallel' && fields.some((field) => field.text.includes('{}')) ? '{}' : null);
    if (fields.length === 0) return { fields: [] };
    if (marker !== null)
      fields = fields.map((field) =>
        field.text.includes(marker)
          ? {
              quoted: field.quoted,
              text: field.text.split(marker).join(stdin.text?.trimEnd() ?? UNKNOWN),
              taints: new Set([...field.taints, ...stdin.taints]),
            }
          : field,
      );
    else
      fields = [
        ...fields,
        ...given.slice(0, 256).map((text): Resolved => ({ text, quoted: true, taints: new Set(stdin.taints) })),
      ];
  }
  if (name === 'watch' && fields.length > 0) return { fields: [], script: fields.map((field) => field.text).join(' ') };
  return { fields, ...(cwd === undefined ? {} : { cwd }) };
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
