import { tenantId } from '@yardmaster/contracts';
import { describe, expect, it } from 'vitest';
import type { AttemptRecord } from '../failover/frame.js';
import { checkBudget } from './budget.js';
import { type Amounts, UsageLedger } from './usage-ledger.js';

const acme = tenantId('acme');
const NOON = Date.parse('2026-11-29T12:00:00Z');

const attempt = (more: Partial<AttemptRecord> = {}): AttemptRecord => ({
  number: 1,
  provider: 'p',
  model: 'm',
  dialect: 'native',
  keyId: '',
  outcome: 'ok',
  status: 200,
  startedAt: 0,
  durationMs: 1,
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  costUsd: 0.25,
  ...more,
});

function memory() {
  const stored = new Map<string, Amounts>();
  const state = { reachable: true, failing: false };
  const store = {
    addUsage: (tenant: string, window: string, amounts: Amounts) => {
      if (state.failing) return Promise.reject(new Error('away'));
      const known = stored.get(`${tenant} ${window}`) ?? {};
      for (const [name, amount] of Object.entries(amounts)) known[name] = (known[name] ?? 0) + amount;
      stored.set(`${tenant} ${window}`, known);
      return Promise.resolve(known);
    },
  };
  return {
    stored,
    state,
    ledger: new UsageLedger(
      store,
      () => state.reachable,
      5,
      () => NOON,
    ),
  };
}

describe('usage of tenants', () => {
  it('counts every attempt, failed ones with what they cost, by tenant, day and provider', async () => {
    const { ledger, stored } = memory();
    ledger.requested(acme);
    ledger.attempted(acme, attempt({ outcome: 'retry', provider: 'q' }));
    ledger.attempted(acme, attempt());
    await ledger.flush();
    expect(stored.get('acme 2026-11-29')).toEqual({
      requests: 1,
      attempts: 2,
      failed_attempts: 1,
      prompt_tokens: 20,
      completion_tokens: 10,
      cost_usd: 0.5,
      'p:q:attempts': 1,
      'p:q:tokens': 15,
      'p:q:cost_usd': 0.25,
      'p:p:attempts': 1,
      'p:p:tokens': 15,
      'p:p:cost_usd': 0.25,
    });
    expect(ledger.unwritten(acme)).toEqual({});
  });

  it('keeps what cannot be written, counts it meanwhile, and writes it once when the store is back', async () => {
    const { ledger, stored, state } = memory();
    state.failing = true;
    ledger.attempted(acme, attempt());
    await ledger.flush();
    state.reachable = false;
    ledger.attempted(acme, attempt());
    await ledger.flush();
    expect(ledger.unwritten(acme)['prompt_tokens']).toBe(20);
    Object.assign(state, { failing: false, reachable: true });
    await ledger.flush();
    expect(stored.get('acme 2026-11-29')?.['prompt_tokens']).toBe(20);
  });
});

describe('budgets', () => {
  const used = { prompt_tokens: 900, completion_tokens: 100, cost_usd: 1.5 };

  it('lets pass what is within, and whoever has no quota', () => {
    checkBudget(acme, {}, used, NOON);
    checkBudget(acme, { tokens_per_day: 1001, cost_usd_per_day: 1.51 }, used, NOON);
  });

  it.each([
    [{ tokens_per_day: 1000 }, 'tokens_per_day', /1000 of the 1000 tokens/],
    [{ cost_usd_per_day: 1.5 }, 'cost_usd_per_day', /1\.5 of the 1\.5 US dollars/],
  ])('refuses before spending and says of what and until when: %j', (quota, name, text) => {
    const refusal = (() => {
      try {
        checkBudget(acme, quota, used, NOON);
      } catch (error) {
        return error;
      }
    })();
    expect(refusal).toMatchObject({
      class: 'EXHAUSTED',
      code: 'YM-BUDGET',
      retryAfterMs: 12 * 3_600_000,
      details: { quota: name, until: '2026-11-30T00:00:00.000Z' },
      message: expect.stringMatching(text) as string,
    });
  });
});
