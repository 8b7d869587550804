export { unifiedDiff } from './diff.js';
export { createEditEngine, type EditEngine } from './edit-engine.js';
export { applyEdit, findEdit } from './edit.js';
export { createSyntaxEngine } from './syntax-engine.js';
export {
  PASS_NAMES,
  type AppliedEdit,
  type Candidate,
  type EditOptions,
  type EditRequest,
  type EditResult,
  type FindResult,
  type FoundEdit,
  type Pass,
  type RefusedEdit,
  type SkippedPass,
  type Splice,
  type SyntaxEngine,
  type SyntaxPlace,
} from './types.js';
