import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { collectDefaultMetrics, Registry } from 'prom-client';

/** One condition of readiness: undefined when it holds, else what is wrong. */
export type ReadinessCheck = () => string | undefined | Promise<string | undefined>;

/**
 * `/livez` (is the process to be restarted?), `/readyz` (should it get work?) and, on a port of its own, `/metrics`.
 * Plain node:http: these routes must answer when everything else is in trouble, and cost no memory.
 */
export class Health {
  readonly metrics = new Registry();
  private readonly checks = new Map<string, ReadinessCheck>();
  private readonly liveness = new Map<string, ReadinessCheck>();
  private draining = false;
  private servers: Server[] = [];

  constructor(service: string) {
    this.metrics.setDefaultLabels({ service });
    collectDefaultMetrics({ register: this.metrics });
  }

  addReadiness(name: string, check: ReadinessCheck): void {
    this.checks.set(name, check);
  }

  /** A failing liveness check means that only a restart helps. */
  addLiveness(name: string, check: ReadinessCheck): void {
    this.liveness.set(name, check);
  }

  /** From now on not ready: no new work should come. */
  drain(): void {
    this.draining = true;
  }

  async failures(checks: ReadonlyMap<string, ReadinessCheck> = this.checks): Promise<Record<string, string>> {
    const failed: Record<string, string> = {};
    for (const [name, check] of checks) {
      const problem = await Promise.resolve()
        .then(check)
        .catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
      if (problem !== undefined) failed[name] = problem;
    }
    return failed;
  }

  /** The status and body of `/livez` or `/readyz`. */
  async probe(path: string): Promise<{ status: number; body: Record<string, unknown> } | undefined> {
    if (path === '/livez') {
      const failed = await this.failures(this.liveness);
      const ok = Object.keys(failed).length === 0;
      return { status: ok ? 200 : 503, body: { status: ok ? 'ok' : 'failing', failed } };
    }
    if (path === '/readyz') {
      const failed: Record<string, string> = this.draining
        ? { shutdown: 'the service is shutting down' }
        : await this.failures();
      const ok = Object.keys(failed).length === 0;
      return { status: ok ? 200 : 503, body: { status: ok ? 'ready' : 'not ready', failed } };
    }
    return undefined;
  }

  /** Starts both listeners; returns the ports that were taken. */
  async listen(
    host: string,
    healthPort: number,
    metricsPort: number,
  ): Promise<{ healthPort: number; metricsPort: number }> {
    const health = await this.serve(host, healthPort, async (path) => {
      const answer = await this.probe(path);
      return answer && { status: answer.status, type: 'application/json', body: JSON.stringify(answer.body) };
    });
    const metrics = await this.serve(host, metricsPort, async (path) =>
      path === '/metrics'
        ? { status: 200, type: this.metrics.contentType, body: await this.metrics.metrics() }
        : undefined,
    );
    return { healthPort: health, metricsPort: metrics };
  }

  private async serve(
    host: string,
    port: number,
    answer: (path: string) => Promise<{ status: number; type: string; body: string } | undefined>,
  ): Promise<number> {
    const server = createServer((request, response) => {
      answer((request.url ?? '/').split('?')[0]!)
        .then((found) => {
          response.writeHead(found?.status ?? 404, { 'content-type': found?.type ?? 'text/plain' });
          response.end(found?.body ?? 'no such path\n');
        })
        .catch(() => {
          response.writeHead(500);
          response.end();
        });
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, resolve);
    });
    server.unref();
    this.servers.push(server);
    return (server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    await Promise.all(
      this.servers.splice(0).map(
        (server) =>
          new Promise<void>((resolve) => {
            server.close(() => resolve());
            server.closeAllConnections();
          }),
      ),
    );
  }
}
