import { defineConfig } from 'vitest/config';
import { ownFolder } from '../vitest.shared.ts';

export default defineConfig(
  ownFolder(import.meta.url, {
    setupFiles: ['../setup.ts'],
    // A model on two busy cores writes one token a second.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  }),
);
