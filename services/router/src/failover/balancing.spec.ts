import { describe, expect, it } from 'vitest';
import { balanceCandidates, orderPlaces, type Place } from './balancing.js';
import type { Candidate } from './candidate.js';
import { EndpointLoad } from './endpoint-load.js';

const pods = (count: number): Place[] =>
  Array.from({ length: count }, (_, i) => ({ id: `http://10.0.0.${i + 1}:8080`, inFlight: 0 }));
const first = (places: readonly Place[], sticky: string): Place =>
  orderPlaces(places, 'affinity', sticky, Math.random)[0]!;

describe('affinity', () => {
  it('200 conversations of 10 turns over 4 pods: at least 95 % of the turns stay on one pod, and no pod is hot', () => {
    const places = pods(4);
    const home = new Map<string, Map<string, number>>();
    const served = new Map<string, number>();
    // About 20 requests are under way at any time.
    const running: Place[] = [];
    for (let turn = 0; turn < 10; turn++) {
      for (let c = 0; c < 200; c++) {
        const place = first(places, `conversation-${c}`);
        place.inFlight++;
        running.push(place);
        if (running.length > 20) running.shift()!.inFlight--;
        const counts = home.get(`${c}`) ?? new Map<string, number>();
        counts.set(place.id, (counts.get(place.id) ?? 0) + 1);
        home.set(`${c}`, counts);
        served.set(place.id, (served.get(place.id) ?? 0) + 1);
      }
    }
    const stayed = [...home.values()].reduce((sum, counts) => sum + Math.max(...counts.values()), 0);
    expect(stayed / 2000).toBeGreaterThanOrEqual(0.95);
    expect(Math.max(...served.values())).toBeLessThanOrEqual(500 * 1.25);
  });

  it('a lost pod moves only its own conversations', () => {
    const four = pods(4);
    const names = Array.from({ length: 1000 }, (_, i) => `c${i}`);
    const before = names.map((name) => first(four, name).id);
    const three = four.slice(0, 3);
    const moved = names.filter((name, i) => first(three, name).id !== before[i]);
    expect(moved.every((name) => before[names.indexOf(name)] === four[3]!.id)).toBe(true);
    expect(moved.length / names.length).toBeLessThanOrEqual(0.3);
  });

  it('spills to the next pod when its own is full', () => {
    const places = pods(3);
    const own = first(places, 'x');
    own.inFlight = 10;
    expect(first(places, 'x')).not.toBe(own);
    const slotted = pods(2).map((place) => ({ ...place, slots: 1 }));
    const home = first(slotted, 'y');
    home.inFlight = 1;
    expect(first(slotted, 'y')).not.toBe(home);
  });
});

describe('the other ways', () => {
  it('priority keeps the order, least busy looks at what is under way', () => {
    const places: Place[] = [
      { id: 'a', inFlight: 4 },
      { id: 'b', inFlight: 1 },
      { id: 'c', inFlight: 3, slots: 8 },
    ];
    expect(orderPlaces(places, 'priority', 'x', Math.random).map(({ id }) => id)).toEqual(['a', 'b', 'c']);
    expect(orderPlaces(places, 'least_busy', 'x', Math.random).map(({ id }) => id)).toEqual(['c', 'b', 'a']);
  });

  it('weights are shares', () => {
    const places: Place[] = [
      { id: 'a', inFlight: 0, weight: 3 },
      { id: 'b', inFlight: 0, weight: 1 },
    ];
    const hits = Array.from({ length: 4000 }, () => orderPlaces(places, 'weighted', 'x', Math.random)[0]!.id).filter(
      (id) => id === 'a',
    ).length;
    expect(hits / 4000).toBeGreaterThan(0.7);
    expect(hits / 4000).toBeLessThan(0.8);
  });
});

describe('candidates', () => {
  const candidate = (provider: string, model: string, kind = 'openai'): Candidate =>
    ({ provider, model, kind, baseUrl: `http://${provider}.test` }) as Candidate;
  const names = (list: Candidate[]): string[] => list.map(({ provider, model }) => `${provider}/${model}`);

  it('the chain of models stays, pods of one model keep their conversation', () => {
    const list = [
      candidate('pod1', 'm', 'llamacpp'),
      candidate('pod2', 'm', 'llamacpp'),
      candidate('pod3', 'm', 'llamacpp'),
      candidate('cloud', 'm'),
      candidate('cloud', 'n'),
    ];
    const order = (sticky: string): string[] =>
      names(balanceCandidates(list, 'priority', sticky, new EndpointLoad(), Math.random));
    expect(order('a').slice(3)).toEqual(['cloud/m', 'cloud/n']);
    expect(order('a')).toEqual(order('a'));
    expect(new Set(Array.from({ length: 30 }, (_, i) => order(`c${i}`)[0])).size).toBe(3);
  });

  it('the least busy goes first within one model only', () => {
    const load = new EndpointLoad();
    load.enter('a http://a.test');
    const list = [candidate('a', 'm'), candidate('b', 'm'), candidate('a', 'n')];
    expect(names(balanceCandidates(list, 'least_busy', 'x', load, Math.random))).toEqual(['b/m', 'a/m', 'a/n']);
    load.leave('a http://a.test');
    expect(load.inFlight('a http://a.test')).toBe(0);
  });
});
