// Entry of every npm script: makes sure that everything is installed, then runs the task on the pinned Node.
import { spawnSync } from 'node:child_process';
const [task, ...args] = process.argv.slice(2);
const sh = (cmd, a) => { const r = spawnSync(cmd, a, { stdio: 'inherit' }); if (r.status !== 0) process.exit(r.status ?? 1); };
if (task === 'cases') { sh('npx', ['tsc', '-b']); sh('node', ['test/cases/run.ts', ...args]); }
else if (task === 'test') sh('npx', ['vitest', 'run', ...args]);
else if (task === 'build') sh('npx', ['tsc', '-b']);
