import { Agent } from 'undici';
import { type Capabilities, readProps } from './props.js';

export type CheckResult =
  | { health: 'ok'; capabilities?: Capabilities; propsProblem?: string }
  | { health: 'loading' }
  /** `refused`: nobody listens there at all. */
  | { health: 'failed'; refused: boolean; reason: string };

export interface PodCheckOptions {
  timeoutMs: number;
}

const MAX_BODY_BYTES = 1024 * 1024;

/** Asks llama.cpp servers how they are. */
export class PodCheck {
  private readonly agent: Agent;
  private readonly timeoutMs: number;

  constructor({ timeoutMs }: PodCheckOptions) {
    this.timeoutMs = timeoutMs;
    this.agent = new Agent({
      connections: 1,
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: 4_000,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      connect: { timeout: timeoutMs },
      maxResponseSize: MAX_BODY_BYTES,
    });
  }

  /** Never throws. `key` is sent with `/props` only, and only there: `/health` needs none. */
  async check(address: string, withProps: boolean, key: string | undefined, stop: AbortSignal): Promise<CheckResult> {
    try {
      const health = await this.get(address, '/health', {}, stop);
      if (health.status === 503) return { health: 'loading' };
      if (health.status !== 200)
        return { health: 'failed', refused: false, reason: `/health answers ${health.status}` };
    } catch (error) {
      return { health: 'failed', refused: isRefused(error), reason: `/health: ${words(error)}` };
    }
    if (!withProps) return { health: 'ok' };
    try {
      const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
      const props = await this.get(address, '/props', headers, stop);
      if (props.status === 200) {
        const said = parsed(props.text);
        // Its words are not repeated: they are the pod's.
        if (said === undefined) return { health: 'ok', propsProblem: '/props answers something that is no JSON' };
        return { health: 'ok', capabilities: readProps(said) };
      }
      const hint = props.status === 401 ? ' (its API key: key_file or key_env of the provider in YM_CONFIG)' : '';
      return { health: 'ok', propsProblem: `/props answers ${props.status}${hint}` };
    } catch (error) {
      return { health: 'ok', propsProblem: `/props: ${words(error)}` };
    }
  }

  async close(): Promise<void> {
    await this.agent.destroy();
  }

  private async get(address: string, path: string, headers: Record<string, string>, stop: AbortSignal) {
    const signal = AbortSignal.any([stop, AbortSignal.timeout(this.timeoutMs)]);
    const response = await this.agent.request({ origin: `http://${address}`, path, method: 'GET', headers, signal });
    return { status: response.statusCode, text: await response.body.text() };
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const codeOf = (error: unknown): string => String((error as { code?: unknown } | undefined)?.code ?? '');
const isRefused = (error: unknown): boolean => /ECONNREFUSED|EHOSTUNREACH|ENETUNREACH/.test(codeOf(error));

function words(error: unknown): string {
  if ((error as Error).name === 'TimeoutError' || /TIMEOUT/.test(codeOf(error))) return 'no answer in time';
  return codeOf(error) || (error as Error).message;
}
