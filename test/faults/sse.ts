import type { StoredEvent } from '../api-views.ts';
import { DEMO_TENANT, type Rig } from './rig.ts';

/** A client of an event stream: keeps the stored events it was sent, in order. */
export interface EventClient {
  events: StoredEvent[];
  status: Promise<number>;
  /** Resolves when the server ended the stream, with what was seen. */
  ended(ms: number): Promise<StoredEvent[]>;
  close(): Promise<void>;
}

/** Follows a run until the server ends the stream, `limit` stored events have come, or it is closed. */
export function openStream(
  rig: Rig,
  run: string,
  {
    after,
    limit = Infinity,
    replica = 0,
    tenant = DEMO_TENANT,
  }: { after?: number; limit?: number; replica?: number; tenant?: string } = {},
): EventClient {
  const abort = new AbortController();
  const events: StoredEvent[] = [];
  const response = rig.raw(`/v1/runs/${run}/events`, {
    tenant,
    replica,
    signal: abort.signal,
    headers: { accept: 'text/event-stream', ...(after === undefined ? {} : { 'last-event-id': String(after) }) },
  });
  const read = async () => {
    const answer = await response;
    if (answer.body === null || answer.status !== 200) return;
    let buffer = '';
    const decoder = new TextDecoder();
    for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
      buffer += decoder.decode(chunk, { stream: true });
      for (let end; (end = buffer.indexOf('\n\n')) >= 0; buffer = buffer.slice(end + 2)) {
        const lines = buffer.slice(0, end).split('\n');
        const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
        if (data.length === 0 || !lines.some((line) => line.startsWith('id: '))) continue;
        events.push(JSON.parse(data.join('\n')) as StoredEvent);
        if (events.length >= limit) return abort.abort();
      }
    }
  };
  const done = read().catch((error: unknown) => {
    if (!abort.signal.aborted) throw error;
  });
  done.catch(() => {});
  return {
    events,
    status: response.then(({ status }) => status),
    async ended(ms) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`the event stream was not ended within ${ms} ms`)), ms);
      });
      try {
        await Promise.race([done, late]);
      } finally {
        clearTimeout(timer);
      }
      return events;
    },
    async close() {
      abort.abort();
      await done.catch(() => {});
    },
  };
}
