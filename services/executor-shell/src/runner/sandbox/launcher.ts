import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { SECCOMP_FILE } from '@yardmaster/guard';
import { type RunnerConfig } from '../config.js';
import { type Validated } from '../validate.js';
import { bwrapArguments, type SandboxSpec } from './bwrap-arguments.js';
import { CHILD_FDS, type Launch } from './run-sandboxed.js';

/** How commands of one mode are started. */
export interface Launcher {
  readonly mode: 'bwrap' | 'pod';
  /** Fingerprint of everything that makes up the sandbox: arguments, filter, limits. */
  readonly profileHash: string;
  prepare(
    key: string,
    validated: Validated,
  ): Promise<{ launch: Launch; sweep?: () => void; cleanUp: () => Promise<void> }>;
}

/** Mode bwrap: one sandbox for one command. */
export class BwrapLauncher implements Launcher {
  readonly mode = 'bwrap';
  readonly profileHash: string;
  readonly #config: RunnerConfig;

  constructor(config: RunnerConfig) {
    this.#config = config;
    const shape = this.#arguments('<workspace>', '<cwd>', {}, { pids: 0, openFiles: 0, diskMb: 0, memoryMb: 0 });
    this.profileHash = profileHash(config, { shape, seccomp: readFileSync(SECCOMP_FILE).toString('base64') });
  }

  prepare(_key: string, validated: Validated): Promise<{ launch: Launch; cleanUp: () => Promise<void> }> {
    return Promise.resolve({ ...this.prepareWith(validated, []), cleanUp: () => Promise.resolve() });
  }

  /** The same sandbox with something more in it, read-only. */
  prepareWith(validated: Validated, extraBinds: readonly { from: string; to: string }[]): { launch: Launch } {
    const args = this.#arguments(validated.hostPath, validated.cwd, validated.env, validated.limits, extraBinds);
    return {
      launch: { program: this.#config.bwrap, args, env: { PATH: '/usr/local/bin:/usr/bin:/bin' }, sandbox: 'bwrap' },
    };
  }

  #arguments(
    workspaceHostPath: string,
    cwd: string,
    env: Record<string, string>,
    limits: SandboxSpec['limits'],
    extraBinds: readonly { from: string; to: string }[] = [],
  ): string[] {
    const { tmpMb, readOnlyPaths } = this.#config;
    return bwrapArguments({ workspaceHostPath, cwd, env, limits, tmpMb, readOnlyPaths, fds: CHILD_FDS, extraBinds });
  }
}

export function profileHash(config: RunnerConfig, parts: Record<string, unknown>): string {
  const limits = [config.timeoutMs, config.outputBytes, config.memoryMb, config.pids, config.diskMb, config.openFiles];
  return createHash('sha256')
    .update(JSON.stringify([parts, limits]))
    .digest('hex')
    .slice(0, 16);
}
