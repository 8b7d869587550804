import { registerHooks } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { Dialect, JsonSchema } from './json-schema.js';

/** What the gate asks its worker. */
export interface GateJob {
  schema: JsonSchema;
  dialect: Dialect;
  patterns: string[];
}

/** What it answers; the codes are those of the gate. */
export type GateReply =
  | { ok: true; cpuMs: number }
  | { ok: false; code: 'bad_pattern' | 'unsafe_pattern' | 'bad_schema' | 'bad_ref'; message: string };

const fromSource = import.meta.url.endsWith('.ts');
if (fromSource) {
  // Tests run from source: Node strips the types itself, but does not know that `./x.js` is `./x.ts` here.
  registerHooks({
    resolve: (specifier, context, next) => {
      const inSource = specifier.startsWith('./') && context.parentURL?.endsWith('.ts') === true;
      return next(inSource ? specifier.replace(/\.js$/, '.ts') : specifier, context);
    },
  });
}
const { decide } = (await import(new URL(`./gate-compile${fromSource ? '.ts' : '.js'}`, import.meta.url).href)) as {
  decide(job: GateJob): GateReply;
};

parentPort?.on('message', (job: GateJob) => parentPort?.postMessage(decide(job)));
parentPort?.postMessage('ready');
