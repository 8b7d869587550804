import type { Candidate } from './candidate.js';

const KEY_LIKE = /\b(sk|ak|pk|gsk|xai|key|nvapi|hf)[-_][A-Za-z0-9*_-]{6,}/g;

/** A provider's text without keys, which providers quote in part or whole; at most 2 KiB. */
export function redact(text: string, candidate: Candidate): string {
  let clean = text;
  for (const key of candidate.keys) {
    const value = key.reveal();
    if (value.length >= 4) clean = clean.replaceAll(value, '[key]');
  }
  return clean
    .replace(KEY_LIKE, '[key]')
    .replace(/\bBearer\s+\S+/gi, 'Bearer [key]')
    .slice(0, 2048);
}
