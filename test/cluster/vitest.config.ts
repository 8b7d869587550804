import { defineConfig } from 'vitest/config';
import { ownFolder } from '../vitest.shared.ts';

export default defineConfig(
  ownFolder(import.meta.url, {
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Each file has an API server of its own: one at a time.
    fileParallelism: false,
  }),
);
