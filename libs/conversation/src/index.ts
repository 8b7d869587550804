export { Admission } from './admission.js';
export { InlineBodies } from './bodies.js';
export { type Conversation } from './conversations.js';
export { ConversationStore } from './conversation-store.js';
export {
  type Acquired,
  type AcquireRequest,
  type AppendRequest,
  DEFAULT_RETENTION,
  type FencedRef,
  type HistoryItem,
  type Retention,
  type WindowRequest,
  type Written,
} from './history.js';
export { Idempotency, type IdempotentStart } from './idempotency.js';
export { type ConversationRef, type RunRef } from './keys.js';
export { type Taken, TenantLimits, usageDay } from './limits.js';
export { connectRedis, loadFunctions, type RedisOptions } from './redis-connection.js';
export {
  type Decision,
  isTerminal,
  type PendingCall,
  RUN_STATES,
  type RunError,
  type RunRecord,
  type RunState,
  type RunUpdate,
  TERMINAL_STATES,
  type TerminalState,
} from './run-record.js';
export { type CancelOutcome, type CreatedRun, type NewRun, type OnBusy, type Page, type RunFilter } from './runs.js';
export { type ConversationTools, ToolSets } from './tool-sets.js';
export { WindowCache, type WindowCacheOptions } from './window-cache.js';
export { Leadership, Timers } from './timers.js';
