export { type Dialect, type JsonSchema, dialectOf } from './json-schema.js';
export { resolveLocal, walkSchema, type SchemaPosition } from './schema-walk.js';
export { pointerKeys, pointerTo } from './json-pointer.js';
export { type CoerceOptions, type CoercionChange, type CoercionRule, coerceArguments } from './coerce.js';
export { type Verdict, validateArguments } from './validate.js';
export { type SchemaIssue } from './issues.js';
export { nearestName } from './nearest-name.js';
export {
  type ArgumentsError,
  type ArgumentsVerdict,
  type CheckOptions,
  type CheckedTool,
  checkArguments,
} from './check-arguments.js';
export { repairText, unknownToolText } from './repair-text.js';
export { isInexactInteger, numberLiterals } from './number-literals.js';
export { MAX_ARGUMENT_BYTES, MAX_ARGUMENT_DEPTH, forbiddenKey, nestingOf } from './argument-limits.js';
export { neutralise, neutraliseDeep } from './control-tokens.js';
export { linearPattern } from './linear-pattern.js';
export { type GateCode, type GateOptions, type GateVerdict, SCHEMA_LIMITS, gateSchema } from './schema-gate.js';
export { type DownlevelledSchema, type ProviderRules, downlevelSchema } from './downlevel.js';
export {
  type ApprovalDecision,
  type ApprovalLevel,
  type ApprovalPolicy,
  type ApprovalRequest,
  type ApprovalSubject,
  type ToolCategory,
  approvalLevel,
  decideApproval,
  isHidden,
} from './approval-policy.js';
export {
  type ApprovalGrant,
  type GrantScope,
  type HashedDefinition,
  argumentsHash,
  definitionHash,
  hostsIn,
} from './approval-grant.js';
