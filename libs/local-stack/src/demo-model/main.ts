import { parseArgs } from 'node:util';
import { startModel } from './model-server.js';

// The demo model as a process: `node main.js [--port N] [--chunk-delay-ms N]`. Its first line on stdout is
// `{"url": …}`; it ends with SIGTERM, or when its standard input does, so that it never outlives who started it.
const { values } = parseArgs({
  options: { port: { type: 'string', default: '0' }, 'chunk-delay-ms': { type: 'string', default: '20' } },
});
const model = await startModel({ port: Number(values.port), chunkDelayMs: Number(values['chunk-delay-ms']) });
console.log(JSON.stringify({ url: model.url, pid: process.pid, demo: true }));
const stop = () => void model.stop().then(() => process.exit(0));
process.on('SIGTERM', stop);
// Ctrl-C reaches the whole terminal group; who started us decides when we end.
process.on('SIGINT', () => {});
process.stdin.on('end', stop).on('error', stop).resume();
