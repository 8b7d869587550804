/** Types of events that are stored and numbered. */
export const STORED_EVENT_TYPES = [
  'run.started',
  'step.started',
  'message.completed',
  'tool.requested',
  'tool.approval_required',
  'tool.started',
  'tool.completed',
  'usage',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.incomplete',
] as const;
export type StoredEventType = (typeof STORED_EVENT_TYPES)[number];

/** Types of events that only those get who listen at that moment: they have no id, and may be lost. */
export const LIVE_EVENT_TYPES = ['message.attempt', 'message.delta', 'message.partial', 'tool.output'] as const;
export type LiveEventType = (typeof LIVE_EVENT_TYPES)[number];
