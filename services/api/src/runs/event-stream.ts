import type { ServerResponse } from 'node:http';
import { type FeedEvent, type RunFeed, TERMINAL_EVENTS } from './run-feed.js';

export interface EventStreamOptions {
  keepAliveMs: number;
  /** Bytes that the reader may be behind before it loses deltas. */
  bufferBytes: number;
  /** How long it may stand still before it is cut off; it can come back with the last number it saw. */
  stalledMs: number;
  /** May this reader still read? Asked now and then: a key can be revoked while its stream is open. */
  isAllowed: () => boolean;
}

export const SSE_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
  connection: 'keep-alive',
} as const;

export const sseFrame = (event: FeedEvent) =>
  `${event.id === undefined ? '' : `id: ${event.id}\n`}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

/**
 * Writes a run's events to one connection until the run or the reader ends. Stored events are fetched by number when
 * there is room, so a slow reader costs a number and no memory; deltas, which nobody can ask for again, are dropped for
 * a reader that is behind.
 */
export async function streamEvents(
  response: ServerResponse,
  feed: RunFeed,
  after: number,
  options: EventStreamOptions,
): Promise<void> {
  let cursor = after;
  // Deltas are passed on from the moment when everything before them has been.
  let live = false;
  let wake: (() => void) | undefined;
  let room: (() => void) | undefined;
  let closed = response.destroyed;
  let movedAt = Date.now();
  const write = (text: string) => {
    response.write(text);
    movedAt = Date.now();
  };
  const leave = feed.add({
    stored: () => wake?.(),
    delta(event) {
      // A delta must not overtake the stored events that came before it.
      if (live && cursor === feed.last && response.writableLength < options.bufferBytes / 4) write(sseFrame(event));
    },
  });
  const onClose = () => {
    closed = true;
    wake?.();
    room?.();
  };
  const onDrain = () => {
    movedAt = Date.now();
    room?.();
  };
  response.once('close', onClose);
  response.on('drain', onDrain);
  const timer = setInterval(
    () => {
      if (!options.isAllowed()) response.destroy();
      else if (response.writableNeedDrain && Date.now() - movedAt > options.stalledMs) response.destroy();
      else if (!response.writableNeedDrain && Date.now() - movedAt >= options.keepAliveMs) write(': keep-alive\n\n');
    },
    Math.min(options.keepAliveMs, options.stalledMs),
  );

  try {
    write('retry: 1000\n\n');
    while (!closed) {
      const kept = feed.next(cursor);
      // What is no longer in memory comes from the stream, a page at a time.
      const page = kept !== undefined ? [kept] : cursor < feed.last ? await feed.read(cursor, 50) : [];
      for (const event of page) {
        if (response.writableLength >= options.bufferBytes) await new Promise<void>((resolve) => (room = resolve));
        if (closed) return;
        write(sseFrame(event));
        cursor = event.id!;
        if (TERMINAL_EVENTS.has(event.type)) return;
      }
      if (page.length > 0 || closed) continue;
      if (!live) {
        const partial = feed.partial();
        if (partial !== undefined) write(sseFrame(partial));
        live = true;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    clearInterval(timer);
    leave();
    response.off('drain', onDrain);
    response.off('close', onClose);
    if (!response.destroyed) response.end();
  }
}
