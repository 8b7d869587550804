import { StringDecoder } from 'node:string_decoder';
import { type Socket } from 'node:net';
import { MAX_LINE_BYTES } from './runner-protocol.js';

/** Calls `onValue` for every JSON line of the socket; a line that is too long or no JSON ends the connection through `onBad`. */
export function readJsonLines(socket: Socket, onValue: (value: unknown) => void, onBad: (why: string) => void): void {
  const decoder = new StringDecoder('utf8');
  let parts: string[] = [];
  let length = 0;
  const take = (text: string): boolean => {
    length += text.length;
    if (length > MAX_LINE_BYTES) {
      onBad(`a line is longer than ${MAX_LINE_BYTES} bytes`);
      return false;
    }
    parts.push(text);
    return true;
  };
  socket.on('data', (chunk: Buffer) => {
    let text = decoder.write(chunk);
    for (;;) {
      const end = text.indexOf('\n');
      if (end === -1) break;
      if (!take(text.slice(0, end))) return;
      const line = parts.join('');
      parts = [];
      length = 0;
      text = text.slice(end + 1);
      let value: unknown;
      try {
        value = JSON.parse(line);
      } catch {
        onBad('a line is no JSON');
        return;
      }
      onValue(value);
    }
    if (text) take(text);
  });
}
