import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeSandboxEtc } from '@yardmaster/guard';
import { SECCOMP_FILE } from '@yardmaster/guard';
import { type RunnerConfig } from '../config.js';
import { type Validated } from '../validate.js';
import { bwrapArguments, type SandboxSpec } from './bwrap-arguments.js';
import { CHILD_FDS, type Launch } from './run-sandboxed.js';

/** Something of the machine and where a sandbox sees it. */
export interface Bind {
  from: string;
  to: string;
}

/** How commands of one mode are started. */
export interface Launcher {
  readonly mode: 'bwrap' | 'pod';
  /** Fingerprint of everything that makes up the sandbox: arguments, filter, limits. */
  readonly profileHash: string;
  /** `extraBinds` are shown read-only besides; mode pod has no way to show anything. */
  prepare(
    key: string,
    validated: Validated,
    extraBinds?: readonly Bind[],
  ): Promise<{ launch: Launch; sweep?: () => void; cleanUp: () => Promise<void> }>;
}

/** Mode bwrap: one sandbox for one command. */
export class BwrapLauncher implements Launcher {
  readonly mode = 'bwrap';
  readonly profileHash: string;
  readonly #config: RunnerConfig;

  readonly #etc: string;

  /** Makes the folder `etc` in `privateDir`. */
  constructor(config: RunnerConfig, privateDir: string) {
    this.#config = config;
    this.#etc = '<etc>';
    const shape = this.#arguments('<workspace>', '<cwd>', {}, { pids: 0, openFiles: 0, diskMb: 0, memoryMb: 0 });
    this.#etc = join(privateDir, 'etc');
    makeSandboxEtc(this.#etc);
    this.profileHash = profileHash(config, { shape, seccomp: readFileSync(SECCOMP_FILE).toString('base64') });
  }

  prepare(
    _key: string,
    validated: Validated,
    extraBinds: readonly Bind[] = [],
  ): Promise<{ launch: Launch; cleanUp: () => Promise<void> }> {
    const args = this.#arguments(validated.hostPath, validated.cwd, validated.env, validated.limits, extraBinds);
    return Promise.resolve({
      launch: { program: this.#config.bwrap, args, env: { PATH: '/usr/local/bin:/usr/bin:/bin' }, sandbox: 'bwrap' },
      cleanUp: () => Promise.resolve(),
    });
  }

  #arguments(
    workspaceHostPath: string,
    cwd: string,
    env: Record<string, string>,
    limits: SandboxSpec['limits'],
    extraBinds: readonly Bind[] = [],
  ): string[] {
    const { tmpMb, readOnlyPaths } = this.#config;
    return bwrapArguments({
      workspaceHostPath,
      cwd,
      env,
      limits,
      tmpMb,
      readOnlyPaths,
      etc: this.#etc,
      fds: CHILD_FDS,
      extraBinds,
    });
  }
}

export function profileHash(config: RunnerConfig, parts: Record<string, unknown>): string {
  const limits = [config.timeoutMs, config.outputBytes, config.memoryMb, config.pids, config.diskMb, config.openFiles];
  return createHash('sha256')
    .update(JSON.stringify([parts, limits]))
    .digest('hex')
    .slice(0, 16);
}
