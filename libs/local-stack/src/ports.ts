import { createServer } from 'node:net';

/**
 * Ports are drawn from below the range that systems use for outgoing connections (Linux 32768, macOS 49152). A server
 * that is stopped and started again on its port would otherwise race with clients: one that reconnects to a closed
 * loopback port of that range can be given the same port as its own end, and then it talks to itself and holds it.
 */
const FROM = 20_100;
const TO = 31_999;

/** Calls `use` with free loopback ports until it succeeds; `use` throws `PortTaken` when another process was faster. */
export async function onFreePort<T>(use: (port: number) => Promise<T>, random = Math.random): Promise<T> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const port = FROM + Math.floor(random() * (TO - FROM + 1));
    if (!(await isFree(port))) continue;
    try {
      return await use(port);
    } catch (error) {
      if (!(error instanceof PortTaken)) throw error;
    }
  }
  throw new Error(`no free port on 127.0.0.1 between ${FROM} and ${TO}, tried 50 of them`);
}

/** Someone else listens on this port already. */
export class PortTaken extends Error {
  constructor(readonly port: number) {
    super(`port ${port} on 127.0.0.1 is taken by another process`);
    this.name = 'PortTaken';
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
