import type { Writable } from 'node:stream';
import { YardError } from '@yardmaster/contracts';
import { Redis } from 'ioredis';
import { FUNCTION_SOURCE, FUNCTION_VERSION, functionName } from './function-source.js';

export interface RedisOptions {
  /** `redis://host:port[/db]`; a user and password may be in it or apart. */
  url: string;
  username?: string;
  password?: string;
  /** Shown in CLIENT LIST. */
  connectionName?: string;
  /**
   * `worker` waits through an outage (its work message is beating meanwhile); `edge` fails a command at once when Redis
   * is away and after `commandTimeoutMs`, so that an HTTP caller gets an answer.
   */
  mode?: 'worker' | 'edge';
  commandTimeoutMs?: number;
}

/** Connects, retrying for ever in the background; returns at once, whether or not Redis is up. */
export function connectRedis(options: RedisOptions): Redis {
  const edge = options.mode === 'edge';
  const redis = new Redis(options.url, {
    ...(options.username === undefined ? {} : { username: options.username }),
    ...(options.password === undefined ? {} : { password: options.password }),
    ...(options.connectionName === undefined ? {} : { connectionName: options.connectionName }),
    ...(edge
      ? { maxRetriesPerRequest: 1, commandTimeout: options.commandTimeoutMs ?? 2_000 }
      : { maxRetriesPerRequest: null }),
    enableOfflineQueue: !edge,
    retryStrategy: (attempt) => Math.min(1_000, 50 * attempt),
    // Functions are loaded by another login; a loading server is retried like an absent one.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
  });
  // Without a listener ioredis prints every failed attempt; readiness tells the state instead.
  redis.on('error', () => undefined);
  redis.on('connect', () => coalesceWrites(redis));
  return redis;
}

/**
 * Lets all commands of one round of the event loop leave in one write, as soon as all that has come in is dealt with: the
 * client writes each by itself, and the system calls were the largest part of what a command costs. A client whose
 * inside looks different works as before.
 */
function coalesceWrites(redis: Redis): void {
  const { stream } = redis as { stream?: Writable };
  if (typeof stream?.cork !== 'function') return;
  const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
  let corked = false;
  const uncork = () => {
    corked = false;
    stream.uncork();
  };
  stream.write = (...args: unknown[]) => {
    if (!corked) {
      corked = true;
      stream.cork();
      setImmediate(uncork);
    }
    return write(...args);
  };
}

/** Resolves when the connection stands, or after `mostMs`: without a queue, commands before that would fail. */
export async function firstConnection(redis: Redis, mostMs: number): Promise<void> {
  if (redis.status === 'ready') return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, mostMs);
    redis.once('ready', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/**
 * Loads this version's function library; needs the bootstrap login. Runs at every start of Redis, not only at
 * installation: without an append-only file the functions are gone after a restart.
 */
export async function loadFunctions(redis: Redis): Promise<void> {
  await redis.function('LOAD', 'REPLACE', FUNCTION_SOURCE);
}

/** Does this Redis have our functions? Throws UNAVAILABLE `YM-STORE-UNREADY` when they are missing. */
export async function checkFunctions(redis: Redis): Promise<void> {
  const version = await call(redis, 'version', [], []);
  if (version !== FUNCTION_VERSION)
    throw new YardError('UNAVAILABLE', 'YM-STORE-UNREADY', 'Redis has another function library.');
}

/** Calls one function of the library; failures come back as YardErrors. */
export async function call(
  redis: Redis,
  name: string,
  keyNames: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  try {
    return await redis.fcall(functionName(name), keyNames.length, ...keyNames, ...args);
  } catch (error) {
    throw storeError(error);
  }
}

/** A command of Redis other than a function, with the same errors. */
export async function command<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw storeError(error);
  }
}

/** What a failed command means to a caller. */
export function storeError(error: unknown): YardError {
  if (YardError.is(error)) return error;
  const text = error instanceof Error ? error.message : String(error);
  const [word = '', second = ''] = text.replace(/^ERR /, '').split(' ');
  const stored = Number(text.split(' ').at(-1));
  switch (word) {
    case 'FENCED':
      return new YardError('CONFLICT', 'YM-FENCED', 'Another worker has taken over this conversation.', {
        details: { stored_fence: stored },
      });
    case 'CONFLICT':
      return new YardError('CONFLICT', 'YM-SEQ-CONFLICT', 'The conversation has moved on since it was read.', {
        details: { stored_seq: stored },
      });
    case 'LOST':
      return new YardError('CONFLICT', 'YM-STATE-LOST', 'Redis has lost writes of this conversation.', {
        details: { lost: second, ...(second === 'record' ? {} : { [`stored_${second}`]: stored }) },
      });
    case 'ENDED':
      return new YardError('CONFLICT', 'YM-RUN-ENDED', `The run is ${second || 'not in that state'}.`, {
        details: { state: second },
      });
    case 'BUSY':
      if (second.length === 36)
        return new YardError('CONFLICT', 'YM-CONVERSATION-BUSY', `Run ${second} is working on this conversation.`, {
          details: { run: second },
        });
      break;
    case 'FULL':
      return new YardError('EXHAUSTED', 'YM-CONVERSATION-FULL', 'The conversation has reached its size limit.', {
        details: { size: stored },
      });
    case 'UNKNOWN':
      return new YardError('NOT_FOUND', 'YM-NOT-FOUND', 'No such run or conversation.');
  }
  if (text.includes('Function not found'))
    return new YardError('UNAVAILABLE', 'YM-STORE-UNREADY', 'Redis has not loaded the function library (yet).', {
      cause: error,
      retryAfterMs: 1_000,
    });
  if (text.includes('Command timed out'))
    return new YardError('TIMEOUT', 'YM-STORE-TIMEOUT', 'Redis did not answer in time.', { cause: error });
  if (/^(MISCONF|OOM|LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|BUSY)/.test(text) || isConnectionError(error, text))
    return new YardError('UNAVAILABLE', 'YM-STORE-UNREACHABLE', 'The conversation store cannot be reached.', {
      cause: error,
      retryAfterMs: 1_000,
    });
  return new YardError('INTERNAL', 'YM-STORE', 'The conversation store failed.', { cause: error });
}

function isConnectionError(error: unknown, text: string): boolean {
  const code = (error as { code?: unknown } | undefined)?.code;
  return (
    typeof code === 'string' ||
    (error instanceof Error && error.name === 'MaxRetriesPerRequestError') ||
    /Connection is closed|isn't writeable|Stream isn't|max retries/i.test(text)
  );
}
