export * from './wire-types.js';
export * from './wire-request.js';
export { buildChatRequest, endpointUrl } from './build-request.js';
export { messageJson } from './build-chat.js';
export { hasImages, mergeSystemIntoUser } from './wire-messages.js';
export { normaliseBody, WireStream } from './wire-stream.js';
export { classifyFailure, speaksOfModel } from './classify-failure.js';
export type { Failure, FailureClass, FailureReason, FailureVerdict } from './failure-verdict.js';
export type { OverflowNumbers } from './overflow-numbers.js';
export {
  authHeaders,
  PROVIDER_KINDS,
  providerKind,
  providerKindNames,
  type AuthStyle,
  type ProviderKind,
} from './catalogue.js';
export { opensThinkInPrompt } from './llamacpp-props.js';
export { costOf, priceOf, PRICES, type Price, type PriceRow } from './prices.js';
