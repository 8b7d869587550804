export { assertUrl, checkText, judge, type Refusal, type Resolve, type Target } from './assert-url.js';
export { assertJsonLimits, JSON_LIMITS, type JsonLimits, parseJson, readBody } from './json.js';
export { Outbound, type OutboundOptions, OutboundPools, type OutboundRequest } from './outbound.js';
export {
  type AllowEntry,
  type OperatorPolicy,
  operatorPolicy,
  type Policy,
  type TenantPolicy,
  tenantPolicy,
  type TenantPolicyOptions,
} from './policy.js';
export { isAlive, startTimeOf, type TreeUsage, treeUsage } from './process-tree.js';
export { followRedirects, type Hop, type Landed } from './redirect.js';
export { Secret } from './secret.js';
export {
  dataLimitKb,
  isolationArguments,
  limitVariables,
  makeSandboxEtc,
  privateArguments,
  SANDBOX_ENVIRONMENT,
  SANDBOX_HOME,
  type SandboxLimits,
  sealArguments,
  SECCOMP_FILE,
  systemArguments,
} from './sandbox.js';
