import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Invocation } from '../cli/invocation.js';
import { UsageError } from '../cli/usage-error.js';
import { isWholeId } from '../connection/fragments.js';
import { stackFile, stackIn, stateFolder } from '../stack/checkout.js';
import { StackError } from '../stack/stack-error.js';
import { EXIT } from '../exit-codes.js';
import { oneLine } from '../terminal.js';

export interface LogLine {
  service: string;
  time: string;
  level: string;
  text: string;
  /** The line as it was written. */
  raw: string;
  /** The whole of it, where it is JSON. */
  fields: Record<string, unknown> | undefined;
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
const POLL_MS = 250;

/** `yard logs [SERVICE…]`: the files of the local stack, merged by time; also those of a stack that has ended. */
export async function logs(invocation: Invocation): Promise<void> {
  const folder = stackIn(stackFile())?.logs ?? join(stateFolder(), 'logs');
  if (!existsSync(folder))
    throw new StackError(
      `no stack of this checkout has run: there is no ${folder}. Start one with: npm start`,
      EXIT.unreachable,
    );
  const files = readdirSync(folder).filter((name) => name.endsWith('.log'));
  const known = files.map((name) => name.slice(0, -'.log'.length));
  const unknown = invocation.args.find((service) => !known.includes(service));
  if (unknown !== undefined)
    throw new UsageError(`no service "${unknown.slice(0, 60)}" has a log here; there are: ${known.join(', ')}`);
  const services = invocation.args.length > 0 ? invocation.args : known;
  const accept = await filterOf(invocation);
  const count = invocation.number('lines') ?? 100;

  const ends = new Map<string, number>();
  const lines = services.flatMap((service) => {
    const text = readFileSync(join(folder, `${service}.log`), 'utf8');
    ends.set(service, Buffer.byteLength(text));
    return parseLog(service, text).filter(accept);
  });
  lines.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  for (const line of count === 0 ? lines : lines.slice(-count)) show(invocation, line);
  if (!invocation.on('follow')) return;
  for (;;) {
    await sleep(POLL_MS);
    const fresh = services.flatMap((service) => {
      const [text, end] = readFrom(join(folder, `${service}.log`), ends.get(service) ?? 0);
      ends.set(service, end);
      return parseLog(service, text).filter(accept);
    });
    fresh.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
    for (const line of fresh) show(invocation, line);
  }
}

async function filterOf(invocation: Invocation): Promise<(line: LogLine) => boolean> {
  const level = LEVELS.indexOf(invocation.text('level') ?? 'trace');
  const given = invocation.text('run');
  // The log can be searched for a piece of an id without asking the API, and also after the stack has ended.
  if (given !== undefined && !isWholeId(given) && given.length < 6)
    throw new UsageError(`--run needs at least 6 characters of the id (got "${given}")`);
  const run = given?.toLowerCase();
  return (line) =>
    (line.level === '' || LEVELS.indexOf(line.level) >= level) &&
    (run === undefined || line.raw.toLowerCase().includes(run));
}

/** The complete lines of a file from a byte on, and where they end. */
function readFrom(file: string, start: number): [text: string, end: number] {
  const { size } = statSync(file);
  if (size <= start) return ['', size < start ? 0 : start];
  const buffer = Buffer.alloc(size - start);
  const handle = openSync(file, 'r');
  try {
    const read = readSync(handle, buffer, 0, buffer.length, start);
    const end = buffer.lastIndexOf(10, read - 1) + 1;
    return [buffer.subarray(0, end).toString('utf8'), start + end];
  } finally {
    closeSync(handle);
  }
}

const HIDDEN = new Set(['level', 'time', 'service', 'msg', 'pid', 'hostname']);

/** The lines of one service; what is not JSON (a crash, a warning of Node) keeps the time of the line before it. */
export function parseLog(service: string, text: string): LogLine[] {
  let time = '';
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((raw) => {
      let fields: Record<string, unknown> | undefined;
      try {
        const value: unknown = JSON.parse(raw);
        if (typeof value === 'object' && value !== null) fields = value as Record<string, unknown>;
      } catch {
        // Not one of our lines: shown as it is.
      }
      if (fields === undefined) return { service, time, level: '', text: raw, raw, fields };
      time = typeof fields['time'] === 'string' ? fields['time'] : time;
      const rest = Object.entries(fields).filter(([name]) => !HIDDEN.has(name));
      const extra = rest.map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
      return {
        service,
        time,
        level: String(fields['level'] ?? ''),
        text: [String(fields['msg'] ?? ''), ...extra].join(' '),
        raw,
        fields,
      };
    });
}

function show({ output }: Invocation, line: LogLine): void {
  if (output.structured)
    output.line(JSON.stringify(line.fields ?? { service: line.service, time: line.time, msg: line.raw }));
  else
    output.line(
      `${line.time.slice(11, 23).padEnd(12)} ${line.service.padEnd(14)} ${line.level.padEnd(5)} ${oneLine(line.text, output.form === 'wide' ? 100_000 : 300)}`,
    );
}
