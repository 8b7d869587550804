import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The checkout that this program is part of. */
export const CHECKOUT = resolve(dirname(fileURLToPath(import.meta.url)), '../../../..');

/** Everything that a local stack writes lies in here, and `yard dev reset` removes it. */
export function stateFolder(): string {
  return process.env['YM_STATE'] ?? join(CHECKOUT, '.yard');
}

export interface StackFile {
  pid: number;
  api_url: string;
  api_key: string;
  nats_url: string;
  redis_url: string;
  /** Empty while no console is served. */
  console_url: string;
  services: Record<string, number>;
  started_at: string;
  /** The model that the stack uses, and whether it is the built-in demo model. */
  model: { name: string; demo: boolean };
  logs: string;
  /** All services are up. */
  ready?: boolean;
  /** Executor kinds that have a queue, an account and a login. */
  executors?: string[];
  /** Why a kind could not be added, the last time that one was. */
  executor_problem?: string;
  /** Where each service answers /livez and /readyz. */
  health?: Record<string, string>;
}

export const stackFile = () => join(stateFolder(), 'dev.json');

/** The stack that a file describes, if its process lives; the file of a stack that died is no stack. */
export function stackIn(path: string): StackFile | undefined {
  try {
    const file = JSON.parse(readFileSync(path, 'utf8')) as StackFile;
    process.kill(file.pid, 0);
    return file;
  } catch {
    return undefined;
  }
}

/** Left behind by a stack that ended, so that who asks for it can be told. */
export const LAST_STACK = 'last.json';

export interface LastStack {
  api_url: string;
  stopped_at: string;
}

export function lastStack(): LastStack | undefined {
  try {
    return JSON.parse(readFileSync(join(stateFolder(), LAST_STACK), 'utf8')) as LastStack;
  } catch {
    return undefined;
  }
}

export const serviceEntry = (service: string) => join(CHECKOUT, 'services', service, 'dist', 'main.js');

/** Has the checkout been built? */
export const isBuilt = () => existsSync(serviceEntry('api'));
