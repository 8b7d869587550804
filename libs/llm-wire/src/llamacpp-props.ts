import { asObject, asText } from './json-value.js';

const OPENS_AT_END = /<think(?:ing)?>\s*$/;
/** An open tag that nothing but line breaks follow, before its string or its part of the template ends. */
const OPENS_IN_TEMPLATE = /<think(?:ing)?>(?:\\n|\s)*(?:['"]|\{[%{]|$)/;

/**
 * Whether the answers of a llama.cpp server begin inside of the reasoning (`think_prefilled`), by its `/props`: the
 * template opens the think block in the prompt, and the server leaves thinking in the text (`--reasoning-format none`;
 * otherwise it splits the two itself). `prompt` is what `/apply-template` makes of a conversation: it says for certain
 * what the template alone leaves open, such as thinking that is turned off.
 */
export function opensThinkInPrompt(props: unknown, prompt?: string): boolean {
  const object = asObject(props);
  const params = asObject(asObject(object?.['default_generation_settings'])?.['params']);
  if (params?.['reasoning_format'] !== 'none') return false;
  if (prompt !== undefined) return OPENS_AT_END.test(prompt);
  const template = asText(object?.['chat_template']);
  const end = template.lastIndexOf('add_generation_prompt');
  return end >= 0 && OPENS_IN_TEMPLATE.test(template.slice(end));
}
