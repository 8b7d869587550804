export { claim, type ClaimDelivery, type ClaimVerdict, MAX_ATTEMPTS } from './claim.js';
export { type CallIdentity, identityOf, salvage } from './identify.js';
export { capOutput, OUTPUT_CAP_BYTES } from './output-cap.js';
export { serveTools, type ServeToolsOptions, type ToolServer } from './serve-tools.js';
export {
  DEFAULT_TOOL_TIMEOUT_MS,
  defineTool,
  type Tool,
  type ToolContext,
  type ToolDefinition,
  type ToolOutcome,
} from './tool.js';
export { argsHash, failpoint } from '@yardmaster/bus';
