import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ApprovalGrant,
  type ApprovalRequest,
  type ApprovalSubject,
  type GrantScope,
  approvalLevel,
  argumentsHash,
  decideApproval,
  definitionHash,
  isHidden,
} from './index.js';

const subject = (category: string, more: Partial<ApprovalSubject> = {}): ApprovalSubject => ({
  name: 't',
  category,
  definitionHash: 'h1',
  ...more,
});
const grant = (scope: GrantScope, more: Partial<ApprovalGrant> = {}): ApprovalGrant => ({
  id: 'g',
  tenant: 'a',
  principal: 'p',
  tool: 't',
  definitionHash: 'h1',
  expiresAt: 2000,
  scope,
  ...more,
});
const decide = (tool: ApprovalSubject, more: Partial<ApprovalRequest> = {}) =>
  decideApproval({
    tool,
    args: {},
    tenant: 'a',
    principal: 'p',
    session: 's',
    policy: {},
    grants: [],
    canAsk: true,
    now: 1000,
    ...more,
  });
const ANY: GrantScope = { kind: 'any' };

describe('the approval policy', () => {
  it('asks by category, and more often for what it does not know', () => {
    expect(
      ['read', 'write', 'network', 'execute', 'magic'].map((category) => approvalLevel(subject(category), {})),
    ).toEqual(['auto', 'session', 'session', 'always', 'always']);
  });

  it('lets a tenant override categories, and tools before categories', () => {
    const policy = { byCategory: { write: 'auto' }, byTool: { t: 'always' } } as const;
    expect(approvalLevel(subject('write', { name: 'other' }), policy)).toBe('auto');
    expect(approvalLevel(subject('write'), policy)).toBe('always');
    expect(approvalLevel(subject('write'), { byTool: { t: 'sometimes' as 'auto' } })).toBe('deny');
    expect(approvalLevel(subject('read', { name: 'toString' }), { byTool: {} })).toBe('auto');
  });

  it('lets untrusted annotations raise the level and never lower it', () => {
    const says = (annotations: ApprovalSubject['annotations'], annotationsTrusted: boolean) =>
      approvalLevel(subject('write', { ...(annotations ? { annotations } : {}), annotationsTrusted }), {});
    expect(says({ readOnly: true }, false)).toBe('session');
    expect(says({ readOnly: true }, true)).toBe('auto');
    expect(says({ destructive: true }, false)).toBe('always');
    expect(approvalLevel(subject('read', { annotations: { openWorld: true } }), {})).toBe('session');
    expect(approvalLevel(subject('read', { approval: 'always' }), {})).toBe('always');
    expect(approvalLevel(subject('execute', { approval: 'auto' }), {})).toBe('always');
  });

  it('puts the no of an administrator above every grant, and hides the tool', () => {
    expect(decide(subject('read'), { denied: ['t'], grants: [grant(ANY)] }).decision).toBe('deny');
    expect(isHidden(subject('read'), {}, ['t'])).toBe(true);
    expect(isHidden(subject('read'), { byCategory: { read: 'deny' } })).toBe(true);
    expect(isHidden(subject('read'), {})).toBe(false);
  });

  it('fails closed', () => {
    const tool = subject('write');
    expect(decide(tool).decision).toBe('ask');
    expect(decide(tool, { canAsk: false }).decision).toBe('deny');
    expect(decide(tool, { grants: undefined }).decision).toBe('deny');
    expect(decide(subject('read'), { policy: undefined }).decision).toBe('deny');
    expect(decide(tool, { grants: [grant({ kind: 'all' } as unknown as GrantScope)] }).decision).toBe('ask');
    expect(decide(tool, { grants: [grant(ANY, { expiresAt: NaN })] }).decision).toBe('ask');
  });

  it('takes a grant only from its giver, in time, for the same definition and session, and says why not', () => {
    const tool = subject('write');
    expect(decide(tool, { grants: [grant(ANY)] })).toMatchObject({ decision: 'allow', grant: 'g' });
    const refused: [Partial<ApprovalGrant>, RegExp][] = [
      [{ tenant: 'b' }, /someone else/],
      [{ principal: 'q' }, /someone else/],
      [{ definitionHash: 'h0' }, /definition of the tool has changed/],
      [{ expiresAt: 1000 }, /expired/],
      [{ session: 'r' }, /another session/],
    ];
    for (const [more, why] of refused) {
      const decision = decide(tool, { grants: [grant(ANY, more)] });
      expect([decision.decision, decision.reason]).toEqual(['ask', expect.stringMatching(why)]);
    }
  });

  it('needs a pattern for commands, which must cover every argument as a whole', () => {
    const tool = subject('execute');
    const patterns = { '/command': 'git (status|diff)( [a-z]+)?' };
    const call = (args: Record<string, unknown>) =>
      decide(tool, { args, grants: [grant({ kind: 'arguments', patterns })] }).decision;
    expect(decide(tool, { grants: [grant(ANY)] }).decision).toBe('ask');
    expect(call({ command: 'git status' })).toBe('allow');
    expect(call({ command: 'git status; rm -rf .' })).toBe('ask');
    expect(call({ command: 'git status\nrm x' })).toBe('ask');
    expect(call({ command: 'git status', env: { GIT_PAGER: 'x' } })).toBe('ask');
    expect(call({})).toBe('ask');
    // Patterns that would be wider only because something stands around them.
    for (const pattern of ['a)|(?:.*', 'a|b)|(.*', '(?m)^git status$', ''])
      expect(
        decide(tool, {
          args: { command: 'git status\nrm -rf .' },
          grants: [grant({ kind: 'arguments', patterns: { '/command': pattern } })],
        }).decision,
      ).toBe('ask');
    const once = grant({ kind: 'call', argumentsHash: argumentsHash({ a: 1, b: [2] }) });
    expect(decide(tool, { args: { b: [2], a: 1 }, grants: [once] }).decision).toBe('allow');
    expect(decide(tool, { args: { b: [2], a: 2 }, grants: [once] }).decision).toBe('ask');
  });

  it('grants the network by host', () => {
    const call = (args: Record<string, unknown>) =>
      decide(subject('network'), { args, grants: [grant({ kind: 'hosts', hosts: ['example.com'] })] }).decision;
    expect(call({ url: 'https://example.com/a' })).toBe('allow');
    expect(call({ url: 'https://example.com@evil.test/' })).toBe('ask');
    expect(call({ url: 'https://example.com/', mirrors: ['http://evil.test'] })).toBe('ask');
    for (const next of [
      '//evil.test/',
      'https:evil.test',
      'https:/evil.test/',
      '\u0001https://evil.test',
      '\\\\evil.test',
    ])
      expect([next, call({ url: 'https://example.com/', next })]).toEqual([next, 'ask']);
    expect(call({ url: 'https://example.com/', next: 'ht\ntps://evil.test' })).toBe('ask');
    expect(call({ url: 'https://example.com/', next: 'https://ex ample.com' })).toBe('ask');
    expect(call({ url: 'https://example.com/', note: 'mailto:a@b.c', more: 'as said: no' })).toBe('allow');
    for (const hosts of [['*'], ['*.com'], ['.*'], ['']])
      expect(
        decide(subject('network'), {
          args: { url: 'https://example.com/' },
          grants: [grant({ kind: 'hosts', hosts })],
        }).decision,
      ).toBe('ask');
    expect(call({ q: 'x' })).toBe('ask');
    expect(decide(subject('network'), { grants: [grant(ANY)] }).decision).toBe('ask');
  });

  it('hashes definitions and arguments whatever the order of keys', () => {
    const schema = { type: 'object', properties: { a: {}, b: {} } };
    const other = { properties: { b: {}, a: {} }, type: 'object' };
    const hash = definitionHash({ name: 'n', description: 'd', inputSchema: schema });
    expect(definitionHash({ description: 'd', inputSchema: other, name: 'n' })).toBe(hash);
    expect(definitionHash({ name: 'n', description: 'e', inputSchema: schema })).not.toBe(hash);
    expect(definitionHash({ name: 'n', description: 'd', inputSchema: schema, annotations: {} })).not.toBe(hash);
  });

  it('never allows what an empty list of grants does not, unless a grant is valid', () => {
    const anyGrant = fc.record({
      id: fc.string(),
      tenant: fc.constantFrom('a', 'b'),
      principal: fc.constantFrom('p', 'q'),
      tool: fc.constantFrom('t', 'u'),
      definitionHash: fc.constantFrom('h1', 'h2'),
      expiresAt: fc.constantFrom(0, 5000),
      scope: fc.constant(ANY),
    });
    fc.assert(
      fc.property(fc.array(anyGrant), fc.constantFrom('write', 'execute', 'network'), (grants, category) => {
        const { decision } = decide(subject(category), { grants });
        const fits = (one: ApprovalGrant) =>
          one.tenant === 'a' &&
          one.principal === 'p' &&
          one.tool === 't' &&
          one.definitionHash === 'h1' &&
          one.expiresAt > 1000;
        expect(decision).toBe(category === 'write' && grants.some(fits) ? 'allow' : 'ask');
      }),
    );
  });
});
