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
