import { type AnswerSink } from './answer-sink.js';
import { skipBlank } from './json-scan.js';
import { readJson } from './read-json.js';
import { mayStillChange } from './tolerant-json.js';

const MARK = /<\|(start|channel|message|constrain|end|call|return)\|>/g;
const MARK_HERE = /<\|(?:start|channel|message|constrain|end|call|return)\|>/y;
const RECIPIENT = /\bto=([^\s<>]{1,200})/g;
const CHANNEL = /<\|channel\|>\s{0,8}([A-Za-z_]{1,40})/;
const LONGEST_MARK = '<|constrain|>'.length;
const STARTS = ['<|start|>', '<|channel|>', '<|message|>', '<|constrain|>', 'to='];

/** Whether an answer is in Harmony's form: it begins with a mark or in the middle of a message header. */
export function startsLikeHarmony(text: string, final: boolean): boolean | 'need' {
  const start = skipBlank(text, 0);
  const head = text.slice(start, start + LONGEST_MARK);
  if (STARTS.some((mark) => head.startsWith(mark))) return true;
  return !final && STARTS.some((mark) => mark.startsWith(head)) ? 'need' : false;
}

interface Header {
  role: string;
  channel: string | undefined;
  recipient: string | undefined;
  /** It is addressed to a second one too. */
  ambiguous: boolean;
}

/**
 * Reads the messages of gpt-oss: `analysis` is reasoning, `final` and a `commentary` to nobody are text, a message
 * addressed to a tool is a call. A message in another role was made up by the model and ends the reading.
 */
export class HarmonyReader {
  /** Undefined while a header is being read. */
  private header: Header | undefined;
  private stopped = false;

  constructor(private readonly sink: AnswerSink) {}

  /** Consumes what can be decided; with `final` everything. Returns the index of the first character that is left. */
  advance(text: string, final: boolean): number {
    let at = 0;
    while (at < text.length) {
      if (this.stopped) return text.length;
      const next = this.header ? this.readContent(text, at, final) : this.readHeader(text, at, final);
      if (next === 'need') return at;
      at = next;
    }
    return at;
  }

  private readHeader(text: string, at: number, final: boolean): number | 'need' {
    const end = text.indexOf('<|message|>', at);
    if (end < 0) {
      if (!final) return 'need';
      const header = headerOf(text.slice(at));
      if (header.recipient !== undefined && header.recipient !== 'assistant') {
        this.sink.addUnreadable('unterminated', 'the call ends before its arguments', text.slice(at), text.length - at);
      }
      return text.length;
    }
    this.header = headerOf(text.slice(at, end));
    if (this.header.role !== 'assistant') {
      this.sink.noteFabricated();
      this.stopped = true;
      return text.length;
    }
    return end + '<|message|>'.length;
  }

  private readContent(text: string, at: number, final: boolean): number | 'need' {
    const header = this.header!;
    if (header.recipient !== undefined && header.recipient !== 'assistant' && header.recipient !== 'all') {
      return this.readCall(text, at, final, header.recipient);
    }
    MARK.lastIndex = at;
    const mark = MARK.exec(text);
    if (mark) {
      this.show(header, text.slice(at, mark.index));
      return this.endMessage(mark[1]!, mark.index);
    }
    let end = text.length;
    if (!final) {
      const last = text.lastIndexOf('<');
      if (last >= at && text.length - last < LONGEST_MARK) end = last;
    }
    if (end === at) return 'need';
    this.show(header, text.slice(at, end));
    return end;
  }

  private readCall(text: string, at: number, final: boolean, recipient: string): number | 'need' {
    const start = skipBlank(text, at);
    if (start >= text.length && !final) return 'need';
    const name = recipient.replace(/^functions\./, '');
    const reading = readJson(text, start);
    if (start >= text.length || reading.status === 'cut') {
      if (!final) return 'need';
      MARK_HERE.lastIndex = start;
      this.sink.addUnreadable(
        'unterminated',
        'the call ends before its JSON is complete',
        text.slice(at),
        text.length - at,
        name,
      );
      return text.length;
    }
    if (reading.status === 'bad') {
      if (!final && mayStillChange(reading, text)) return 'need';
      MARK_HERE.lastIndex = start;
      if (MARK_HERE.test(text) && !this.header!.ambiguous) {
        // A tool without parameters may be called with no content at all.
        this.sink.addCall({ name, args: {}, input: text.slice(at, start) });
        return this.endMessage(markName(text, start), start);
      }
      MARK.lastIndex = reading.end ?? reading.at;
      const mark = MARK.exec(text);
      if (!mark && !final) return 'need';
      const resume = mark ? mark.index : text.length;
      this.sink.addUnreadable(
        'malformed_json',
        reading.message,
        text.slice(at, Math.max(resume, reading.at)),
        reading.at - at,
        name,
      );
      return mark ? this.endMessage(mark[1]!, mark.index) : resume;
    }
    MARK.lastIndex = reading.end;
    const mark = MARK.exec(text);
    if (!mark && !final) return 'need';
    const rest = text.slice(reading.end, mark ? mark.index : text.length);
    if (this.header!.ambiguous) {
      this.sink.addUnreadable(
        'malformed_json',
        'the message is addressed to two tools',
        text.slice(at, reading.end + rest.length),
        0,
      );
    } else if (skipBlank(rest, 0) < rest.length) {
      this.sink.addUnreadable(
        'malformed_json',
        'more text after the arguments',
        text.slice(at, reading.end + rest.length),
        reading.end - at,
        name,
      );
    } else {
      for (const rule of reading.repairs) this.sink.countRepair(rule);
      const input = text.slice(at, Math.min(reading.end, at + 1000));
      this.sink.addCall({ name, args: reading.value, literals: reading.literals, input });
    }
    return mark ? this.endMessage(mark[1]!, mark.index) : text.length;
  }

  /** After a message: the next header begins, at a mark of its own or behind the mark that ended the message. */
  private endMessage(mark: string, at: number): number {
    if (this.header && isReasoning(this.header)) this.sink.endReasoning();
    else this.sink.markGap();
    this.header = undefined;
    return mark === 'end' || mark === 'call' || mark === 'return' ? at + mark.length + 4 : at;
  }

  private show(header: Header, text: string): void {
    if (isReasoning(header)) this.sink.addReasoning(text);
    else this.sink.addText(text);
  }
}

function isReasoning(header: Header): boolean {
  return header.channel === 'analysis';
}

function markName(text: string, at: number): string {
  return text.slice(at + 2, text.indexOf('|>', at));
}

function headerOf(text: string): Header {
  const started = /<\|start\|>\s{0,8}([^\s<]{1,200})/.exec(text)?.[1];
  const recipients = new Set(Array.from(text.matchAll(RECIPIENT), ([, recipient]) => recipient));
  const [recipient] = recipients;
  return {
    role: started ?? 'assistant',
    channel: CHANNEL.exec(text)?.[1],
    recipient,
    ambiguous: recipients.size > 1,
  };
}
