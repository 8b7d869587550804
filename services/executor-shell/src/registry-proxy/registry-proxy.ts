import { chmodSync, rmSync } from 'node:fs';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';

/**
 * The one way out of the install sandbox: an HTTP proxy on a unix socket that speaks to the registries of the operator's
 * policy and to nobody else. It runs where the network is, apart from the runner.
 */
export class RegistryProxy {
  readonly #server: Server;
  readonly #path: string;
  readonly #origins: ReadonlySet<string>;
  readonly #sockets = new Set<Socket>();
  /** Requests to anything else. */
  refused = 0;

  /** `registries` are http(s) addresses; their host and port are all that can be reached. */
  constructor(socketPath: string, registries: readonly string[]) {
    this.#path = socketPath;
    this.#origins = new Set(registries.map((address) => authority(new URL(address))));
    this.#server = createServer((incoming, answer) => this.#forward(incoming, answer));
    this.#server.on('connect', (incoming: IncomingMessage, socket: Socket, head: Buffer) =>
      this.#tunnel(incoming, socket, head),
    );
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('clientError', (_error, socket) => socket.destroy());
  }

  async listen(): Promise<void> {
    rmSync(this.#path, { force: true });
    await new Promise<void>((resolve, reject) =>
      this.#server.once('error', reject).listen(this.#path, () => resolve()),
    );
    chmodSync(this.#path, 0o660);
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    rmSync(this.#path, { force: true });
  }

  /** TLS goes through unseen; the certificate is checked by the package manager. */
  #tunnel(incoming: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const target = incoming.url ?? '';
    if (!this.#origins.has(target.toLowerCase())) {
      this.refused++;
      socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
      return;
    }
    const colon = target.lastIndexOf(':');
    const upstream = connect(Number(target.slice(colon + 1)), target.slice(0, colon), () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      if (head.length > 0) upstream.write(head);
      socket.pipe(upstream).pipe(socket);
    });
    upstream.on('error', () => socket.destroy());
    socket.on('close', () => upstream.destroy());
  }

  /** Plain http, for a mirror inside a cluster: reading only. */
  #forward(incoming: IncomingMessage, answer: ServerResponse): void {
    const url = URL.canParse(incoming.url ?? '') ? new URL(incoming.url!) : undefined;
    if (
      url === undefined ||
      url.protocol !== 'http:' ||
      !this.#origins.has(authority(url)) ||
      (incoming.method !== 'GET' && incoming.method !== 'HEAD')
    ) {
      this.refused++;
      answer.writeHead(403).end();
      return;
    }
    const headers: Record<string, string | string[] | undefined> = { ...incoming.headers, host: url.host };
    delete headers['proxy-connection'];
    delete headers['proxy-authorization'];
    const upstream = request(
      {
        host: url.hostname,
        port: url.port || 80,
        path: `${url.pathname}${url.search}`,
        method: incoming.method,
        headers,
      },
      (response) => {
        answer.writeHead(response.statusCode ?? 502, response.headers);
        response.pipe(answer);
      },
    );
    upstream.on('error', () => (answer.headersSent ? answer.destroy() : answer.writeHead(502).end()));
    answer.on('close', () => upstream.destroy());
    upstream.end();
  }
}

function authority(url: URL): string {
  return `${url.hostname}:${url.port || (url.protocol === 'https:' ? '443' : '80')}`.toLowerCase();
}
