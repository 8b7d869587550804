import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A request as it came over the socket. */
export interface FaultRequest {
  method: string;
  path: string;
  /** Names in lower case. */
  headers: Record<string, string>;
  body: string;
  /** `model` of a JSON body, if it has one. */
  model: string | undefined;
  /** Milliseconds, from `performance.now()`. */
  at: number;
}

/** The raw connection of one request: every byte, or none, is the script's to send. */
export class FaultConnection {
  /** Resolves when the other side is gone. */
  readonly closed: Promise<void>;
  private readonly socket: Socket;

  /** `closed` is that of the socket, which may carry many requests. */
  constructor(socket: Socket, closed: Promise<void>) {
    this.socket = socket;
    this.closed = closed;
  }

  get isClosed(): boolean {
    return this.socket.destroyed;
  }

  raw(bytes: string | Uint8Array): void {
    if (!this.socket.destroyed) this.socket.write(bytes);
  }

  /** Status line and headers of an answer in chunks. */
  head(status: number, headers: Record<string, string> = {}): void {
    const all = { 'content-type': 'text/event-stream', 'transfer-encoding': 'chunked', ...headers };
    this.raw(
      `HTTP/1.1 ${status} X\r\n${Object.entries(all)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('')}\r\n`,
    );
  }

  chunk(text: string | Uint8Array): void {
    const bytes = Buffer.from(text as string);
    this.raw(Buffer.concat([Buffer.from(`${bytes.byteLength.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]));
  }

  /** The orderly end of a chunked answer; the connection stays. */
  end(): void {
    this.raw('0\r\n\r\n');
  }

  /** A whole answer with its length. */
  json(status: number, value: unknown, headers: Record<string, string> = {}): void {
    const body = typeof value === 'string' ? value : JSON.stringify(value);
    const all = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers };
    this.raw(
      `HTTP/1.1 ${status} X\r\n${Object.entries(all)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('')}\r\n${body}`,
    );
  }

  /** Closes with FIN, in the middle of whatever was being sent. */
  cut(): void {
    this.socket.end();
  }

  /** Closes with RST. */
  reset(): void {
    this.socket.resetAndDestroy();
  }
}

export type FaultScript = (request: FaultRequest, connection: FaultConnection) => void | Promise<void>;

/** An HTTP server on a raw socket that can break off anywhere; keeps a log of what it was asked. */
export interface FaultServer {
  url: string;
  requests: FaultRequest[];
  script: FaultScript;
  close(): Promise<void>;
}

export async function startFaultServer(script: FaultScript): Promise<FaultServer> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    void closed.then(() => sockets.delete(socket));
    socket.on('error', () => undefined);
    let pending = Buffer.alloc(0);
    socket.on('data', (bytes: Buffer) => {
      pending = Buffer.concat([pending, bytes]);
      for (;;) {
        const taken = takeRequest(pending);
        if (taken === undefined) return;
        pending = pending.subarray(taken.length);
        running.requests.push(taken.request);
        void running.script(taken.request, new FaultConnection(socket, closed));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const running: FaultServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    script,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return running;
}

function takeRequest(bytes: Buffer): { request: FaultRequest; length: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [first = '', ...lines] = bytes.subarray(0, headEnd).toString('latin1').split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const length = headEnd + 4 + Number(headers['content-length'] ?? 0);
  if (bytes.byteLength < length) return undefined;
  const body = bytes.subarray(headEnd + 4, length).toString('utf8');
  const [method = '', path = ''] = first.split(' ');
  return { request: { method, path, headers, body, model: modelOf(body), at: performance.now() }, length };
}

function modelOf(body: string): string | undefined {
  try {
    return (JSON.parse(body) as { model?: string }).model;
  } catch {
    return undefined;
  }
}
