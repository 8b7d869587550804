import { existsSync } from 'node:fs';
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
  console_url: string;
  services: Record<string, number>;
  started_at: string;
  /** The model that the stack uses, and whether it is the built-in demo model. */
  model: { name: string; demo: boolean };
  logs: string;
}

export const stackFile = () => join(stateFolder(), 'dev.json');

export const serviceEntry = (service: string) => join(CHECKOUT, 'services', service, 'dist', 'main.js');

/** Has the checkout been built? */
export const isBuilt = () => existsSync(serviceEntry('api'));
