import { run } from './cli/run.js';
import { TREE } from './tree.js';

/** What may still be on its way when a command has ended: output, and files being closed. */
const LEFTOVERS_MS = 2_000;

process.exitCode = await run(TREE, process.argv.slice(2));
// A connection that was being made when its stack was interrupted would try again for ever and keep the process.
setTimeout(() => process.exit(), LEFTOVERS_MS).unref();
