import { isForbidden, judgePath, placeName } from './paths.js';
import { copy, Refuse, type RuleContext, show } from './walker.js';

// Inline programs are not parsed: a short list of shapes that appear in accidents and attacks, judged by their literal
// arguments. Whatever else they do happens inside the sandbox.
const STRING = String.raw`(?:r|f|b)?(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|\x60((?:[^\x60\\]|\\.)*)\x60|q[qx]?\{([^}]*)\})`;
const call = (names: string): RegExp => new RegExp(String.raw`(?:${names})\s*\(?\s*(?:\[\s*)?${STRING}`, 'g');

/** Calls that delete a tree. */
const DELETES = call(
  String.raw`\brmtree|\bremovedirs|\brmSync|\brmdirSync|\brm_rf|\brm_r|\bremove_dir_all|\bremove_tree|\bremove_entry_secure|\brimraf|\bfs\.(?:promises\.)?(?:rm|rmdir)|\bfsp?\.rm|\bemptyDirSync|\bremoveSync`,
);
/** Calls that hand a text to a shell. */
const SHELLS_OUT = call(
  String.raw`\bos\.system|\bsystem|\bpopen2?|\bgetoutput|\bgetstatusoutput|\bcheck_output|\bcheck_call|\bsubprocess\.(?:run|call|Popen)|\bPopen|\bexecSync|\bspawnSync|\bexecFileSync|\bexec|\bspawn|\bshell_exec|\bpassthru|\bos\.execute|\bqx`,
);
const OPENS_FOR_WRITING = new RegExp(
  String.raw`\bopen\s*\(?\s*${STRING}\s*,\s*(?:mode\s*=\s*)?['"][^'"]*[wa+][^'"]*['"]|\b(?:writeFileSync|appendFileSync|writeFile|file_put_contents)\s*\(\s*${STRING}`,
  'g',
);
const MOVES = call(
  String.raw`\bshutil\.move|\bos\.rename|\brenameSync|\bos\.(?:remove|unlink)|\bunlinkSync|\bos\.chmod|\bchmodSync`,
);
const DECODES_AND_RUNS =
  /\b(exec|eval|system|Function|popen|execSync)\b[^;\n]{0,200}(b64decode|base64|fromhex|unhexlify|zlib\.decompress|marshal\.loads|Buffer\.from\([^)]*(base64|hex)|decode64|pack\(|atob)/;
const DOWNLOADS_AND_RUNS =
  /\b(exec|eval|system|Function|popen|execSync)\b[^;\n]{0,200}(urlopen|requests\.get|urllib|http\.get|fetch\(|curl |wget )/;
const KILLS_ALL = /\bkill\s*\(?\s*(?:(?:9|'?(?:SIG)?KILL'?|"(?:SIG)?KILL"|:KILL)\s*(?:,|=>)\s*)?-1\b/;
const BACKTICKS = /`((?:[^`\\]|\\.)*)`/g;
const FORKS_FOR_EVER =
  /(while\s*(\(?\s*(1|True|true)\s*\)?)\s*:?\s*\{?[^;\n]{0,40}\bfork\b|\bfork\s+while\s+(1|fork|true)|for\s*\(;;\)\s*\{?[^}]{0,40}fork|loop\s*\{[^}]{0,40}fork|while\s+True\s*:\s*os\.fork)/;

/** Judges inline code. @throws Refuse */
export function judgeCode(code: string, context: RuleContext): void {
  const text = code.slice(0, 65_536);
  const { folders, name, walker, shell, depth } = context;
  for (const path of literals(DELETES, text)) {
    const where = judgePath(path, folders);
    if (isForbidden(where))
      throw new Refuse(
        'destructive-delete',
        `The inline ${name} code would recursively delete ${JSON.stringify(show(path))}, ${placeName(where)}. Delete only paths inside the workspace.`,
      );
  }
  for (const path of [...literals(OPENS_FOR_WRITING, text), ...literals(MOVES, text)]) {
    const where = judgePath(path, folders);
    if (isForbidden(where))
      throw new Refuse(
        where === 'device' ? 'device-write' : 'write-outside',
        `The inline ${name} code would change ${JSON.stringify(show(path))}, ${placeName(where)} (system files and devices are read-only). Write inside the workspace.`,
      );
  }
  if (DECODES_AND_RUNS.test(text))
    throw new Refuse(
      'decode-to-shell',
      `The inline ${name} code runs decoded text, which hides what it does. Write the code plainly.`,
    );
  if (DOWNLOADS_AND_RUNS.test(text))
    throw new Refuse(
      'download-to-shell',
      `The inline ${name} code runs downloaded (remote) text. Save it to a file, read it, then run it.`,
    );
  if (FORKS_FOR_EVER.test(text))
    throw new Refuse(
      'fork-bomb',
      `The inline ${name} code forks without an end (a fork bomb). Bound the number of processes.`,
    );
  if (KILLS_ALL.test(text))
    throw new Refuse(
      'kill-all',
      `The inline ${name} code signals every process (all processes). Name the processes that it started.`,
    );
  const scripts = literals(SHELLS_OUT, text);
  if (/^(ruby|perl5?|php)$/.test(name)) scripts.push(...literals(BACKTICKS, text));
  for (const script of scripts) {
    const list = /^[\w./-]+$/.test(script) ? [script, ...following(text, script)].join(' ') : script;
    walkQuietly(() => walker.script(list, copy(shell), { text: null, taints: new Set() }, depth + 1));
  }
}

/** What looks like a command may be no shell at all; only a refusal counts. */
function walkQuietly(action: () => void): void {
  try {
    action();
  } catch (error) {
    if (error instanceof Refuse) throw error;
  }
}

function literals(pattern: RegExp, text: string): string[] {
  return [...text.matchAll(pattern)].map((match) =>
    (match.slice(1).find((group) => group !== undefined) ?? '').replace(/\\(.)/g, '$1'),
  );
}

/** The other literals of a list such as `['rm', '-rf', '/']`. */
function following(text: string, first: string): string[] {
  const at = text.indexOf(first);
  const rest = text.slice(at + first.length + 1, at + first.length + 400);
  const end = rest.search(/\)\s*(;|$|\n)/);
  return literals(new RegExp(STRING, 'g'), end === -1 ? rest : rest.slice(0, end));
}
