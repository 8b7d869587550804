import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { NotHere } from '../charts/binaries.ts';

const modules = fileURLToPath(new URL('go/', import.meta.url));
const KUBERNETES = /k8s\.io\/kubernetes v(\S+)/.exec(readFileSync(`${modules}kubernetes/go.mod`, 'utf8'))![1]!;
/** The oldest Go that the modules can be built with: what etcd's go.mod asks for. */
const OLDEST_GO = [1, 25] as const;

/** Version of the API server that is built, such as `1.34.4`. */
export const kubernetesVersion = KUBERNETES;

export interface Program {
  name: string;
  /** Folder with the go.mod that pins it. */
  module: string;
  package: string;
  ldflags: string;
}

const kubernetes = (name: string): Program => ({
  name,
  module: 'kubernetes',
  package: `k8s.io/kubernetes/cmd/${name}`,
  // Without these it says v0.0.0-master, which no chart's kubeVersion takes.
  ldflags: [
    '-s -w',
    ...['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((at) => [
      `-X ${at}.gitVersion=v${KUBERNETES}`,
      `-X ${at}.gitMajor=${KUBERNETES.split('.')[0]}`,
      `-X ${at}.gitMinor=${KUBERNETES.split('.')[1]}`,
    ]),
  ].join(' '),
});

/** What a control plane consists of. The first two are enough for an API; the others make it act. */
export const PROGRAMS = {
  etcd: { name: 'etcd', module: 'etcd', package: 'go.etcd.io/etcd/server/v3', ldflags: '-s -w' },
  apiserver: kubernetes('kube-apiserver'),
  controllers: kubernetes('kube-controller-manager'),
  scheduler: kubernetes('kube-scheduler'),
} satisfies Record<string, Program>;

/**
 * Paths of programs by name: those of `KUBEBUILDER_ASSETS` (as envtest has it) or, built once and kept in the cache
 * folder of the user, those that go/ pins. Throws `NotHere` where neither can be had: no toolchain, or modules that
 * cannot be fetched. A build that fails with both is an error like any other.
 */
export async function programs<Name extends keyof typeof PROGRAMS>(...names: Name[]): Promise<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) found[name] = (await given(PROGRAMS[name])) ?? (await built(PROGRAMS[name]));
  return found as Record<Name, string>;
}

async function given({ name }: Program): Promise<string | undefined> {
  const folder = process.env['KUBEBUILDER_ASSETS'];
  if (!folder) return undefined;
  const file = join(folder, name);
  if (!existsSync(file)) throw new NotHere(`KUBEBUILDER_ASSETS is ${folder}, which has no ${name}`);
  return file;
}

const cache = () => join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'yardmaster', 'control-plane');

async function built(program: Program): Promise<string> {
  const module = join(modules, program.module);
  const digest = createHash('sha256')
    .update(readFileSync(join(module, 'go.mod')))
    .update(readFileSync(join(module, 'go.sum')))
    .update(program.ldflags)
    .update(`${process.platform} ${process.arch}`)
    .digest('hex')
    .slice(0, 16);
  const file = join(cache(), `${program.name}-${digest}`);
  if (existsSync(file)) return file;
  const go = await goCommand();
  mkdirSync(cache(), { recursive: true });
  const part = `${file}.${process.pid}`;
  console.log(`test:cluster: building ${program.name} (once; it takes some minutes) into ${cache()}`);
  const began = performance.now();
  const options = {
    cwd: module,
    env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false', GOWORK: 'off' },
  };
  // Names every package that is needed, and so fetches what is not here yet.
  const missing = await run(go, ['list', '-deps', program.package], options);
  if (missing !== undefined) throw notFetched(`the modules of ${program.name} cannot be fetched`, missing);
  const failed = await run(
    go,
    ['build', '-trimpath', '-o', part, '-ldflags', program.ldflags, program.package],
    options,
  );
  if (failed !== undefined) {
    rmSync(part, { force: true });
    throw new Error(`${program.name} could not be built:\n${failed}`);
  }
  renameSync(part, file);
  console.log(`test:cluster: ${program.name} is built (${Math.round((performance.now() - began) / 1000)} s)`);
  return file;
}

const NO_ANSWER = /\bGet "https?:|\breading https?:|\bdial tcp\b|\bGOPROXY=off\b|\bgit (ls-remote|fetch)\b/;
const NOT_THE_PINNED = /checksum mismatch|SECURITY ERROR/;

/** Told apart by Go's words, because its exit code is 1 for all: nobody answers, or what was answered or asked is wrong. */
const notFetched = (what: string, output: string): Error =>
  NO_ANSWER.test(output) && !NOT_THE_PINNED.test(output)
    ? new NotHere(`${what}:\n${output}`)
    : new Error(`${what}:\n${output}`);

/** Runs to the end, at the lowest priority: a build of minutes must not starve what else runs. Answers why it failed. */
function run(command: string, args: string[], options: { cwd: string; env: NodeJS.ProcessEnv }) {
  return new Promise<string | undefined>((resolve) => {
    let output = '';
    const child = spawn('nice', ['-n', '19', command, ...args], { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4000)));
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code) => resolve(code === 0 ? undefined : output.trim() || `exit code ${code}`));
  });
}

let go: Promise<string> | undefined;

/** The `go` of this machine, new enough. */
function goCommand(): Promise<string> {
  return (go ??= (async () => {
    // Where installers put it without saying so to non-login shells.
    const path = [process.env['PATH'], '/usr/local/go/bin', '/usr/lib/go/bin'].join(delimiter);
    const file = path
      .split(delimiter)
      .map((folder) => join(folder, 'go'))
      .find(existsSync);
    if (file === undefined)
      throw new NotHere(
        `there is no Go toolchain to build etcd and Kubernetes with: install Go ${OLDEST_GO.join('.')} or newer, ` +
          `or set KUBEBUILDER_ASSETS to a folder that has them`,
      );
    // Outside the modules: a newer Go asked for in a go.mod would be fetched to answer.
    const { stdout } = await promisify(execFile)(file, ['env', 'GOVERSION'], { cwd: '/' });
    const [, major = 0, minor = 0] = /go(\d+)\.(\d+)/.exec(stdout)?.map(Number) ?? [];
    if (major < OLDEST_GO[0] || (major === OLDEST_GO[0] && minor < OLDEST_GO[1]))
      throw new NotHere(`${file} is ${stdout.trim()}: Go ${OLDEST_GO.join('.')} or newer is needed`);
    return file;
  })());
}

/** CRDs of others that the charts' objects are instances of, from the releases that go/crds pins. */
export async function resourceDefinitions(): Promise<string[]> {
  const files: Record<string, string[]> = {
    'github.com/kedacore/keda/v2': ['config/crd/bases/keda.sh_scaledobjects.yaml'],
    'github.com/prometheus-operator/prometheus-operator': [
      'example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml',
      'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
    ],
  };
  const cwd = join(modules, 'crds');
  const env = { ...process.env, GOFLAGS: '', GOWORK: 'off' };
  try {
    const { stdout } = await promisify(execFile)(
      await goCommand(),
      ['mod', 'download', '-json', ...Object.keys(files)],
      { cwd, env, maxBuffer: 1 << 24 },
    );
    return stdout
      .split(/(?<=^\})\n/m)
      .filter((text) => text.trim() !== '')
      .map((text) => JSON.parse(text) as { Path: string; Dir: string })
      .flatMap(({ Path, Dir }) => files[Path]!.map((file) => readFileSync(join(Dir, file), 'utf8')));
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    // Go says on stdout, module by module, what it could not fetch.
    if (stdout === undefined) throw error;
    throw notFetched('CRDs cannot be fetched', `${stdout}${stderr}`.trim());
  }
}
