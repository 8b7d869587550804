import { Agent } from 'undici';
import type { PodReading } from './scale-client.js';

/** What executors say in `/metrics` about the calls that run. */
export const RUNNING_METRIC = 'yardmaster_executor_running_calls';
const TIMEOUT_MS = 2_000;

/** How many calls run in a pod, by its metrics; undefined where it does not say. */
export class BusyPods {
  private readonly agent = new Agent({
    connections: 1,
    pipelining: 1,
    keepAliveTimeout: 1_000,
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
    connect: { timeout: TIMEOUT_MS },
    maxResponseSize: 4 * 1024 * 1024,
  });

  /** Never throws. */
  async running({ address }: PodReading, ports: readonly number[]): Promise<number | undefined> {
    const host = address.includes(':') ? `[${address}]` : address;
    const counts = await Promise.all(
      ports.map(async (port) => {
        try {
          const signal = AbortSignal.timeout(TIMEOUT_MS);
          const origin = `http://${host}:${port}`;
          const response = await this.agent.request({ origin, path: '/metrics', method: 'GET', signal });
          const text = await response.body.text();
          return response.statusCode === 200 ? runningIn(text) : undefined;
        } catch {
          return undefined;
        }
      }),
    );
    const known = counts.filter((count) => count !== undefined);
    return known.length === 0 ? undefined : known.reduce((sum, count) => sum + count, 0);
  }

  async close(): Promise<void> {
    await this.agent.destroy();
  }
}

/** The number in a page of metrics. */
export function runningIn(page: string): number | undefined {
  const values = page
    .split('\n')
    .filter((line) => line.startsWith(RUNNING_METRIC) && /^[{ ]/.test(line.slice(RUNNING_METRIC.length)))
    .map((line) => Number(/\s([0-9.eE+-]+)(?:\s+\d+)?\s*$/.exec(line)?.[1]));
  return values.length === 0 || values.some(Number.isNaN) ? undefined : values.reduce((sum, one) => sum + one, 0);
}
