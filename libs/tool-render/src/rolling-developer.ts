import { harmonyUpfront } from './harmony-upfront.js';
import { type ContextRenderer } from './renderer.js';
import { xmlUpfront } from './xml-upfront.js';

export interface RollingDeveloperOptions {
  format?: 'harmony' | 'xml';
  instructions?: string | null;
}

/** All tools in front, drawn anew only where the history is compacted and the cache is lost anyway. */
export function rollingDeveloper({ format = 'harmony', instructions }: RollingDeveloperOptions = {}): ContextRenderer {
  const form = format === 'xml' ? xmlUpfront() : harmonyUpfront({ instructions: instructions ?? null });
  return {
    ...form,
    strategy: 'rolling_developer',
    placement: 'DeveloperMessage',
    cacheImpact: 'RewindToBoundary',
  };
}
