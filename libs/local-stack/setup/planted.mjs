// Proves that the linter really refuses what it should: each planted violation is linted in the place of a file that
// exists, so nothing is written. Exits 1 when one of them passes, or when clean code is refused.
import { existsSync, globSync, readFileSync } from 'node:fs';
import { ESLint } from 'eslint';
import { root } from './exec.mjs';

// With CI set, typescript-eslint takes the text of a file from the disk and not from us.
process.env.TSESTREE_SINGLE_RUN = 'false';

const BOUNDARY = '@nx/enforce-module-boundaries';
const aService = 'services/router/src/main.ts';

/** [what, file whose place the text takes, text, rule that must fire or undefined for clean code] */
const PLANTED = [
  ['a pure lib that imports Nest', 'libs/text-edit/src/index.ts', `export { Module } from '@nestjs/common';`, BOUNDARY],
  ['a pure lib that imports the bus', 'libs/text-edit/src/index.ts', `export * from '@yardmaster/bus';`, BOUNDARY],
  ['a pure lib that does I/O', 'libs/text-edit/src/index.ts', `export * from 'node:fs';`, 'no-restricted-imports'],
  ['a contract that imports Nest', 'libs/contracts/src/index.ts', `export { Module } from '@nestjs/common';`, BOUNDARY],
  [
    'a lib that imports a service',
    'libs/guard/src/index.ts',
    `export * from '../../../services/api/src/main.js';`,
    BOUNDARY,
  ],
  ['a service that imports another by path', aService, `export * from '../../api/src/main.js';`, BOUNDARY],
  ['a service that imports another by name', aService, `export * from '@yardmaster/dispatcher';`, BOUNDARY],
  ['a service that imports testkit', aService, `export * from '@yardmaster/testkit';`, BOUNDARY],
  [
    'a promise nobody waits for',
    aService,
    `const later = async (): Promise<void> => {};\nlater();`,
    '@typescript-eslint/no-floating-promises',
  ],
  ['clean: a service that imports contracts', aService, `export * from '@yardmaster/contracts';`, undefined],
];
const spec = globSync('services/*/src/**/*.spec.ts', { cwd: root })[0];
if (spec !== undefined)
  PLANTED.push(['clean: a spec that imports testkit', spec, `export * from '@yardmaster/testkit';`, undefined]);

let wrong = 0;
// A project without a type is one that no rule of the boundaries speaks of.
for (const file of globSync('{libs,services}/*/package.json', { cwd: root })) {
  const { nx } = JSON.parse(readFileSync(`${root}/${file}`, 'utf8'));
  if (['type:', 'scope:'].every((kind) => nx?.tags?.some((tag) => tag.startsWith(kind)))) continue;
  console.log(`${file}: "nx" needs the tags "type:…" and "scope:…" (see those of libs/guard)`);
  wrong++;
}

const eslint = new ESLint({ cwd: root });
for (const [what, file, text, rule] of PLANTED) {
  if (!existsSync(`${root}/${file}`)) {
    console.log(`not checked: ${what}: ${file} is gone, name another file in planted.mjs`);
    wrong++;
    continue;
  }
  const [{ messages }] = await eslint.lintText(`${text}\n`, { filePath: `${root}/${file}` });
  const fired = messages.filter(({ ruleId }) => rule === undefined || ruleId === rule);
  if (fired.length > 0 !== (rule !== undefined)) {
    console.log(
      `${rule === undefined ? 'refused' : 'NOT refused'}: ${what} (${messages.map(({ ruleId, message }) => ruleId ?? message).join(', ') || 'no message'})`,
    );
    wrong++;
  }
}
console.log(wrong === 0 ? `${PLANTED.length} planted imports judged rightly` : `${wrong} wrong`);
process.exitCode = wrong === 0 ? 0 : 1;
