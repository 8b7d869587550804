import { harmonyDeveloperMessage, harmonyMessage, harmonyToolMessage } from './harmony-text.js';
import { parseAnswer } from './parse-answer.js';
import { type ContextRenderer } from './renderer.js';

export interface HarmonyUpfrontOptions {
  instructions?: string | null;
}

/** All tools in the developer message of a raw Harmony prompt. */
export function harmonyUpfront({ instructions }: HarmonyUpfrontOptions = {}): ContextRenderer {
  return {
    strategy: 'harmony_upfront',
    placement: 'DeveloperMessage',
    discovery: 'Static',
    cacheImpact: 'Rewind',
    initialRender: (catalogue) => ({ segments: [harmonyDeveloperMessage(instructions, catalogue.list())] }),
    onToolLoad: () => undefined,
    onToolsChanged: () => undefined,
    formatMessage: harmonyMessage,
    formatResult: (name, result) => harmonyToolMessage(name, result.text),
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue, ['harmony']),
  };
}
