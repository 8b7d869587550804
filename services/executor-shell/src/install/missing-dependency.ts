// Which package would a failed command have needed? Pure; the text it reads was written by whatever the command ran.

/** What may be installed, and under which name. */
export interface InstallPolicy {
  import_to_package: Readonly<Record<string, string>>;
  program_to_package: Readonly<Record<string, string>>;
  allow_list: Readonly<Record<'pip' | 'npm' | 'apt', readonly string[]>>;
}

export interface FailedCommand {
  exitCode: number | null;
  /** Both streams where the tool prints errors on stdout, else stderr. */
  text: string;
  /** Paths in the workspace, relative to it: a missing module of that name is a wrong path, not a missing package. */
  workspaceFiles?: readonly string[];
}

export type Missing = { manager: 'pip' | 'npm' | 'apt'; package: string } | { manager: null; reason: string };

const none = (reason: string): Missing => ({ manager: null, reason });

// Standard modules that a build may lack, and those that people mistake for packages; the index has decoys for many.
const PYTHON_STANDARD = new Set(
  'abc argparse array ast asyncio audioop base64 binascii bisect builtins bz2 calendar cgi cmath cmd code codecs collections concurrent configparser contextlib contextvars copy copyreg cProfile crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox marshal math mimetypes mmap msilib multiprocessing netrc nntplib ntpath numbers operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtplib sndhdr socket socketserver spwd sqlite3 sre_compile ssl stat statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios test textwrap threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo'.split(
    ' ',
  ),
);
const NODE_BUILTIN = new Set(
  'assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl stream string_decoder sys test timers tls trace_events tty url util v8 vm wasi worker_threads zlib'.split(
    ' ',
  ),
);
const PYTHON_NAME = /^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$/;
const NPM_NAME = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/;
const PROGRAM_NAME = /^[A-Za-z0-9][A-Za-z0-9._+-]*$/;
const COLOURS = /\x1b\[[0-9;]*[A-Za-z]/g;
/** The end of the text is where the error is; more is not searched. */
const MOST_CHARS = 64 * 1024;

interface Form {
  pattern: RegExp;
  judge: (match: RegExpMatchArray, command: FailedCommand, policy: InstallPolicy) => Missing;
}

/** The messages that are understood; each match has a place, and the last one in the text counts. */
const FORMS: readonly Form[] = [
  {
    pattern:
      /^.*?(?:ModuleNotFoundError|ImportError): No module named '([^'\n]*)'(?:; '([^'\n]*)' is not a package)?.*$/gm,
    judge: (match, ...rest) => python(match[1]!, match[2], ...rest),
  },
  {
    pattern: /^.*?(?:ModuleNotFoundError|ImportError): No module named "([^"\n]*)".*$/gm,
    judge: (match, ...rest) => python(match[1]!, undefined, ...rest),
  },
  // Python 2 and `python -m`
  {
    pattern: /^(?:ImportError: No module named|\S*python[\d.]*: No module named) ([^'"\n]*)$/gm,
    judge: (match, ...rest) => python(match[1]!.trim().replace(/\.__main__$/, ''), undefined, ...rest),
  },
  {
    pattern: /^\S*python[\d.]*: Error while finding module specification for '([^'\n]*)' .*$/gm,
    judge: (match, ...rest) => python(match[1]!, undefined, ...rest),
  },
  { pattern: /^.*?ImportError: cannot import name .*$/gm, judge: () => none('name missing in an installed module') },
  {
    pattern: /^.*?Error: Cannot find module '([^'\n]*)'(?: imported from .*)?$/gm,
    judge: (match, ...rest) => node(match[1]!, ...rest),
  },
  {
    pattern: /^.*?Cannot find package '([^'\n]*)' imported from .*$/gm,
    judge: (match, ...rest) => node(match[1]!, ...rest),
  },
  { pattern: /^.*?No such built-in module: (\S*).*$/gm, judge: () => none('builtin') },
  {
    pattern:
      /^.*?error TS(?:2307|7016|2792): (?:Cannot find module|Could not find a declaration file for module) '([^'\n]*)'.*$/gm,
    judge: (match, ...rest) => node(match[1]!, ...rest),
  },
  {
    pattern:
      /^.*?(?:Module not found: Error: Can't resolve|Failed to resolve import|Could not resolve) ['"]([^'"\n]*)['"].*$/gm,
    judge: (match, ...rest) => node(match[1]!, ...rest),
  },
  {
    pattern: /^.*?(?:sh|bash|dash|zsh)(?::[^:\n]*)?: (?:line )?(?:\d+: )?([^:\n]+): (?:command )?not found$/gm,
    judge: (match, command, policy) => program(match[1]!.trim(), policy),
  },
  {
    pattern:
      /^(?:env|\/usr\/bin\/env|xargs|sudo): [‘'"]?([^’'":\n]+)[’'"]?: (?:No such file or directory|command not found)$/gm,
    judge: (match, command, policy) => program(match[1]!, policy),
  },
  { pattern: /^.*?: (\.{0,2}\/\S*): No such file or directory$/gm, judge: () => none('path') },
];

/**
 * Reads what a finished command said and names the package that it missed, if the policy allows it. A name that is only
 * similar to an allowed one, that carries anything but a name, or that belongs to the workspace, is never answered.
 */
export function missingDependency(command: FailedCommand, policy: InstallPolicy): Missing {
  if (command.exitCode === null || command.exitCode === 0) return none('command succeeded');
  const text = command.text.slice(-MOST_CHARS).replace(COLOURS, '');
  let last: { at: number; judge: () => Missing } | undefined;
  for (const { pattern, judge } of FORMS) {
    for (const match of text.matchAll(pattern)) {
      if (last === undefined || match.index >= last.at)
        last = { at: match.index, judge: () => judge(match, command, policy) };
    }
  }
  return last === undefined ? none('not a missing dependency') : last.judge();
}

function python(name: string, parent: string | undefined, command: FailedCommand, policy: InstallPolicy): Missing {
  if (!PYTHON_NAME.test(name)) return none('invalid name');
  if (parent !== undefined) return none('parent was found');
  const top = name.split('.')[0]!;
  if (isLocal(top, ['.py', '.pyi', '.so', '.pyx'], command)) return none('local module');
  const mapped = Object.hasOwn(policy.import_to_package, name)
    ? policy.import_to_package[name]
    : Object.hasOwn(policy.import_to_package, top)
      ? policy.import_to_package[top]
      : undefined;
  // What the standard library dropped may live on as a package, but only where the map says so.
  if (mapped === undefined && (top.startsWith('_') || PYTHON_STANDARD.has(top))) return none('standard library');
  return allowed('pip', mapped ?? top, policy, pythonKey);
}

function node(name: string, command: FailedCommand, policy: InstallPolicy): Missing {
  if (/^\.{1,2}(\/|$)/.test(name)) return none('relative path');
  if (name.startsWith('/') || /^[A-Za-z]:[\\/]/.test(name) || name.startsWith('file:')) return none('absolute path');
  if (name.startsWith('node:')) return none('builtin');
  if (name.startsWith('#')) return none('local import');
  const parts = name.split('/');
  if (parts.some((part) => part === '..' || part === '.' || part === '')) return none('invalid name');
  const top = name.startsWith('@') ? parts.slice(0, 2).join('/') : parts[0]!;
  if (!NPM_NAME.test(top) || top.length > 214 || !/^[\w@./+~-]*$/.test(name)) return none('invalid name');
  if (NODE_BUILTIN.has(top)) return none('builtin');
  if (isLocal(top, ['.js', '.ts', '.mjs', '.cjs', '.tsx', '.jsx', '.json'], command)) return none('local module');
  return allowed('npm', top, policy, (text) => text);
}

function program(name: string, policy: InstallPolicy): Missing {
  if (name.includes('/')) return none('path');
  if (!PROGRAM_NAME.test(name)) return none('invalid name');
  const mapped = Object.hasOwn(policy.program_to_package, name) ? policy.program_to_package[name]! : name;
  return allowed('apt', mapped, policy, (text) => text);
}

function allowed(
  manager: 'pip' | 'npm' | 'apt',
  name: string,
  policy: InstallPolicy,
  key: (text: string) => string,
): Missing {
  const found = policy.allow_list[manager].find((entry) => key(entry) === key(name));
  return found === undefined ? none('not on the allow-list') : { manager, package: found };
}

/** Names on the Python index ignore case and the kind of separator. */
function pythonKey(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, '-');
}

/** A file, a package folder or a workspace member of that name. */
function isLocal(name: string, extensions: readonly string[], { workspaceFiles }: FailedCommand): boolean {
  const last = name.slice(name.lastIndexOf('/') + 1);
  return (workspaceFiles ?? []).some((path) => {
    const parts = path.split('/');
    const file = parts.at(-1)!;
    if (extensions.some((extension) => file === `${last}${extension}`) || file === last) return true;
    // node_modules and site-packages hold what is installed, not what is ours.
    return !parts.includes('node_modules') && !parts.includes('site-packages') && parts.slice(0, -1).includes(last);
  });
}
