import { defineConfig } from 'vitest/config';
import { shared } from './test/vitest.shared.ts';

export default defineConfig({
  ...shared,
  test: {
    ...shared.test,
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
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
