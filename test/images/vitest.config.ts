import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  oxc: { decorator: { legacy: true, emitDecoratorMetadata: true } },
  test: {
    environment: 'node',
    include: ['*.spec.ts'],
    reporters: ['default', '../summary-reporter.ts'],
    testTimeout: 300_000,
    // Building every image, each with an npm ci of its own.
    hookTimeout: 3_600_000,
    pool: 'forks',
    maxWorkers: 1,
  },
});
