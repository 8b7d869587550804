import { createHash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { type ChatTurn, type ContentPart, YardError } from '@yardmaster/contracts';
import { ConversationStore, type RunRecord } from '@yardmaster/conversation';
import type { ApiRequest } from '../http/request.js';
import type { FeedEvent } from '../runs/run-feed.js';
import { RunFeeds } from '../runs/run-feeds.js';
import { RunsService } from '../runs/runs.service.js';
import { StartRunDto } from '../runs/start-run.dto.js';
import type { ChunkSink } from './chat-completions.js';
import type { ChatRequestDto } from './chat-request.dto.js';
import { fromOpenAiMessages } from './openai-messages.js';

export const AGENT_MODEL = /^agent:(.+)$/;

/** `model: agent:<name>`: the completion is a run of that agent, with all of its tools, in a conversation of its own. */
@Injectable()
export class AgentCompletions {
  constructor(
    private readonly runs: RunsService,
    private readonly feeds: RunFeeds,
    private readonly store: ConversationStore,
  ) {}

  /**
   * Runs the agent to its end; `started` is told as soon as there is a run. Throws what ended it otherwise; a caller who
   * leaves does not cancel the run.
   */
  async ask(
    request: ApiRequest,
    body: ChatRequestDto,
    signal: AbortSignal,
    started: () => void,
    sink?: ChunkSink,
  ): Promise<RunRecord> {
    const { tenant } = request.caller;
    const idempotencyKey = await this.keyOf(request, body);
    const run = await this.runs.start(request.caller, toRun(body), { trace: request.trace, idempotencyKey });
    started();
    sink?.begin(body.model);
    const terminal = await this.feeds.using(tenant, run.id, (feed) => {
      let answered = '';
      return new Promise<FeedEvent | undefined>((resolve) => {
        const settle = () => {
          if (feed.terminal === undefined && !signal.aborted) return;
          leave();
          signal.removeEventListener('abort', settle);
          resolve(feed.terminal);
        };
        const leave = feed.add({
          stored: settle,
          delta({ type, data }) {
            // Only a step's own text: what another attempt of it says again is cut by its offset.
            if (type !== 'message.delta' || typeof data['text'] !== 'string') return;
            answered += data['text'];
            sink?.text(data['text']);
          },
        });
        signal.addEventListener('abort', settle);
        settle();
      }).then(async (event) => {
        const output = typeof event?.data['output'] === 'string' ? event.data['output'] : '';
        // A reader who came late, or a model that does not stream: the whole text at the end.
        if (answered === '' && output !== '') sink?.text(output);
        return event;
      });
    });
    const record = await this.store.getRun(tenant, run.id);
    if (terminal === undefined || record.state === 'completed' || record.state === 'incomplete') return record;
    const error = record.error;
    throw new YardError(
      error?.class ?? 'UNAVAILABLE',
      error?.code ?? 'YM-RUN-ENDED',
      error?.message ?? `Run ${record.id} was ${record.state}.`,
      { details: { run: record.id } },
    );
  }

  /**
   * Clients of this API repeat requests by themselves and send no Idempotency-Key, but the official one says when it
   * repeats: then the same body means the run that the first try started.
   */
  private async keyOf(request: ApiRequest, body: ChatRequestDto): Promise<string> {
    const given = request.headers['idempotency-key'];
    if (typeof given === 'string' && given !== '') return given;
    const key = `openai:${createHash('sha256').update(JSON.stringify(body)).digest('hex')}`;
    const retries = Number(request.headers['x-stainless-retry-count'] ?? 0);
    if (!(retries > 0)) await this.store.idempotency.forget(request.caller.tenant, key);
    return key;
  }
}

/** A stateless request as a run: what was said before the last message is told as a transcript. */
function toRun(body: ChatRequestDto): StartRunDto {
  const { system, messages } = fromOpenAiMessages(body.messages);
  const turns = messages.filter((message): message is ChatTurn => message.type === 'chat');
  const last = turns.at(-1);
  if (last?.role !== 'user')
    throw new YardError('INVALID', 'YM-REQ-INVALID', 'The last message for an agent must be from the user.', {
      details: { param: 'messages' },
    });
  const before = turns.slice(0, -1).map((turn) => `${turn.role}: ${plain(turn.content)}`);
  const transcript = before.length === 0 ? '' : `What was said before:\n${before.join('\n')}\n\nNow the user says:\n`;
  const dto = new StartRunDto();
  dto.agent = AGENT_MODEL.exec(body.model)![1]!;
  dto.input =
    typeof last.content === 'string'
      ? transcript + last.content
      : [
          ...(transcript === '' ? [] : [{ type: 'text', text: transcript }]),
          ...(last.content as unknown as Record<string, unknown>[]),
        ];
  if (system !== '') dto.system = system;
  if (body.temperature != null) dto.temperature = body.temperature;
  return dto;
}

const plain = (content: string | ContentPart[]) =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join(' ');
