/** A fault of the framing itself; the stream cannot go on after it. */
export class FramingError extends Error {}

/**
 * Server-sent events from bytes: lines end in LF, CRLF or CR, may be cut anywhere (inside a character too), and the
 * last event counts even without its blank line.
 */
export class SseDecoder {
  private readonly decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  private rest = '';
  private data: string | undefined;
  private event = '';
  private skipLineFeed = false;
  private start = true;

  constructor(
    private readonly onEvent: (data: string, event: string) => void,
    private readonly lineCapBytes: number,
  ) {}

  /** Throws a FramingError when a line or an event grows beyond the cap. */
  push(bytes: Uint8Array): void {
    this.pushText(this.decoder.decode(bytes, { stream: true }));
  }

  /** Like `push`, for text that is decoded already. */
  pushText(text: string): void {
    if (text === '') return;
    if (this.start) {
      this.start = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    if (this.skipLineFeed && text !== '') {
      this.skipLineFeed = false;
      if (text.charCodeAt(0) === 10) text = text.slice(1);
    }
    let from = 0;
    let lineFeed = text.indexOf('\n');
    let carriage = text.indexOf('\r');
    while (lineFeed !== -1 || carriage !== -1) {
      const atCarriage = carriage !== -1 && (lineFeed === -1 || carriage < lineFeed);
      const at = atCarriage ? carriage : lineFeed;
      const piece = text.slice(from, at);
      const line = this.rest === '' ? piece : this.rest + piece;
      this.rest = '';
      from = at + 1;
      if (atCarriage) {
        if (from === text.length) this.skipLineFeed = true;
        else if (text.charCodeAt(from) === 10) from++;
        carriage = text.indexOf('\r', from);
        if (lineFeed !== -1 && lineFeed < from) lineFeed = text.indexOf('\n', from);
      } else {
        lineFeed = text.indexOf('\n', from);
      }
      this.line(line);
    }
    if (from < text.length) this.rest += from === 0 ? text : text.slice(from);
    if (this.rest.length > this.lineCapBytes) throw new FramingError('a line is longer than the cap');
  }

  /** The end of the stream: hands out the event that still lacks its blank line. */
  end(): void {
    this.pushText(this.decoder.decode());
    if (this.rest !== '') {
      const line = this.rest;
      this.rest = '';
      this.line(line);
    }
    this.dispatch();
  }

  private line(line: string): void {
    if (line === '') {
      this.dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon === -1 ? line : line.slice(0, colon);
    if (field !== 'data' && field !== 'event' && field !== 'error') return;
    const value = colon === -1 ? '' : line.slice(line.charCodeAt(colon + 1) === 32 ? colon + 2 : colon + 1);
    if (field === 'event') {
      this.event = value;
      return;
    }
    // llama.cpp reports a failure in a field of that name.
    if (field === 'error') this.event = 'error';
    this.data = this.data === undefined ? value : `${this.data}\n${value}`;
    if (this.data.length > this.lineCapBytes) throw new FramingError('an event is longer than the cap');
  }

  private dispatch(): void {
    const { data, event } = this;
    this.data = undefined;
    this.event = '';
    if (data !== undefined && data.trim() !== '') this.onEvent(data, event);
  }
}
