import { dev } from './commands/dev.js';
import { setup } from './commands/setup.js';
import { start } from './commands/start.js';

const [noun = '', ...rest] = process.argv.slice(2);
switch (noun) {
  case 'start':
    process.exitCode = await start(rest);
    break;
  case 'dev':
    process.exitCode = await dev(rest[0] ?? '', rest.slice(1));
    break;
  case 'setup':
    process.exitCode = await setup(rest[0] ?? '', rest.slice(1));
    break;
  default:
    process.stderr.write(`unknown command "${noun}"\n`);
    process.exitCode = 2;
}
