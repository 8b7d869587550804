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
export {
  type HistoryOptions,
  type ModelAnswer,
  type OutputLimits,
  type ParseResponseOptions,
  type ProviderMessage,
  type ToolDispatcher,
  type ToolExecutionResult,
} from './tool-dispatcher.js';
export { NativeToolDispatcher } from './native-tool-dispatcher.js';
export { type XmlDispatcherOptions, XmlToolDispatcher, renderCall } from './xml-tool-dispatcher.js';
export { type DispatcherConfig, chooseDispatcher } from './choose-dispatcher.js';
export { XML_STOP_SEQUENCE, promptInstructions } from './prompt-instructions.js';
export { DEFAULT_MAX_OUTPUT_CHARS, type PreparedOutput, prepareOutput } from './result-text.js';
export { nativeContent, toToolResults, xmlResults } from './result-messages.js';
export { attributeText, countForged, neutraliseProtocol, neutraliseSpecialTokens, safeToolName } from './neutralise.js';
export {
  DEFAULT_REPAIR_ROUNDS,
  NO_REPAIRS,
  type RepairDecision,
  type RepairOptions,
  type RepairState,
  decideRepair,
  errorText,
  providerParseError,
  repairText,
} from './repair.js';
export { type LoopOptions, type LoopState, NO_ROUNDS, noteRound } from './loop-detector.js';
