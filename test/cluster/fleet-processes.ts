import { join } from 'node:path';
import { ServerProcess } from '@yardmaster/local-stack';
import { root } from '../charts/helm.ts';
import { freePort } from './control-plane.ts';

interface FleetProcess {
  process: ServerProcess;
  metricsPort: number;
}

/** Replicas of the fleet as processes, by name. Their looks and their Lease are short, so that a test need not wait. */
export class FleetProcesses {
  readonly running = new Map<string, FleetProcess>();

  /** `folder`: where their logs go. `env`: what all of them are told. */
  constructor(
    private readonly folder: string,
    private readonly env: () => Record<string, string>,
  ) {}

  async start(name: string, env: Record<string, string> = {}): Promise<ServerProcess> {
    const metricsPort = await freePort();
    const process_ = await ServerProcess.start({
      command: [process.execPath, `${root}services/fleet/dist/main.js`],
      log: join(this.folder, `${name}.log`),
      env: {
        PATH: process.env['PATH'],
        YM_NATS_USER: 'fleet',
        YM_HEALTH_PORT: String(await freePort()),
        YM_METRICS_PORT: String(metricsPort),
        YM_FLEET_LEASE_MS: '9000',
        YM_FLEET_POLL_MS: '500',
        YM_FLEET_CHECK_MS: '500',
        ...this.env(),
        ...env,
      },
    });
    this.running.set(name, { process: process_, metricsPort });
    return process_;
  }

  get(name: string): ServerProcess {
    return this.running.get(name)!.process;
  }

  /** SIGKILL, and no more word of it. */
  async kill(name: string): Promise<void> {
    await this.get(name).kill();
    this.running.delete(name);
  }

  async stop(...names: string[]): Promise<void> {
    await Promise.all(names.map((name) => this.get(name).stop()));
    for (const name of names) this.running.delete(name);
  }

  stopAll(): Promise<void> {
    return this.stop(...this.running.keys());
  }

  /** The names of those that say that they lead. */
  async leaders(): Promise<string[]> {
    const asked = await Promise.all(
      [...this.running].map(async ([name, { metricsPort }]) => [name, await leads(metricsPort)] as const),
    );
    return asked.filter(([, is]) => is).map(([name]) => name);
  }
}

/** False also when it does not answer. */
async function leads(metricsPort: number): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(1_000);
    const page = await fetch(`http://127.0.0.1:${metricsPort}/metrics`, { signal });
    return /^yardmaster_fleet_leader\{[^}]*\} 1$/m.test(await page.text());
  } catch {
    return false;
  }
}
