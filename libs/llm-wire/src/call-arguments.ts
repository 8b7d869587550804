import { isObject, tryParse, type JsonObject } from './json-value.js';

/**
 * The arguments of a call that goes back to a model as history. Servers fill them into a template and refuse the whole
 * request when they are no object (llama.cpp with a 500, Anthropic with a 400); what the model wrote stays visible to it,
 * so that it can repair its call.
 */
export function argumentsObject(text: string): JsonObject {
  const value = tryParse(text.trim() === '' ? '{}' : text);
  return isObject(value) ? value : { malformed_arguments: text };
}

/** The same as JSON text; text that is an object stays byte for byte, so that a cached prefix holds. */
export function argumentsText(text: string): string {
  return isObject(tryParse(text)) ? text : JSON.stringify(argumentsObject(text));
}
