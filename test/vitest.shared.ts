import { fileURLToPath } from 'node:url';
import type { ViteUserConfig } from 'vitest/config';

/** What every test run shares: from source, in processes of their own, with the closing line that counts. */
export const shared = {
  // Every lib's `exports` has a `source` condition, so no build comes first.
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  // Specs lie outside the projects' tsconfigs, which say the same of everything else.
  oxc: { decorator: { legacy: true, emitDecoratorMetadata: true } },
  test: {
    environment: 'node',
    reporters: ['default', fileURLToPath(new URL('summary-reporter.ts', import.meta.url))],
    pool: 'forks',
  },
} satisfies ViteUserConfig;

/** A folder of tests that `npm test` leaves out: those that need more than it promises to need. */
export const ownFolder = (config: string, test: ViteUserConfig['test']): ViteUserConfig => ({
  ...shared,
  root: fileURLToPath(new URL('.', config)),
  test: { ...shared.test, include: ['*.spec.ts'], maxWorkers: 1, ...test },
});
