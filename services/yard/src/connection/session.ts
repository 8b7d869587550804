import { connect } from 'node:net';
import { YardError } from '@yardmaster/contracts';
import { Yardmaster } from '@yardmaster/client';
import type { Settings } from './settings.js';

/** How long a connection may take to be made, in milliseconds: "unreachable" must be known within three seconds. */
const CONNECT_MS = 2_000;

/** Thrown instead of a request that is only to be shown (--curl, --dry-run). */
export class OnlyShown extends Error {
  constructor(
    readonly form: 'curl' | 'dry-run',
    readonly words: string,
  ) {
    super(words);
  }
}

export interface SessionOptions {
  curl: boolean;
  dryRun: boolean;
  requestTimeoutMs: number | undefined;
  onRequest: ((line: string) => void) | undefined;
}

/** One API with one key, as a command uses it. */
export class Session {
  /** For what the command is about: with --curl its request is shown, with --dry-run nothing is changed by it. */
  readonly api: Yardmaster;
  /** For what has to be looked up first, such as whole ids. */
  readonly lookup: Yardmaster;
  private reached: Promise<void> | undefined;

  constructor(
    readonly settings: Settings,
    private readonly options: SessionOptions,
  ) {
    const { apiUrl, apiKey } = settings;
    const common = {
      apiUrl,
      apiKey,
      retries: 1,
      ...(options.requestTimeoutMs === undefined ? {} : { timeoutMs: options.requestTimeoutMs }),
    };
    this.lookup = new Yardmaster({ ...common, fetch: (input, init) => this.send(input, init) });
    this.api = new Yardmaster({
      ...common,
      fetch: async (input, init = {}) => {
        const url = input as string;
        const method = init.method ?? 'GET';
        if (options.curl) throw shown(new OnlyShown('curl', curlCommand(url, init)));
        if (options.dryRun && method !== 'GET' && !/\/(validate|plan)$/.test(url))
          throw shown(
            new OnlyShown(
              'dry-run',
              `would send ${method} ${new URL(url).pathname}${typeof init.body === 'string' ? ` ${init.body}` : ''}`,
            ),
          );
        return this.send(input, init);
      },
    });
  }

  /** The tenant of the key: its text says it. */
  get tenant(): string {
    return this.settings.apiKey.split('_')[1] ?? '';
  }

  private async send(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    this.options.onRequest?.(`${init.method ?? 'GET'} ${String(input)}`);
    await (this.reached ??= reach(this.settings.apiUrl));
    const response = await fetch(input, init);
    this.options.onRequest?.(`${response.status} request ${response.headers.get('x-request-id') ?? '-'}`);
    return response;
  }
}

/** Wrapped in what the client passes on unchanged and does not repeat. */
function shown(only: OnlyShown): YardError {
  return new YardError('INVALID', 'ONLY-SHOWN', only.words, { cause: only });
}

/** Fails within two seconds where `fetch` would wait for minutes. */
function reach(apiUrl: string): Promise<void> {
  const url = new URL(apiUrl);
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
      timeout: CONNECT_MS,
    });
    const fail = (why: string) => {
      socket.destroy();
      reject(new YardError('UNAVAILABLE', 'YM-UNREACHABLE', `Cannot reach ${apiUrl} (${why}).`));
    };
    socket.once('connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('timeout', () => fail(`no answer in ${CONNECT_MS / 1000} s`));
    socket.once('error', (error: NodeJS.ErrnoException) =>
      fail(error.code === 'ECONNREFUSED' ? 'connection refused' : (error.code ?? error.message)),
    );
  });
}

const quoted = (text: string) =>
  /^[A-Za-z0-9_./:=?&%@-]+$/.test(text) && !/[?&]/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** The same request for a shell; the key stays in the environment. */
export function curlCommand(url: string, init: RequestInit): string {
  const headers = Object.entries(init.headers as Record<string, string>).filter(
    ([name]) => name !== 'authorization' && name !== 'accept',
  );
  const accept = (init.headers as Record<string, string>)['accept'];
  return [
    'curl -sS',
    ...(init.method === undefined || init.method === 'GET' ? [] : [`-X ${init.method}`]),
    `-H "Authorization: Bearer $YM_API_KEY"`,
    ...(accept === undefined || accept === 'application/json' ? [] : [`-N -H ${quoted(`accept: ${accept}`)}`]),
    ...headers.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    ...(typeof init.body === 'string' ? [`--data-raw ${quoted(init.body)}`] : []),
    quoted(url),
  ].join(' ');
}
