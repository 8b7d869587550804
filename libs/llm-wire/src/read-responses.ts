import type { AnswerSink } from './answer-sink.js';
import { asArray, asObject, asText, isObject, stringifySafely, type JsonObject } from './json-value.js';
import { isErrorObject } from './read-chat.js';
import { readUsage } from './read-usage.js';

/** Reads the Responses API: a body, or events that say the same thing up to three times (delta, done, completed). */
export class ResponsesReader {
  /** Characters already taken, by item and part, so that a repetition adds only what is missing. */
  private readonly taken = new Map<string, number>();
  private readonly callNames = new Map<string, { index: number; id: string; name: string }>();
  private reasoningKind: string | undefined;
  private textSeen = '';

  constructor(
    private readonly sink: AnswerSink,
    private readonly maxTokens?: number,
  ) {}

  /** Returns true when the event ends the answer. */
  onEvent(value: unknown, event: string): boolean {
    const object = asObject(value);
    if (object === undefined) return false;
    const type = asText(object['type']) || event;
    const at = String(object['output_index'] ?? object['item_id'] ?? asObject(object['item'])?.['id'] ?? 0);
    switch (type) {
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        this.takeText(`${at}/${String(object['content_index'] ?? 0)}`, asText(object['delta']), false);
        return false;
      case 'response.output_text.done':
        this.takeText(`${at}/${String(object['content_index'] ?? 0)}`, asText(object['text']), true);
        return false;
      case 'response.refusal.done':
        this.takeText(`${at}/${String(object['content_index'] ?? 0)}`, asText(object['refusal']), true);
        return false;
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_summary.delta':
        this.takeReasoning('summary', `${at}/${String(object['summary_index'] ?? 0)}`, asText(object['delta']), false);
        return false;
      case 'response.reasoning_text.delta':
      case 'response.reasoning.delta':
        this.takeReasoning('content', `${at}/${String(object['content_index'] ?? 0)}`, asText(object['delta']), false);
        return false;
      case 'response.output_item.added':
      case 'response.output_item.done':
        this.takeItem(object['item'], at, type.endsWith('done'));
        return false;
      case 'response.function_call_arguments.delta':
        this.takeArguments(this.callKey(object, at), asText(object['delta']), false);
        return false;
      case 'response.function_call_arguments.done':
        this.takeArguments(this.callKey(object, at), object['arguments'], true);
        return false;
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
      case 'response.done':
        this.onBody(object['response'] ?? object);
        return true;
      case 'error':
        this.sink.fail({ status: 200, body: isObject(object['error']) ? object : { error: object } });
        return true;
      default:
        if (isErrorObject(object) && !type.startsWith('response.')) {
          this.sink.fail({ status: 200, body: object });
          return true;
        }
        return false;
    }
  }

  /** A whole response object; what its events brought before is not taken twice. */
  onBody(value: unknown): void {
    const response = asObject(Array.isArray(value) ? value[0] : value);
    if (response === undefined) return;
    const usage = readUsage(response['usage']);
    this.sink.setUsage(usage);
    this.takeOutput(asArray(response['output']).filter(isObject), asText(response['output_text']));
    const status = asText(response['status']);
    if (status === 'failed' || status === 'cancelled' || isErrorObject(response)) {
      const error = isObject(response['error']) ? response : { error: { code: 'server_error', message: status } };
      this.sink.fail({ status: 200, body: error });
    } else if (status === 'incomplete') {
      this.sink.finishReason(asText(asObject(response['incomplete_details'])?.['reason']) || 'length');
    } else if (status === 'completed' || (status === '' && Array.isArray(response['output']))) {
      // llama.cpp says `completed` of every answer, also of one that its limit cut.
      const isFull = this.maxTokens !== undefined && (usage?.completion_tokens ?? 0) >= this.maxTokens;
      this.sink.finishReason(isFull ? 'length' : 'stop');
    }
  }

  /** The whole output. Events may have numbered its parts otherwise, so text is compared with all that came before. */
  private takeOutput(items: readonly JsonObject[], shortcut: string): void {
    const text = items.map(messageText).join('') || shortcut;
    if (text.startsWith(this.textSeen)) this.takeText('all', text.slice(this.textSeen.length), false);
    if (!this.hasReasoning())
      for (const [index, item] of items.entries())
        if (item['type'] === 'reasoning') this.takeItem(item, String(index), true);
    for (const [index, item] of items.entries())
      if (item['type'] === 'function_call') this.takeItem(item, String(index), true);
  }

  private takeText(key: string, text: string, whole: boolean): void {
    const fresh = this.fresh(`t${key}`, text, whole);
    this.textSeen += fresh;
    this.sink.text(fresh);
  }

  private takeReasoning(kind: string, key: string, text: string, whole: boolean): void {
    if (text === '') return;
    // A server may send a summary and the content; the first kind seen is the reasoning.
    this.reasoningKind ??= kind;
    if (this.reasoningKind !== kind) return;
    const first = !this.taken.has(`r${key}`) && this.hasReasoning();
    const fresh = this.fresh(`r${key}`, text, whole);
    this.sink.reasoning(first && fresh !== '' ? `\n${fresh}` : fresh, 'reasoning');
  }

  private hasReasoning(): boolean {
    for (const key of this.taken.keys()) if (key.startsWith('r')) return true;
    return false;
  }

  private fresh(key: string, text: string, whole: boolean): string {
    const before = this.taken.get(key) ?? 0;
    const fresh = whole ? text.slice(before) : text;
    if (fresh !== '' || !this.taken.has(key)) this.taken.set(key, before + fresh.length);
    return fresh;
  }

  private callKey(object: JsonObject, at: string): string {
    const itemId = asText(object['item_id']);
    return this.callNames.has(`#${itemId}`) ? `#${itemId}` : at;
  }

  private takeArguments(key: string, value: unknown, whole: boolean): void {
    const call = this.callNames.get(key);
    if (call === undefined) return;
    const text =
      typeof value === 'string' ? value : value === undefined || value === null ? '' : stringifySafely(value);
    const fresh = this.fresh(`a${call.index}`, text, whole);
    if (fresh !== '') this.sink.call([{ ...call, arguments: fresh }]);
  }

  private takeItem(value: unknown, at: string, whole: boolean): void {
    const item = asObject(value);
    if (item === undefined) return;
    const type = item['type'];
    if (type === 'message') {
      asArray(item['content']).forEach((part, index) => {
        if (!isObject(part)) return;
        const text = asText(part['type'] === 'refusal' ? part['refusal'] : part['text']);
        if (whole || text !== '') this.takeText(`${at}/${index}`, text, true);
      });
    } else if (type === 'reasoning') {
      for (const kind of ['summary', 'content']) {
        asArray(item[kind]).forEach((part, index) => {
          this.takeReasoning(kind, `${at}/${index}`, isObject(part) ? asText(part['text']) : asText(part), true);
        });
      }
    } else if (type === 'function_call') {
      this.takeCall(item, at, whole);
    }
  }

  private takeCall(item: JsonObject, at: string, whole: boolean): void {
    const itemId = asText(item['id']);
    const callId = asText(item['call_id']) || itemId;
    const known = this.callNames.get(`#${itemId}`) ?? this.callNames.get(`@${callId}`) ?? this.callNames.get(at);
    const same = known !== undefined && (known.id === callId || callId === '');
    const call = same ? known : { index: this.callCount++, id: callId, name: asText(item['name']) };
    if (!same) {
      this.callNames.set(at, call);
      if (itemId !== '') this.callNames.set(`#${itemId}`, call);
      if (callId !== '') this.callNames.set(`@${callId}`, call);
      this.sink.call([call]);
    }
    this.takeArguments(at, item['arguments'], true);
    if (whole && this.callNames.get(at) !== call) this.callNames.set(at, call);
  }

  private callCount = 0;
}

function messageText(item: JsonObject): string {
  if (item['type'] !== 'message') return '';
  return asArray(item['content'])
    .map((part) => (isObject(part) ? asText(part['type'] === 'refusal' ? part['refusal'] : part['text']) : ''))
    .join('');
}
