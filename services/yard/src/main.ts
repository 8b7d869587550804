import { run } from './cli/run.js';
import { TREE } from './tree.js';

process.exitCode = await run(TREE, process.argv.slice(2));
