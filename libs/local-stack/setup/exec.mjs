// Child processes of the set-up: always on the pinned Node, always from the root of the checkout.
import { spawn, spawnSync } from 'node:child_process';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The checkout. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');

/** A failure that the reader can do something about: its message is all that is printed. 7 says "not to be had". */
export class SetupError extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

const bin = join(root, 'node_modules', '.bin');

/** Programs of npm packages, run as `node <file>`: a shebang would pick whatever `node` is first on PATH. */
const SCRIPTS = new Set(['tsc', 'vitest', 'nx', 'prettier', 'buf']);

const tools = new Map();

/** Says which file is run for a tool's name. */
export function setTool(name, file) {
  tools.set(name, file);
}

/** PATH without node_modules/.bin folders: what the machine itself offers. npm puts them first for its scripts. */
export function systemPath() {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => !/[\\/]node_modules[\\/]\.bin[\\/]?$/.test(folder))
    .join(delimiter);
}

/** The environment of everything that is run: the pinned Node first on PATH, no daemon and no cloud for nx. */
export function environment() {
  return {
    ...process.env,
    PATH: [bin, systemPath()].join(delimiter),
    NX_DAEMON: 'false',
    NX_NO_CLOUD: 'true',
    // The terminal UI of nx redraws the screen; a log should be a log.
    NX_TUI: 'false',
  };
}

function commandOf(tool, args) {
  const pinned = tools.get('node');
  if (tool === 'node') return [pinned, args];
  if (SCRIPTS.has(tool)) return [pinned, [join(bin, tool), ...args]];
  return [tool, args];
}

/** Runs a tool to its end with our terminal; resolves with its exit code (128 + signal when it was killed). */
export function run(tool, args, { cwd = root, env = environment(), stdio = 'inherit' } = {}) {
  const [command, argv] = commandOf(tool, args);
  const child = spawn(command, argv, { cwd, env, stdio });
  // Ctrl-C reaches the child through the terminal, as it does us: the child decides when we end. What is sent to us
  // alone is passed on.
  const pass = (signal) => child.kill(signal);
  const ignore = () => {};
  process.on('SIGINT', ignore);
  process.on('SIGTERM', pass);
  process.on('SIGHUP', pass);
  return new Promise((done, fail) => {
    child.once('error', (error) => fail(new SetupError(`${command} could not be started: ${error.message}`)));
    child.once('exit', (code, signal) => done(code ?? 128 + (SIGNALS[signal] ?? 1)));
  }).finally(() => {
    process.off('SIGINT', ignore);
    process.off('SIGTERM', pass);
    process.off('SIGHUP', pass);
  });
}

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

/** Runs a program of the machine and answers what it printed, or undefined when it is missing or fails. */
export function ask(command, args) {
  const result = spawnSync(command, args, {
    env: { ...process.env, PATH: systemPath() },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 20_000,
  });
  return result.status === 0 ? `${result.stdout}${result.stderr}`.trim() : undefined;
}
