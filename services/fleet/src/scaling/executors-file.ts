import { readFileSync } from 'node:fs';
import { ConfigError } from '@yardmaster/service-kit';
import { parseDocument } from 'yaml';
import { callsPerPod, type ScaleTarget } from './scaler.js';

const KIND = /^[a-z][a-z0-9-]{0,39}$/;
const KEYS = ['deployment', 'kinds', 'slots', 'target_utilization', 'min', 'max', 'cooldown_s', 'metrics_ports'];

export interface ExecutorTarget extends ScaleTarget {
  /** Where its pods tell how many calls run: ports of `/metrics`, one for each kind. */
  metricsPorts: number[];
}

/** The executors that the fleet scales, from the file of YM_FLEET_EXECUTORS. Throws ConfigError with a line per mistake. */
export function readExecutorsFile(file: string | undefined): ExecutorTarget[] {
  if (file === undefined) return [];
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new ConfigError([`YM_FLEET_EXECUTORS: ${file} cannot be read (${code})`]);
  }
  return parseExecutors(text, file);
}

/** As `readExecutorsFile`, from its text. */
export function parseExecutors(text: string, file = 'YM_FLEET_EXECUTORS'): ExecutorTarget[] {
  const document = parseDocument(text, { prettyErrors: true });
  const [broken] = document.errors;
  if (broken !== undefined) throw new ConfigError([`${file}: ${broken.message.split('\n')[0]}`]);
  const root = (document.toJS({ maxAliasCount: 100 }) ?? {}) as { executors?: unknown };
  const entries = root.executors ?? {};
  if (!isObject(entries)) throw new ConfigError([`${file}: executors: must be a map of names`]);
  const mistakes: string[] = [];
  const targets = Object.entries(entries).map(([name, entry]) => {
    const at = (key: string, rule: string) => void mistakes.push(`${file}: executors.${name}.${key}: ${rule}`);
    const given = isObject(entry) ? entry : {};
    for (const key of Object.keys(given))
      if (!KEYS.includes(key)) at(key, `there is no such key; known: ${KEYS.join(', ')}`);
    const whole = (key: string, least: number, otherwise?: number): number => {
      const value = given[key] ?? otherwise;
      if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value;
      at(key, `must be a whole number of at least ${least}`);
      return least;
    };
    const { deployment, kinds = [name], target_utilization: utilization = 0.8, metrics_ports: ports = [9090] } = given;
    if (typeof deployment !== 'string' || deployment === '') at('deployment', 'must be the name of a Deployment');
    if (!isListOf(kinds, (kind): kind is string => typeof kind === 'string' && KIND.test(kind)) || kinds.length === 0)
      at('kinds', 'must be a list of executor kinds: small letters, digits, dashes');
    if (typeof utilization !== 'number' || !(utilization > 0 && utilization <= 1))
      at('target_utilization', 'must be a number above 0, at most 1');
    if (!isListOf(ports, (port): port is number => Number.isInteger(port)))
      at('metrics_ports', 'must be a list of ports');
    const min = whole('min', 0, 1);
    const max = whole('max', 1);
    if (min > max) at('min', 'must not be above max');
    return {
      name,
      deployment: deployment as string,
      kinds: kinds as string[],
      min,
      max,
      callsPerPod: callsPerPod(whole('slots', 1), utilization as number),
      cooldownMs: whole('cooldown_s', 1, 300) * 1000,
      metricsPorts: ports as number[],
    };
  });
  for (const [i, { name, deployment }] of targets.entries()) {
    const other = targets.slice(0, i).find((one) => one.deployment === deployment);
    if (other !== undefined && typeof deployment === 'string' && deployment !== '')
      mistakes.push(
        `${file}: executors.${name}.deployment: ${deployment} is that of executors.${other.name} too; one entry with both kinds scales it`,
      );
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return targets;
}

const LOOK_MS = 1_000;

/** The file, read again when it changes: a mounted ConfigMap does. A broken new version is reported and the old one stays. */
export class ExecutorsFile {
  current: readonly ExecutorTarget[];
  private readonly timer: NodeJS.Timeout | undefined;
  private problem = '';

  constructor(file: string | undefined, onProblem: (problem: string) => void) {
    this.current = readExecutorsFile(file);
    if (file === undefined) return;
    this.timer = setInterval(() => {
      try {
        this.current = readExecutorsFile(file);
        this.problem = '';
      } catch (error) {
        const { message } = error as Error;
        if (message !== this.problem) onProblem(`the executors stay as they were: ${message}`);
        this.problem = message;
      }
    }, LOOK_MS);
    this.timer.unref();
  }

  close(): void {
    clearInterval(this.timer);
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isListOf = <T>(value: unknown, is: (one: unknown) => one is T): value is T[] =>
  Array.isArray(value) && value.every(is);
