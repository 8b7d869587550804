export {
  ALL_TEXT_DIALECTS,
  CORE_TEXT_DIALECTS,
  type Dialect,
  type ParseNotes,
  type ParseResult,
  type ParsedToolCall,
  type ToolCallError,
  type ToolCallErrorKind,
  type ToolDefinition,
} from './types.js';
export { type StreamEvent } from './answer-sink.js';
export { ToolSet } from './tool-set.js';
export { type ParseOptions, type StreamResult, ToolCallStream, parseToolCalls } from './stream.js';
export { type NativeAnswer, type NativeToolCall, readNativeCalls } from './native-calls.js';
