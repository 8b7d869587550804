import { anthropicBody } from './build-anthropic.js';
import { chatBody, sampling } from './build-chat.js';
import { responsesBody } from './build-responses.js';
import { hasImages } from './wire-messages.js';
import { UnsendableRequest, type ChatRequestInput, type WireRequest } from './wire-request.js';
import type { WireFamily } from './wire-types.js';

const PATHS: Record<WireFamily, string> = {
  'openai-chat': '/chat/completions',
  'openai-responses': '/responses',
  'anthropic-messages': '/messages',
  'llamacpp-completion': '/completion',
  'openai-embeddings': '/embeddings',
};

/** Builds the request of one attempt; throws UnsendableRequest when this provider cannot take it. */
export function buildChatRequest(input: ChatRequestInput): WireRequest {
  if (input.quirks?.vision === false && hasImages(input.messages)) {
    throw new UnsendableRequest(
      'no_vision',
      `the model ${input.model} takes no images here; remove them or choose a provider that can see`,
    );
  }
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: input.stream === false || input.family === 'openai-embeddings' ? 'application/json' : 'text/event-stream',
  };
  if (input.family === 'anthropic-messages') headers['anthropic-version'] = '2023-06-01';
  return { path: PATHS[input.family], headers, body: bodyOf(input) };
}

function bodyOf(input: ChatRequestInput): string {
  switch (input.family) {
    case 'openai-chat':
      return chatBody(input);
    case 'openai-responses':
      return responsesBody(input);
    case 'anthropic-messages':
      return anthropicBody(input);
    case 'llamacpp-completion':
      return completionBody(input);
    case 'openai-embeddings':
      if (input.inputs === undefined || input.inputs.length === 0) {
        throw new UnsendableRequest('no_inputs', 'embeddings need at least one text');
      }
      return JSON.stringify({ model: input.model, input: input.inputs, encoding_format: 'float', ...input.extra });
  }
}

/** llama.cpp's raw `/completion`: the renderer's text goes in exactly as it is. */
function completionBody(input: ChatRequestInput): string {
  if (input.prompt === undefined) {
    throw new UnsendableRequest('no_prompt', 'llamacpp-completion needs the rendered prompt, not messages');
  }
  const body: Record<string, unknown> = {
    prompt: input.prompt,
    cache_prompt: true,
    ...sampling(input.sampling, input.quirks ?? {}),
  };
  if (input.maxTokens !== undefined) body['n_predict'] = input.maxTokens;
  if (input.stream !== false) body['stream'] = true;
  return JSON.stringify({ ...body, ...input.extra });
}

/** The full address of a path at a provider; a query of the base stays. llama.cpp's `/completion` lies beside `/v1`. */
export function endpointUrl(baseUrl: string, path: string): string {
  const mark = baseUrl.indexOf('?');
  const query = mark === -1 ? '' : baseUrl.slice(mark);
  const base = (mark === -1 ? baseUrl : baseUrl.slice(0, mark)).replace(/\/+$/, '');
  return (path === '/completion' ? base.replace(/\/v1$/, '') : base) + path + query;
}
