import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { tenantId, type Tool, ToolSchema } from '@yardmaster/contracts';
import { describe, expect, it } from 'vitest';
import { ToolViews } from './tool-views.js';

const acme = tenantId('acme');
const globex = tenantId('globex');

/** A bucket of tools, and the views of it. */
function bucket() {
  const entries = new Map<string, Tool>();
  const views = new ToolViews();
  return {
    views,
    put(owner: string, name: string, more: MessageInitShape<typeof ToolSchema> = {}) {
      const tool = create(ToolSchema, more);
      Object.assign(tool, { name, parametersJson: '{}', kind: more.kind ?? 'crm', state: more.state ?? 'active' });
      entries.set(`${owner}.${name}`, tool);
      views.update(entries, [`${owner}.${name}`]);
    },
    remove(owner: string, name: string) {
      entries.delete(`${owner}.${name}`);
      views.update(entries, [`${owner}.${name}`]);
    },
  };
}

describe('what a tenant sees', () => {
  it("is the shared tools and its own, never another's", () => {
    const { views, put, remove } = bucket();
    put('_', 'clock');
    put('acme', 'crm_find', { aliases: ['find'] });
    put('globex', 'billing');
    expect([...views.of(acme).tools.keys()].sort()).toEqual(['clock', 'crm_find']);
    expect(views.of(acme).byAlias.get('find')?.name).toBe('crm_find');
    expect([...views.of(globex).tools.keys()].sort()).toEqual(['billing', 'clock']);
    remove('acme', 'crm_find');
    expect([...views.of(acme).tools.keys()]).toEqual(['clock']);
    expect(views.of(acme).byAlias.size).toBe(0);
  });

  it('follows changes of shared tools; its own hide those, also when they are retired', () => {
    const { views, put, remove } = bucket();
    put('_', 'clock', { description: 'shared' });
    put('acme', 'clock', { description: 'own' });
    expect(views.of(acme).tools.get('clock')?.description).toBe('own');
    put('_', 'clock', { description: 'changed' });
    expect(views.of(acme).tools.get('clock')?.description).toBe('own');
    expect(views.of(globex).tools.get('clock')?.description).toBe('changed');
    put('acme', 'clock', { state: 'retired', aliases: ['watch'] });
    expect(views.of(acme).tools.has('clock')).toBe(false);
    expect(views.of(acme).byAlias.has('watch')).toBe(false);
    remove('acme', 'clock');
    expect(views.of(acme).tools.get('clock')?.description).toBe('changed');
  });

  it("is kept while only others' tools change", () => {
    const { views, put } = bucket();
    put('acme', 'crm_find');
    const [before, index] = [views.of(acme), views.index(acme)];
    put('globex', 'billing');
    expect(views.of(acme)).toBe(before);
    expect(views.index(acme)).toBe(index);
    put('acme', 'crm_list');
    expect(views.of(acme)).not.toBe(before);
    expect(views.index(acme).search('crm_list')[0]?.name).toBe('crm_list');
  });

  it('is searched without what is not active', () => {
    const { views, put } = bucket();
    put('acme', 'old_search', { state: 'deprecated' });
    put('acme', 'new_search');
    put('_', '__tool_search', { kind: 'meta' });
    expect(
      views
        .index(acme)
        .search('search')
        .map(({ name }) => name),
    ).toEqual(['new_search']);
  });

  it('is given up for those who asked last', () => {
    const { views, put } = bucket();
    for (let i = 0; i < 300; i++) put('_', `tool_${i}`);
    const tenants = Array.from({ length: 2_000 }, (_, i) => tenantId(`t${i}`));
    const first = views.of(tenants[0]!);
    const second = views.of(tenants[1]!);
    for (const tenant of tenants) {
      views.of(tenant);
      views.of(tenants[0]!);
    }
    // 2,000 views of 300 tools are more than is kept; the one that is used all the time stays.
    expect(views.of(tenants[0]!)).toBe(first);
    expect(views.of(tenants[1]!)).not.toBe(second);
    expect(views.of(tenants[1]!)).toEqual(second);
  });
});
