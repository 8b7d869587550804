import { asArray, asText, isObject, tryParse, type JsonObject } from './json-value.js';

/** What an error body says, taken out of the many shapes providers use. Nothing here is judged yet. */
export interface ErrorFacts {
  /** False when the body holds neither an error object nor an error message. */
  present: boolean;
  /** Values of code, type, status, reason and error_type fields, lower case, as they came. */
  codes: string[];
  /** `base_resp.status_code` of MiniMax: a name space of its own. */
  baseCode: number | undefined;
  /** All messages joined by line breaks; empty for HTML. */
  text: string;
  /** An HTTP status given inside the body. */
  innerStatus: number | undefined;
  /** `quotaId`s of google.rpc.QuotaFailure. */
  quotaIds: string[];
  /** `retryDelay` of google.rpc.RetryInfo. */
  retryDelay: string | undefined;
  promptTokens: number | undefined;
  contextLimit: number | undefined;
}

const CODE_KEYS = ['code', 'type', 'status', 'reason', 'error_type', 'error_code'];
const TEXT_KEYS = [
  'message',
  'msg',
  'detail',
  'raw',
  'error_message',
  'error_msg',
  'title',
  'status_msg',
  'error_description',
];
const NESTED_KEYS = [
  'error',
  'metadata',
  'details',
  'errors',
  'base_resp',
  'detail',
  'message',
  'violations',
  'cause',
  'response',
];
const MAX_DEPTH = 6;
const MAX_TEXT = 16 * 1024;

/** Reads the error out of a body (text) or an already parsed event; never throws. */
export function readErrorFacts(body: unknown): ErrorFacts {
  const facts: ErrorFacts = {
    present: false,
    codes: [],
    baseCode: undefined,
    text: '',
    innerStatus: undefined,
    quotaIds: [],
    retryDelay: undefined,
    promptTokens: undefined,
    contextLimit: undefined,
  };
  let value = body;
  if (typeof body === 'string') {
    const text = body.replace(/^\uFEFF/, '').trim();
    if (text === '') return facts;
    value = tryParse(text);
    if (value === undefined) {
      facts.present = true;
      // HTML is written by a proxy, and its words and numbers say nothing about the model.
      if (!text.startsWith('<')) facts.text = text.slice(0, MAX_TEXT);
      return facts;
    }
  }
  if (typeof value === 'string') {
    facts.present = true;
    facts.text = value.slice(0, MAX_TEXT);
    return facts;
  }
  visit(Array.isArray(value) ? value[0] : value, facts, 0);
  return facts;
}

function visit(value: unknown, facts: ErrorFacts, depth: number): void {
  if (!isObject(value) || depth > MAX_DEPTH) return;
  if (isErrorLike(value)) facts.present = true;
  for (const key of CODE_KEYS) addCode(value[key], key, facts, depth);
  for (const key of ['http_code', 'status_code', 'http_status']) {
    if (facts.innerStatus === undefined) facts.innerStatus = asStatus(value[key]);
  }
  for (const key of TEXT_KEYS) addText(value[key], facts, depth);
  if (typeof value['error'] === 'string') addText(value['error'], facts, depth);
  if (typeof value['retryDelay'] === 'string') facts.retryDelay ??= value['retryDelay'];
  if (typeof value['quotaId'] === 'string') facts.quotaIds.push(value['quotaId']);
  if (typeof value['n_prompt_tokens'] === 'number') facts.promptTokens = value['n_prompt_tokens'];
  if (typeof value['n_ctx'] === 'number') facts.contextLimit = value['n_ctx'];
  const base = value['base_resp'];
  if (isObject(base) && typeof base['status_code'] === 'number' && base['status_code'] !== 0) {
    facts.baseCode = base['status_code'];
    facts.present = true;
  }
  for (const key of NESTED_KEYS) {
    const nested = value[key];
    if (Array.isArray(nested)) for (const item of nested.slice(0, 20)) visit(item, facts, depth + 1);
    else if (isObject(nested)) visit(nested, facts, depth + 1);
  }
}

function isErrorLike(value: JsonObject): boolean {
  const error = value['error'];
  return (
    (error !== undefined && error !== null && error !== false) ||
    value['type'] === 'error' ||
    value['object'] === 'error' ||
    (typeof value['message'] === 'string' && value['choices'] === undefined) ||
    typeof value['detail'] === 'string'
  );
}

function addCode(value: unknown, key: string, facts: ErrorFacts, depth: number): void {
  if (typeof value !== 'string' && typeof value !== 'number') return;
  const status = asStatus(value);
  // `status` and `code` may be an HTTP status; a business code such as 1008 is none.
  if (status !== undefined && facts.innerStatus === undefined && depth <= 2 && key !== 'type')
    facts.innerStatus = status;
  const code = String(value).toLowerCase();
  if (code.length <= 200) facts.codes.push(code);
}

function asStatus(value: unknown): number | undefined {
  const number =
    typeof value === 'number' ? value : typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : NaN;
  return number >= 400 && number <= 599 && Number.isInteger(number) ? number : undefined;
}

function addText(value: unknown, facts: ErrorFacts, depth: number): void {
  if (typeof value !== 'string' || value === '' || facts.text.length > MAX_TEXT) return;
  const trimmed = value.trim();
  if (trimmed.startsWith('{') || trimmed.startsWith('[')) {
    // JSON in JSON: gateways quote the upstream's body as text.
    const inner = tryParse(trimmed);
    if (inner !== undefined) {
      visit(Array.isArray(inner) ? inner[0] : inner, facts, depth + 1);
      return;
    }
  }
  facts.text += (facts.text === '' ? '' : '\n') + value.slice(0, MAX_TEXT);
}

/** The code of a thrown network error, which fetch hides in `cause` and happy-eyeballs in `errors`. */
export function networkErrorCode(error: unknown, depth = 0): string | undefined {
  if (!isErrorObject(error) || depth > 5) return undefined;
  const nested = [error['cause'], ...asArray(error['errors'])];
  for (const inner of nested) {
    const code = networkErrorCode(inner, depth + 1);
    if (code !== undefined) return code;
  }
  const own = asText(error['code']);
  return own === '' ? undefined : own;
}

function isErrorObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null;
}
