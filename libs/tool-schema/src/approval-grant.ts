import { createHash } from 'node:crypto';
import { canonical } from './ajv-instance.js';
import type { ApprovalRequest } from './approval-policy.js';
import { pointerTo } from './json-pointer.js';
import { linearPattern } from './linear-pattern.js';

/** A yes that was given before and may be used again. */
export interface ApprovalGrant {
  id: string;
  tenant: string;
  principal: string;
  tool: string;
  /** Of the definition that was agreed to: a tool that changes has to be agreed to anew. */
  definitionHash: string;
  /** Set for a grant that ends with its session. */
  session?: string;
  /** Milliseconds since 1970. */
  expiresAt: number;
  scope: GrantScope;
}

/** Which calls of the tool a grant covers. */
export type GrantScope =
  | { kind: 'any' }
  /** This one call: its arguments, hashed with `argumentsHash`. */
  | { kind: 'call'; argumentsHash: string }
  /** Patterns by JSON pointer. Each has to match all of the text there, and every argument has to have one. */
  | { kind: 'arguments'; patterns: Readonly<Record<string, string>> }
  /** Hosts that may be talked to: every URL among the arguments has one of them, and there is at least one. */
  | { kind: 'hosts'; hosts: readonly string[] };

/** The hash that a decision about one call is bound to: equal for equal arguments in any order of keys. */
export function argumentsHash(args: Record<string, unknown>): string {
  return createHash('sha256').update(canonical(args)).digest('hex');
}

/** What of a definition a person agrees to. */
export interface HashedDefinition {
  name: string;
  description: string;
  inputSchema?: unknown;
  outputSchema?: unknown;
  annotations?: unknown;
}

/** SHA-256 (hex) of a definition, independent of the order of keys. */
export function definitionHash(definition: HashedDefinition): string {
  const { name, description, inputSchema = null, outputSchema = null, annotations = null } = definition;
  return createHash('sha256')
    .update(canonical({ name, description, inputSchema, outputSchema, annotations }))
    .digest('hex');
}

/** Why a grant does not cover a call, or undefined when it does; `narrow` asks for more than a yes to everything. */
export function grantProblem(grant: ApprovalGrant, request: ApprovalRequest, narrow: boolean): string | undefined {
  if (grant.tenant !== request.tenant || grant.principal !== request.principal) return 'given by someone else';
  if (grant.definitionHash !== request.tool.definitionHash) return 'the definition of the tool has changed since';
  if (!(grant.expiresAt > request.now)) return 'expired';
  if (grant.session !== undefined && grant.session !== request.session) return 'given for another session';
  return scopeProblem(grant.scope, request.args, narrow);
}

function scopeProblem(scope: GrantScope, args: Record<string, unknown>, narrow: boolean): string | undefined {
  switch (scope.kind) {
    case 'any':
      return narrow ? 'covers no particular arguments, which this tool needs' : undefined;
    case 'call':
      return scope.argumentsHash === argumentsHash(args) ? undefined : 'given for other arguments';
    case 'arguments':
      return patternProblem(scope.patterns, args);
    case 'hosts':
      return hostProblem(scope.hosts, args);
    default:
      return 'its scope is not known';
  }
}

function patternProblem(patterns: Readonly<Record<string, string>>, args: Record<string, unknown>): string | undefined {
  for (const [key, value] of Object.entries(args)) {
    const pointer = pointerTo('', key);
    // What the grant does not speak of is not covered: `env` can make a harmless command another one.
    if (!Object.hasOwn(patterns, pointer)) return `says nothing about ${pointer}`;
    const text = typeof value === 'string' ? value : canonical(value);
    try {
      // By itself first: `a)|(?:.*` is only a pattern where something else closes it.
      linearPattern(patterns[pointer] ?? '');
      if (!linearPattern(`^(?:${patterns[pointer]})$`).test(text)) return `its pattern for ${pointer} does not match`;
    } catch {
      return `its pattern for ${pointer} cannot be read`;
    }
  }
  const missing = Object.keys(patterns).find(
    (pointer) => !Object.keys(args).some((key) => pointerTo('', key) === pointer),
  );
  return missing === undefined ? undefined : `${missing} is not among the arguments`;
}

function hostProblem(hosts: readonly string[], args: Record<string, unknown>): string | undefined {
  const found = [...addressesIn(args)];
  if (found.length === 0) return 'no address among the arguments';
  const other = found.find((address) => !URL.canParse(address) || !hosts.includes(new URL(address).host));
  if (other === undefined) return undefined;
  return URL.canParse(other)
    ? `does not cover ${new URL(other).host}`
    : 'an address among the arguments cannot be read';
}

/** The hosts of all addresses among the arguments, as a grant of the kind `hosts` names them. */
export function hostsIn(args: Record<string, unknown>): string[] {
  const hosts = [...addressesIn(args)]
    .filter((address) => URL.canParse(address))
    .map((address) => new URL(address).host);
  return [...new Set(hosts)].sort();
}

/** Schemes whose addresses have a host even without slashes: `https:evil.test` and `https:/evil.test` lead there. */
const WITH_HOST = /^(https?|wss?|ftp):/i;
const WITH_SLASHES = /^([a-z][a-z0-9+.-]*:)?[/\\]{2}/i;

/** Every text that a URL parser could take for an address with a host, with its scheme. */
function* addressesIn(value: unknown): Generator<string> {
  if (typeof value === 'string') {
    // As the URL parser reads it: without line breaks and tabs, and without control characters and blanks around it.
    const text = value.replace(/[\t\n\r]/g, '').replace(/^[\u0000-\u0020]+|[\u0000-\u0020]+$/g, '');
    if (WITH_HOST.test(text) || WITH_SLASHES.test(text)) yield text.replace(/^[/\\]{2}/, 'https://');
  } else if (typeof value === 'object' && value !== null) {
    for (const item of Object.values(value)) yield* addressesIn(item);
  }
}
