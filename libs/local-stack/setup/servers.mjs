// nats-server, redis-server and bubblewrap: found, else installed where Debian's packages can be, else explained.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { SetupError, ask, run, systemPath } from './exec.mjs';

/** The programs, the variables that name them, and what systems call their packages. */
const PROGRAMS = [
  {
    names: ['nats-server'],
    variable: 'YM_NATS_SERVER',
    atLeast: [2, 9, 10],
    version: ['--version'],
    packages: { apt: 'nats-server', dnf: 'nats-server', pacman: 'nats-server', brew: 'nats-server' },
  },
  {
    // Valkey is the fork that distributions ship in Redis' place; 7.0 brought the FUNCTIONs that we use.
    names: ['redis-server', 'valkey-server'],
    variable: 'YM_REDIS_SERVER',
    atLeast: [7, 0, 0],
    version: ['--version'],
    packages: { apt: 'redis-server', dnf: 'valkey', pacman: 'valkey', brew: 'redis' },
  },
  {
    names: ['bwrap'],
    variable: 'YM_BWRAP',
    atLeast: [0, 4, 0],
    version: ['--version'],
    packages: { apt: 'bubblewrap', dnf: 'bubblewrap', pacman: 'bubblewrap' },
    // Linux namespaces: there is no bubblewrap elsewhere, and the rest works without it.
    onlyOn: 'linux',
  },
];

/** Debian installs daemons into sbin folders, which are not on the PATH of its users: beside each bin, its sbin. */
function folders() {
  const onPath = systemPath()
    .split(delimiter)
    .filter((folder) => folder !== '');
  return [...onPath, ...onPath.filter((folder) => /\/bin\/?$/.test(folder)).map((folder) => join(folder, '../sbin'))];
}

/**
 * Finds the servers and puts their paths into the environment of what runs next. With `required`, installs what is
 * missing through apt-get where it may, and else fails with one message that says what to install.
 */
export async function ensureServers({ required }) {
  let found = look();
  if (required && found.some(isMissing) && (await install(found.filter(isMissing)))) found = look();
  for (const { program, file } of found) if (file !== undefined) process.env[program.variable] = file;
  if (!required) return;
  const elsewhere = found.filter((one) => one.file === undefined && !isMissing(one));
  for (const { program } of elsewhere)
    console.error(`yardmaster: no ${program.names[0]} on ${process.platform}: the shell and file tools need Linux`);
  const missing = found.filter(isMissing);
  if (missing.length > 0) throw new SetupError(explain(missing), 7);
}

const look = () => PROGRAMS.map((program) => ({ program, ...find(program) }));
const isMissing = ({ program, file }) =>
  file === undefined && (program.onlyOn === undefined || program.onlyOn === process.platform);

function find(program) {
  const named = process.env[program.variable];
  if (named) {
    if (isExecutable(named)) return judge(program, named);
    throw new SetupError(`${program.variable} names ${named}, which is not a program that can be run`, 7);
  }
  let answer = {};
  for (const name of program.names)
    for (const folder of folders()) {
      if (!isExecutable(join(folder, name))) continue;
      const judged = judge(program, join(folder, name));
      if (judged.file !== undefined) return judged;
      answer = judged;
    }
  return answer;
}

function judge(program, file) {
  const printed = ask(file, program.version);
  const match = /(\d+)\.(\d+)\.(\d+)/.exec(printed ?? '');
  if (match === null) return { problem: `${file} does not say its version` };
  const version = match.slice(1).map(Number);
  const at = version.findIndex((part, i) => part !== program.atLeast[i]);
  if (at >= 0 && version[at] < program.atLeast[at])
    return { problem: `${file} is ${match[0]}, ${program.atLeast.join('.')} or newer is needed` };
  return { file };
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Installs Debian's packages when that needs no password; true when apt-get ran through. */
async function install(missing) {
  if (!folders().some((folder) => isExecutable(join(folder, 'apt-get')))) return false;
  const asRoot = process.getuid?.() === 0 ? [] : ask('sudo', ['-n', 'true']) === undefined ? undefined : ['sudo', '-n'];
  if (asRoot === undefined) return false;
  const packages = missing.map(({ program }) => program.packages.apt);
  console.error(`yardmaster: installing ${packages.join(', ')} with apt-get…`);
  // What Debian starts after the installation (a redis-server on its well-known port) is left alone and not used:
  // the local stack runs servers of its own.
  const apt = (...args) => {
    const [command, ...rest] = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-q', ...args];
    return run(command, rest, { env: { ...process.env, PATH: systemPath() }, stdio: ['ignore', 2, 2] });
  };
  await apt('update'); // an unreachable third-party list must not stop us: the installation says whether it matters
  return (await apt('install', '-y', '--no-install-recommends', ...packages)) === 0;
}

function explain(missing) {
  const packagesFor = (system) =>
    missing.map(({ program }) => program.packages[system]).filter((name) => name !== undefined);
  const lines = missing.map(
    ({ program, problem }) => `  ${program.names.join(' or ')}${problem === undefined ? '' : ` (${problem})`}`,
  );
  const how = [
    ['Debian, Ubuntu', 'sudo apt-get update && sudo apt-get install', packagesFor('apt')],
    ['Fedora', 'sudo dnf install', packagesFor('dnf')],
    ['Arch', 'sudo pacman -S', packagesFor('pacman')],
    ['macOS', 'brew install', packagesFor('brew')],
  ];
  return [
    'these programs are needed and were not found:',
    ...lines,
    'Install them:',
    ...how
      .filter(([, , packages]) => packages.length > 0)
      .map(([system, command, packages]) => `  ${system.padEnd(15)} ${command} ${packages.join(' ')}`),
    `or say where they are: ${missing.map(({ program }) => `${program.variable}=/path/to/${program.names[0]}`).join(' ')}`,
    'or run everything in containers: docker compose -f deploy/compose.yaml up',
  ].join('\n');
}
