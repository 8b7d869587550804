import { defineConfig } from 'vitest/config';
import { ownFolder } from '../vitest.shared.ts';

export default defineConfig(
  ownFolder(import.meta.url, {
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  }),
);
