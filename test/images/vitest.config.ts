import { defineConfig } from 'vitest/config';
import { ownFolder } from '../vitest.shared.ts';

export default defineConfig(
  ownFolder(import.meta.url, {
    testTimeout: 300_000,
    // Building every image, each with an npm ci of its own.
    hookTimeout: 3_600_000,
  }),
);
