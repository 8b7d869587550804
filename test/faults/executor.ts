// The executor of the fault scenarios: its tools leave `start <call> <time>` and `done <call> <time>` lines in a file outside every
// sandbox, so that what was really executed can be counted.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { defineTool, failpoint, serveTools, type ToolContext } from '@yardmaster/executor-kit';

const env = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is missing`);
  return value;
};
const log = env('FAULT_EFFECTS');

/** Between the two lines of a call: the place at which an executor can die in the middle of a command. */
async function logged(
  tool: string,
  context: ToolContext,
  between: () => Promise<void> | void,
  x = '',
): Promise<string> {
  const call = `${context.runId}/${context.callId}`;
  appendFileSync(log, `start ${call} ${Date.now()} ${tool}\n`);
  failpoint('executor.command.running');
  await between();
  const output = `${tool} ${randomBytes(4).toString('hex')} ${x}`;
  appendFileSync(log, `done ${call} ${Date.now()} ${output}\n`);
  return output;
}

/** Sleeps in a process of its own, in its own group; it ends with its executor, however that ends, and by an abort. */
async function commandOf(seconds: number, { signal }: ToolContext): Promise<void> {
  const script =
    'sleep "$1" & p=$!; (while read -r _; do :; done; kill -KILL -$$) <&3 3<&- & wait $p; s=$?; trap "" HUP; exit $s';
  const child = spawn('/bin/sh', ['-c', `exec 3<&0; ${script}`, 'fault-command', String(seconds)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  child.stdin.on('error', () => {});
  appendFileSync(log, `process ${child.pid}\n`);
  const end = () => process.kill(-child.pid!, 'SIGKILL');
  const timer = setTimeout(() => {}, 0x7fffffff); // the command keeps the process alive
  try {
    await new Promise<void>((resolve, reject) => {
      signal.addEventListener('abort', () => {
        try {
          end();
        } catch {
          // It has just ended by itself.
        }
        reject(signal.reason as Error);
      });
      child.once('error', reject);
      child.once('exit', () => resolve());
    });
  } finally {
    clearTimeout(timer);
    try {
      end(); // the watcher within the group
    } catch {
      // The group is gone.
    }
  }
}

const text = { type: 'string' };
const number = { type: 'number' };
const object = (properties: Record<string, unknown>) => ({ type: 'object', properties });

const tools = [
  defineTool({
    name: 'effect',
    description: 'An effect that must not happen twice.',
    effect: 'unsafe',
    input: object({ x: text }),
    run: (_args, context) => logged('effect', context, () => {}),
  }),
  defineTool<{ ms?: number; x?: string }>({
    name: 'ro',
    description: 'Reads something.',
    effect: 'read',
    input: object({ x: text, ms: number }),
    run: ({ ms = 0, x }, context) => logged('ro', context, () => (ms > 0 ? sleep(ms) : undefined), x),
  }),
  defineTool<{ n: number }>({
    name: 'slow',
    description: 'Sleeps n seconds.',
    effect: 'unsafe',
    input: object({ n: number }),
    run: ({ n }, context) => logged('slow', context, () => commandOf(n, context)),
  }),
  defineTool<{ n: number }>({
    name: 'big',
    description: 'Prints n bytes.',
    effect: 'read',
    input: object({ n: number }),
    run: ({ n }) => `BEGIN${'0123456789abcde\n'.repeat(Math.ceil(n / 16)).slice(0, n - 8)}END`,
  }),
  defineTool({
    name: 'poison',
    description: 'Kills whoever runs it.',
    effect: 'read',
    input: object({ x: text }),
    run: async (_args, context) => {
      await logged('poison', context, () => process.kill(process.pid, 'SIGKILL') as never);
      return new Promise<string>(() => {});
    },
  }),
];

process.on('unhandledRejection', (error) => console.error('a rejection was not handled', error));
const server = await serveTools(
  {
    kind: 'fault',
    url: env('YM_NATS_URL'),
    pass: readFileSync(env('YM_NATS_PASSWORD_FILE'), 'utf8').trim(),
    slots: Number(env('FAULT_SLOTS')),
    ackWaitMs: Number(env('FAULT_ACK_WAIT_MS')),
  },
  tools,
);
console.log(JSON.stringify({ msg: 'ready', pid: process.pid }));

const parent = Number(env('YM_PARENT_PID'));
setInterval(() => {
  try {
    process.kill(parent, 0);
  } catch {
    process.exit(1);
  }
}, 1_000).unref();
process.once('SIGTERM', () => void server.stop().then(() => process.exit(0)));
