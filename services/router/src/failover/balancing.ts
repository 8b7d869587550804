import { endpointOf, type Candidate } from './candidate.js';
import type { EndpointLoad } from './endpoint-load.js';
import { rendezvousScore } from './rendezvous.js';

/** One of several places that serve the same: a provider, or a pod of one. */
export interface Place {
  id: string;
  /** Share of the requests relative to the others; 1 if all are equal. */
  weight?: number;
  /** Requests under way, as far as this process knows. */
  inFlight: number;
  /** Slots that it has, if known: with all taken it is full. */
  slots?: number;
}

export type Balancing = 'priority' | 'weighted' | 'least_busy' | 'affinity';

/** No place takes more than this times the mean of all while another has room. */
export const BOUNDED_LOAD = 1.25;

/** The order in which to try places: the first is where the request belongs, the others stand in for it. */
export function orderPlaces<P extends Place>(
  places: readonly P[],
  how: Balancing,
  sticky: string,
  random: () => number,
): P[] {
  switch (how) {
    case 'priority':
      return [...places];
    case 'least_busy':
      return [...places].sort((a, b) => load(a) - load(b));
    case 'weighted':
      return places
        .map((place) => ({ place, rank: -Math.log(1 - random()) / weight(place) }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ place }) => place);
    case 'affinity':
      return byAffinity(places, sticky);
  }
}

/**
 * A conversation stays where its prompt is cached: rendezvous hashing, so that a lost place moves only its own share. A
 * place with more than its bounded share of the requests under way, or without a free slot, is passed over.
 */
function byAffinity<P extends Place>(places: readonly P[], sticky: string): P[] {
  const ranked = places
    .map((place) => ({ place, rank: -Math.log((rendezvousScore(place.id, sticky) + 1) / 2 ** 32) / weight(place) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ place }) => place);
  const inFlight = places.reduce((sum, place) => sum + place.inFlight, 0);
  const total = places.reduce((sum, place) => sum + weight(place), 0);
  const hasRoom = (place: P): boolean =>
    place.inFlight < Math.ceil((BOUNDED_LOAD * (inFlight + 1) * weight(place)) / total) &&
    (place.slots === undefined || place.inFlight < place.slots);
  const roomy = ranked.filter(hasRoom);
  const full = ranked.filter((place) => !hasRoom(place)).sort((a, b) => load(a) - load(b));
  return [...roomy, ...full];
}

function weight(place: Place): number {
  return place.weight !== undefined && place.weight > 0 ? place.weight : 1;
}

function load(place: Place): number {
  return place.inFlight / (place.slots ?? weight(place));
}

/** Servers that keep a cache of prompts per machine, so that a conversation had better stay where it is. */
const isAffine = (candidate: Candidate): boolean => candidate.kind.startsWith('llamacpp') && candidate.standIn !== true;

/**
 * The candidates of each model in the order in which this request should try them; the order of the models stays. A
 * provider with several pods is one place among the providers. Neighbours that are llama.cpp pods are ordered by affinity,
 * whatever else is configured.
 */
export function balanceCandidates(
  candidates: readonly Candidate[],
  how: 'priority' | 'weighted' | 'least_busy',
  sticky: string,
  load: EndpointLoad,
  random: () => number,
): Candidate[] {
  const placed = candidates.map((candidate) => {
    const id = endpointOf(candidate);
    const { weight, slots } = candidate;
    return {
      candidate,
      id,
      inFlight: load.inFlight(id),
      ...(weight === undefined ? {} : { weight }),
      ...(slots === undefined ? {} : { slots }),
    };
  });
  const models = runs(placed, (a, b) => a.candidate.model === b.candidate.model);
  return models
    .flatMap((sameModel) => {
      const providers = orderPlaces(byProvider(sameModel), how, sticky, random).flatMap(({ members }) => members);
      return runs(providers, (a, b) => isAffine(a.candidate) && isAffine(b.candidate));
    })
    .flatMap((run) => (run.length > 1 ? orderPlaces(run, 'affinity', sticky, random) : run))
    .map(({ candidate }) => candidate);
}

/** The places of one provider as one place. */
function byProvider<P extends Place & { candidate: Candidate }>(places: readonly P[]): (Place & { members: P[] })[] {
  const groups = new Map<string, P[]>();
  for (const place of places) {
    const { provider } = place.candidate;
    groups.set(provider, [...(groups.get(provider) ?? []), place]);
  }
  return [...groups].map(([provider, members]) => {
    const slots = members.reduce<number | undefined>(
      (sum, place) => (sum === undefined || place.slots === undefined ? undefined : sum + place.slots),
      0,
    );
    const { weight } = members[0]!;
    return {
      id: members.length === 1 ? members[0]!.id : provider,
      members,
      inFlight: members.reduce((sum, place) => sum + place.inFlight, 0),
      ...(weight === undefined ? {} : { weight }),
      ...(slots === undefined ? {} : { slots }),
    };
  });
}

/** Cuts a list where neighbours do not belong together. */
function runs<T>(items: readonly T[], together: (a: T, b: T) => boolean): T[][] {
  const out: T[][] = [];
  for (const item of items) {
    const run = out.at(-1);
    const last = run?.at(-1);
    if (run !== undefined && last !== undefined && together(last, item)) run.push(item);
    else out.push([item]);
  }
  return out;
}
