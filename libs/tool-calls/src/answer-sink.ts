import { checkCall, clipInput, lineAndColumn, requiredOf } from './check-call.js';
import { type ShapedCall } from './call-shape.js';
import { type ToolSet } from './tool-set.js';
import { type ParsedToolCall, type ParseNotes, type ParseResult, type RawCall, type ToolCallError } from './types.js';

/** What a reader of a stream may show at once. `reset`: all text so far turned out to be reasoning. */
export type StreamEvent = { type: 'text'; text: string } | { type: 'reasoning'; text: string } | { type: 'reset' };

/** A long list of errors tells a model nothing that its first entries do not. */
const MAX_ERRORS = 16;
const CALL_MARK = /<(?:tool[_-]?call|function_call|invoke)\b|<function=|```tool_call/gi;

/** Collects what the scanner finds, in order, and makes the result of it. */
export class AnswerSink {
  private text: string[] = [];
  private reasoning: string[] = [];
  private calls: (Omit<ParsedToolCall, 'id'> & { id?: string })[] = [];
  private errors: ToolCallError[] = [];
  private notes: ParseNotes = {
    repairs: {},
    callsInReasoning: 0,
    quotedCallsIgnored: 0,
    fabricatedResult: false,
    errorsDropped: 0,
  };
  private events: StreamEvent[] = [];
  /** Blanks after the last text; they count only if more text follows. */
  private blanks = '';
  private gap: 'none' | 'call' | 'reasoning' = 'none';
  private reasoningGap = false;

  constructor(
    private readonly tools: ToolSet | undefined,
    private readonly turn: string,
    private readonly collectEvents: boolean,
  ) {}

  /** Whether nothing but blanks and reasoning was found so far. */
  get isEmpty(): boolean {
    return this.text.length === 0 && this.calls.length === 0 && this.errors.length === 0;
  }

  get hasText(): boolean {
    return this.text.length > 0;
  }

  isRegistered(name: string): boolean {
    return this.tools?.resolve(name) !== undefined;
  }

  /** Whether a call of this name would not be refused for it. */
  isAllowed(name: string): boolean {
    return !this.tools || this.isRegistered(name);
  }

  /** The parameter names that the schema of a tool declares. */
  parameterNames(name: string): ReadonlySet<string> {
    const schema = this.tools?.resolve(name)?.parameters;
    const properties = typeof schema === 'object' ? schema['properties'] : undefined;
    return new Set(typeof properties === 'object' && properties !== null ? Object.keys(properties) : []);
  }

  addText(text: string): void {
    let start = 0;
    while (start < text.length && isSpace(text.charCodeAt(start))) start++;
    if (start === text.length) {
      this.blanks += text;
      return;
    }
    let end = text.length;
    while (isSpace(text.charCodeAt(end - 1))) end--;
    let shown = text.slice(start, end);
    if (this.text.length > 0) shown = this.separator(this.blanks + text.slice(0, start)) + shown;
    this.blanks = text.slice(end);
    this.gap = 'none';
    this.text.push(shown);
    this.emit({ type: 'text', text: shown });
  }

  addReasoning(text: string): void {
    if (text === '') return;
    const shown = this.reasoningGap ? `\n${text}` : text;
    this.reasoningGap = false;
    this.reasoning.push(shown);
    this.emit({ type: 'reasoning', text: shown });
  }

  endReasoning(): void {
    this.reasoningGap = this.reasoning.length > 0;
    if (this.gap === 'none') this.gap = 'reasoning';
  }

  /** A block that is not text stood here. */
  markGap(): void {
    this.gap = 'call';
  }

  addCall(raw: RawCall, decodes = 1): void {
    this.markGap();
    const checked = checkCall(raw, this.tools, decodes);
    if ('error' in checked) {
      this.pushError(checked.error);
      return;
    }
    for (const rule of checked.repairs) this.countRepair(rule);
    this.calls.push(raw.id === undefined ? checked.call : { ...checked.call, id: raw.id });
  }

  addShaped(shaped: ShapedCall[], input: string): void {
    // Once for all: a block may hold thousands of them.
    let clipped: string | undefined;
    for (const one of shaped) {
      if ('raw' in one) this.addCall(one.raw);
      else {
        this.markGap();
        if (this.errors.length >= MAX_ERRORS) {
          this.notes.errorsDropped++;
          continue;
        }
        clipped ??= clipInput(input);
        const tool = one.name === undefined ? undefined : this.tools?.resolve(one.name);
        const required = requiredOf(tool);
        this.pushError({
          kind: one.problem,
          message: one.message,
          input: clipped,
          ...(one.name === undefined ? {} : { name: one.name.slice(0, 200) }),
          ...(required.length > 0 ? { required } : {}),
        });
      }
    }
  }

  /** A call block that could not be read. `body` is what was read, `at` the place in it where reading failed. */
  addUnreadable(
    kind: 'malformed_json' | 'unterminated',
    message: string,
    body: string,
    at: number,
    name?: string,
  ): void {
    this.markGap();
    if (this.errors.length >= MAX_ERRORS) {
      this.notes.errorsDropped++;
      return;
    }
    const named = name ?? /["']name["']\s{0,8}:\s{0,8}["']([\w.:-]{1,64})["']/.exec(body.slice(0, 400))?.[1];
    const required = named === undefined ? [] : requiredOf(this.tools?.resolve(named));
    this.pushError({
      kind,
      message,
      input: clipInput(body),
      ...lineAndColumn(body, at),
      ...(named === undefined ? {} : { name: named.slice(0, 200) }),
      ...(required.length > 0 ? { required } : {}),
    });
  }

  countRepair(rule: string): void {
    this.notes.repairs[rule] = (this.notes.repairs[rule] ?? 0) + 1;
  }

  countQuoted(text: string): void {
    this.notes.quotedCallsIgnored += countMarks(text);
  }

  noteFabricated(): void {
    this.notes.fabricatedResult = true;
  }

  /** An orphan `</think>`: everything so far was reasoning, calls and errors too. */
  takeBack(): void {
    const earlier = [
      ...this.reasoning,
      ...(this.reasoning.length > 0 && this.text.length > 0 ? ['\n'] : []),
      ...this.text,
    ];
    this.notes.callsInReasoning += this.calls.length;
    this.reasoning = earlier;
    this.text = [];
    this.calls = [];
    this.errors = [];
    this.notes.errorsDropped = 0;
    this.notes.fabricatedResult = false;
    this.blanks = '';
    this.gap = 'none';
    this.reasoningGap = this.reasoning.length > 0;
    this.emit({ type: 'reset' });
  }

  /** An empty sink for the same tools, to see what a text would come to. */
  probe(): AnswerSink {
    return new AnswerSink(this.tools, this.turn, false);
  }

  /** The events since the last time. */
  drain(): StreamEvent[] {
    if (this.events.length === 0) return NO_EVENTS;
    const events = this.events;
    this.events = [];
    return events;
  }

  result(): ParseResult {
    const reasoning = this.reasoning.join('').trim();
    this.notes.callsInReasoning += countMarks(reasoning);
    return {
      text: this.text.join(''),
      reasoning,
      calls: withIds(this.calls, this.turn),
      errors: this.errors,
      notes: this.notes,
    };
  }

  private pushError(error: ToolCallError): void {
    if (this.errors.length < MAX_ERRORS) this.errors.push(error);
    else this.notes.errorsDropped++;
  }

  /** What stands between two pieces of text: the blanks themselves, or one break where a block was taken out. */
  private separator(blanks: string): string {
    if (this.gap === 'none') return blanks;
    const breaks = blanks.split('\n').length - 1;
    if (breaks > 0) return breaks > 1 ? '\n\n' : '\n';
    if (blanks !== '') return ' ';
    return this.gap === 'call' ? '\n' : '';
  }

  private emit(event: StreamEvent): void {
    if (this.collectEvents) this.events.push(event);
  }
}

const NO_EVENTS: StreamEvent[] = [];

/** Gives every call an id of its own: the provider's where it is the first to carry it, else one of ours. */
export function withIds(calls: (Omit<ParsedToolCall, 'id'> & { id?: string })[], turn: string): ParsedToolCall[] {
  const used = new Set<string>();
  for (const call of calls) if (call.id !== undefined) used.add(call.id);
  const given = new Set<string>();
  return calls.map((call, index) => {
    if (call.id !== undefined && call.id !== '' && !given.has(call.id)) {
      given.add(call.id);
      return { ...call, id: call.id };
    }
    let id = `call_${turn}_${index + 1}`;
    for (let next = 2; used.has(id); next++) id = `call_${turn}_${index + 1}_${next}`;
    used.add(id);
    given.add(id);
    const { id: provider, ...rest } = call;
    return { ...rest, id, ...(provider ? { providerId: provider } : {}) };
  });
}

function countMarks(text: string): number {
  if (!text.includes('<') && !text.includes('```')) return 0;
  return text.match(CALL_MARK)?.length ?? 0;
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d) || code === 0xfeff;
}
