import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';

/** The API takes no loopback address for an endpoint: pods that must answer are at this machine's own, if it has one. */
export const ADDRESS = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === 'IPv4' && !one.internal)?.address;

/** What the fleet asks of a llama.cpp server: that it is well, and what it can do. */
export async function startLlama(address: string): Promise<{ port: number; close: () => Promise<void> }> {
  const server = await new Promise<Server>((resolve) => {
    const starting = createServer((request, response) =>
      response.end(
        request.url === '/health'
          ? '{"status":"ok"}'
          : JSON.stringify({ total_slots: 4, model_alias: 'm', default_generation_settings: { n_ctx: 8192 } }),
      ),
    ).listen(0, address, () => resolve(starting));
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
