import { defineConfig } from 'vitest/config';

export default defineConfig({
  // Tests run from source: every lib's `exports` has a `source` condition, so no build comes first.
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  // Specs lie outside the projects' tsconfigs, which say the same of everything else.
  oxc: { decorator: { legacy: true, emitDecoratorMetadata: true } },
  test: {
    environment: 'node',
    // Packages whose own `source` is TypeScript too, which Node does not take from node_modules.
    server: { deps: { inline: [/@modelcontextprotocol\/client/, /\/eventsource(-parser)?\//] } },
    setupFiles: ['./test/setup.ts'],
    globalSetup: ['./test/servers.ts'],
    include: ['**/*.spec.ts'], // relative to --dir, hence no folder names
    exclude: [
      '**/node_modules/**',
      '**/dist/**',
      'test/charts/**',
      'test/cluster/**',
      'test/images/**',
      'test/llama/**',
    ],
    reporters: ['default', './test/summary-reporter.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
  },
});
