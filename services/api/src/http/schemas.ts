import { ERROR_CLASSES, LIVE_EVENT_TYPES, STORED_EVENT_TYPES } from '@yardmaster/contracts';
import { RUN_STATES } from '@yardmaster/conversation';

const text = { type: 'string' } as const;
const time = { type: ['string', 'null'], format: 'date-time' } as const;
const count = { type: 'integer', minimum: 0 } as const;
const free = { type: 'object', additionalProperties: true } as const;
const maybeText = { type: ['string', 'null'] } as const;
const maybeCount = { type: ['integer', 'null'], minimum: 0 } as const;
const list = (items: Record<string, unknown>) => ({ type: 'array', items });
const object = (properties: Record<string, unknown>, required: string[] = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
});

/** What the API answers, for its description; requests are described by their DTOs. */
export const SCHEMAS = {
  Problem: object(
    {
      type: { ...text, description: 'Where the code is explained.' },
      title: text,
      status: { type: 'integer' },
      detail: text,
      instance: text,
      class: { enum: Object.keys(ERROR_CLASSES), description: 'What the caller may do next.' },
      code: { ...text, description: 'Stable, YM-…' },
      trace_id: text,
      retry_after_ms: count,
      errors: {
        type: 'array',
        description: 'All faults of an invalid request.',
        items: object({ pointer: text, rule: text, got: {}, did_you_mean: text }, ['pointer', 'rule']),
      },
    },
    ['type', 'title', 'status', 'detail', 'instance', 'class', 'code', 'trace_id'],
  ),
  Run: object(
    {
      id: { ...text, format: 'uuid' },
      object: { const: 'run' },
      state: { enum: RUN_STATES },
      conversation_id: { ...text, format: 'uuid' },
      agent: { type: ['string', 'null'] },
      model: { type: ['string', 'null'] },
      output: text,
      error: object({ class: text, code: text, message: text, details: free }, ['class', 'code', 'message']),
      reason: { ...text, description: 'Why it is incomplete.' },
      cancel_reason: text,
      usage: object({
        prompt_tokens: count,
        completion_tokens: count,
        cached_tokens: count,
        total_tokens: count,
        cost_usd: { type: 'number', minimum: 0 },
      }),
      steps: count,
      created_at: time,
      started_at: time,
      updated_at: time,
      ended_at: time,
      metadata: free,
    },
    ['id', 'object', 'state', 'conversation_id', 'agent', 'model', 'usage', 'steps', 'created_at', 'metadata'],
  ),
  RunPage: object({
    items: { type: 'array', items: { $ref: '#/components/schemas/Run' } },
    next_cursor: { type: ['string', 'null'] },
  }),
  RunEvent: object(
    {
      id: { ...count, description: 'Absent from events that are not stored.' },
      type: {
        ...text,
        description:
          [...STORED_EVENT_TYPES, ...LIVE_EVENT_TYPES.map((type) => `${type}*`)].join(', ') + ' (* not stored)',
      },
      run_id: { ...text, format: 'uuid' },
      at: { ...text, format: 'date-time' },
      data: free,
    },
    ['type', 'run_id', 'at', 'data'],
  ),
  Fleet: object({
    mode: { enum: ['kubernetes', 'none'] },
    leader: maybeText,
    written_at: time,
    stale: { type: 'boolean', description: 'Nobody leads: this is how it was.' },
    note: maybeText,
    executors: list(
      object({
        name: text,
        deployment: text,
        kinds: list(text),
        min: count,
        max: count,
        calls_per_pod: { ...count, description: 'Waiting and running calls that one pod should have.' },
        current: maybeCount,
        desired: maybeCount,
        need: { ...maybeCount, description: 'Waiting and running calls; null while nobody knows.' },
        state: { enum: ['ok', 'hold'] },
        reason: text,
        decided_at: time,
      }),
    ),
    pods: list(
      object({
        provider: text,
        name: text,
        namespace: text,
        node: maybeText,
        address: text,
        state: { enum: ['ready', 'loading', 'draining', 'unhealthy', 'unchecked'] },
        reason: maybeText,
        slots: maybeCount,
        context: { ...maybeCount, description: 'Tokens of one slot.' },
        native_tools: { type: ['boolean', 'null'] },
        vision: { type: ['boolean', 'null'] },
        model: maybeText,
        since: time,
      }),
    ),
    decisions: list(
      object({
        at: time,
        executor: text,
        action: { enum: ['up', 'down', 'hold'] },
        from: maybeCount,
        to: maybeCount,
        reason: text,
      }),
    ),
    watches: list(
      object({ namespace: text, state: text, listed_at: time, stale: { type: 'boolean' }, problem: maybeText }),
    ),
  }),
  RunEventPage: object({
    items: { type: 'array', items: { $ref: '#/components/schemas/RunEvent' } },
    next_cursor: { type: ['string', 'null'] },
  }),
} as const;
