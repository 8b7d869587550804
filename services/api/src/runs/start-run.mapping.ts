import { create, toJsonString } from '@bufbuild/protobuf';
import { type ChatTurn, type ContentPart, type StartRun, StartRunSchema } from '@yardmaster/contracts';
import type { StartRunDto } from './start-run.dto.js';

const json = (value: unknown) => (value === undefined ? undefined : JSON.stringify(value));

/** The one place where a request becomes the message that is stored with the run. */
export function toStartRun(dto: StartRunDto, conversationId: string): StartRun {
  const parts = typeof dto.input !== 'string';
  return create(StartRunSchema, {
    input: parts ? JSON.stringify(dto.input) : (dto.input as string),
    inputIsParts: parts,
    conversationId,
    ...optional({
      agent: dto.agent,
      model: dto.model,
      system: dto.system,
      temperature: dto.temperature,
      maxOutputTokens: dto.max_output_tokens,
      toolChoiceJson: json(dto.tool_choice),
      responseFormatJson: json(dto.response_format),
      toolDispatcher: dto.tool_dispatcher,
      render: dto.render,
      onBusy: dto.on_busy,
      workspace: dto.workspace,
      metadataJson: json(dto.metadata),
    }),
    tools: dto.tools ?? [],
    ...(dto.limits && {
      limits: optional({
        maxIterations: dto.limits.max_iterations,
        maxTokens: dto.limits.max_tokens === undefined ? undefined : BigInt(dto.limits.max_tokens),
        maxCostUsd: dto.limits.max_cost_usd,
        timeoutS: dto.limits.timeout_s,
      }),
    }),
  });
}

/** The user's message as the history keeps it. */
export const firstMessage = (start: StartRun): ChatTurn => ({
  type: 'chat',
  role: 'user',
  content: start.inputIsParts ? (JSON.parse(start.input) as ContentPart[]) : start.input,
});

/** As it stands in the run record. */
export const startRunJson = (start: StartRun) => toJsonString(StartRunSchema, start);

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function optional<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}
