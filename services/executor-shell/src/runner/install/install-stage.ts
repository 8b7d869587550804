import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type InstallPolicy, missingDependency } from '../../install/missing-dependency.js';
import { type InstallReport } from '../../runner-protocol.js';
import { type RunnerConfig } from '../config.js';
import { type Installer, type StartInstall } from '../pipeline.js';
import { type Outcome } from '../sandbox/run-sandboxed.js';
import { clampLimits, type Validated } from '../validate.js';

/** The policy file: what may be installed, and from where. */
export interface InstallPolicyFile extends InstallPolicy {
  registries: { npm?: string; pip?: string };
}

const PROXY_IN_SANDBOX = '/run/registry.sock';
const BRIDGE_PORT = 3128;
const MOST_FILES = 4000;
const MOST_DEPTH = 4;
/** A last line of defence: what gets here has passed the patterns of the detector and the allow-list. */
const SAFE_NAME = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*$/;

/** Reads the policy. @throws Error that names the file and what is wrong */
export function readInstallPolicy(path: string): InstallPolicyFile {
  let policy: Partial<InstallPolicyFile>;
  try {
    policy = JSON.parse(readFileSync(path, 'utf8')) as Partial<InstallPolicyFile>;
  } catch (error) {
    throw new Error(`The install policy ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  const { allow_list: allow, registries = {} } = policy;
  if (typeof allow !== 'object' || allow === null)
    throw new Error(`The install policy ${path} needs an "allow_list" with the lists "pip", "npm" and "apt".`);
  for (const url of Object.values(registries))
    if (!/^https?:\/\/[^\s'"]+$/.test(url))
      throw new Error(`The install policy ${path} has a registry that is no http(s) address.`);
  return {
    import_to_package: policy.import_to_package ?? {},
    program_to_package: policy.program_to_package ?? {},
    allow_list: { pip: allow.pip ?? [], npm: allow.npm ?? [], apt: allow.apt ?? [] },
    registries,
  };
}

/**
 * Stage 5. A failed command whose last error names a missing package that the policy allows gets that package, in a
 * sandbox of its own: the same walls, and one socket to the registry proxy as its only way out. One install at a time in
 * a workspace, one for a command.
 */
export function createInstaller(config: RunnerConfig, policy: InstallPolicyFile): Installer {
  const busy = new Set<string>();
  return async (validated, outcome, start) => {
    if (outcome.exitCode === 0) return null;
    const missing = missingDependency(
      { exitCode: outcome.exitCode, text: errorText(outcome), workspaceFiles: await listFiles(validated.hostPath) },
      policy,
    );
    if (missing.manager === null) return null;
    const report: InstallReport = { manager: missing.manager, package: missing.package, outcome: 'reported' };
    const script = installScript(missing.manager, missing.package, policy);
    if (script === null || config.install.proxySocket === null || !SAFE_NAME.test(missing.package))
      return { report, runAgain: false };
    if (busy.has(validated.hostPath))
      return { report: { ...report, detail: 'another install runs in this workspace' }, runAgain: false };
    busy.add(validated.hostPath);
    try {
      const done = await install(config, validated, script, start);
      const ok = done.exitCode === 0 && done.killedReason === null && done.failure === null;
      if (ok) return { report: { ...report, outcome: 'installed' }, runAgain: config.install.runAgain };
      const said = Buffer.concat([done.stderr.head, done.stderr.tail]).toString().trim();
      const detail = done.killedReason ?? done.failure ?? said.slice(-300);
      return { report: { ...report, outcome: 'failed', detail }, runAgain: false };
    } finally {
      busy.delete(validated.hostPath);
    }
  };
}

function install(config: RunnerConfig, validated: Validated, script: string, start: StartInstall): Promise<Outcome> {
  const limits = clampLimits(
    { timeout_ms: config.install.timeoutMs, memory_mb: validated.limits.memoryMb, disk_mb: validated.limits.diskMb },
    config,
  );
  // The request's environment stays out: it may carry settings of the package manager.
  return start({ ...validated, command: script, env: {}, limits }, [
    { from: config.install.proxySocket!, to: PROXY_IN_SANDBOX },
  ]);
}

/** What to run; null where the manager is only reported. The bridge is written in what the manager itself needs. */
function installScript(manager: 'pip' | 'npm' | 'apt', name: string, { registries }: InstallPolicyFile): string | null {
  const registry = manager === 'apt' ? undefined : registries[manager];
  if (registry === undefined) return null;
  const proxy = `http://127.0.0.1:${BRIDGE_PORT}`;
  const waitForBridge = `for i in {1..100}; do (exec 3<>/dev/tcp/127.0.0.1/${BRIDGE_PORT}) 2>/dev/null && break; sleep 0.05; done`;
  if (manager === 'npm')
    return `/usr/bin/env node -e '
const net = require("node:net");
net.createServer((a) => { const b = net.connect("${PROXY_IN_SANDBOX}"); a.on("error", () => b.destroy()); b.on("error", () => a.destroy()); a.pipe(b); b.pipe(a); }).listen(${BRIDGE_PORT}, "127.0.0.1");
' &
${waitForBridge}
npm_config_userconfig=/tmp/no-user npm_config_globalconfig=/tmp/no-global npm_config_proxy=${proxy} npm_config_https_proxy=${proxy} npm_config_noproxy= npm_config_cache=/tmp/npm \\
  npm install --no-save --ignore-scripts --no-audit --no-fund --no-update-notifier --fetch-retries 1 --registry '${registry}' -- '${name}'`;
  return `py=; for d in .venv venv /workspace/.venv /workspace/venv; do [ -x "$d/bin/python" ] && py="$d/bin/python" && break; done
if [ -z "$py" ]; then echo "there is no virtual environment: run python3 -m venv .venv first and use .venv/bin/python" >&2; exit 1; fi
python3 -c '
import socket, threading
def pump(a, b):
    try:
        while d := a.recv(65536): b.sendall(d)
    except OSError: pass
    try: b.shutdown(socket.SHUT_WR)
    except OSError: pass
def serve(a):
    b = socket.socket(socket.AF_UNIX); b.connect("${PROXY_IN_SANDBOX}")
    threading.Thread(target=pump, args=(a, b), daemon=True).start(); pump(b, a)
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", ${BRIDGE_PORT})); s.listen(64)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
' &
${waitForBridge}
PIP_CONFIG_FILE=/dev/null "$py" -m pip install --disable-pip-version-check --no-input --only-binary :all: --require-virtualenv --proxy ${proxy} --index-url '${registry}' -- '${name}'`;
}

/** Where a tool complains is its own choice: stderr counts, stdout helps where stderr is silent. */
function errorText(outcome: Outcome): string {
  const text = (kept: { head: Buffer; tail: Buffer }): string => Buffer.concat([kept.head, kept.tail]).toString();
  const errors = text(outcome.stderr);
  return errors.trim() === '' ? text(outcome.stdout) : errors;
}

/** Names of files below a workspace; only names are read, installed packages and deep folders are left out. */
async function listFiles(root: string): Promise<string[]> {
  const found: string[] = [];
  const visit = async (folder: string, depth: number): Promise<void> => {
    const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (found.length >= MOST_FILES) return;
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        if (/^(node_modules|site-packages|\.git|\.venv|venv|__pycache__)$/.test(entry.name) || depth >= MOST_DEPTH)
          continue;
        found.push(`${path}/.`);
        await visit(path, depth + 1);
      } else found.push(path);
    }
  };
  await visit('', 0);
  return found;
}
