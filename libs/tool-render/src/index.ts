export { type ToolCatalogue, type ToolView, catalogueOf, compareNames, serverOf } from './tool-view.js';
export {
  type CacheImpact,
  type CallResult,
  type ContextDelta,
  type ContextRenderer,
  type Discovery,
  type InitialContext,
  type ParsedAnswer,
  type Placement,
  type RoutedCall,
  type Strategy,
  type ToolLoad,
  type ToolSetChange,
} from './renderer.js';
export { type RenderSpec, createRenderer } from './create-renderer.js';
export { chooseStrategy, isSmallSet, roughTokens } from './choose-strategy.js';
export { RenderSession, type RenderSessionState, selectedNames } from './render-session.js';
export { CALL_MCP, META_TOOLS, META_TOOL_NAMES, SEARCH_LIMIT, TOOL_DESCRIBE, TOOL_SEARCH } from './meta-tools.js';
export { ExposedNames, exposedName, isServerId } from './exposed-names.js';
export { type SearchHit, ToolSearch } from './tool-search.js';
export { definitionOf } from './parse-answer.js';
export { loadRecord, readLoadRecord } from './load-record.js';
export { harmonyBody } from './harmony-text.js';
export { isStrategy, STRATEGIES } from './renderer.js';
export { showTool } from './view-schema.js';
export { toolsChangedText } from './claude-deferred.js';
export { xmlToolPrompt } from './xml-upfront.js';
export { harmonyToolLines } from './harmony-text.js';
export { type PinnedTools, pinnedText, readPinned, viewOf } from './registered-tool.js';
