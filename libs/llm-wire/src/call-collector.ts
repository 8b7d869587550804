import { stringifySafely, tryParse } from './json-value.js';
import type { WireCall, WireEvent } from './wire-types.js';

/** A piece of a call as a provider sent it. */
export interface CallFragment {
  /** The provider's index; many set 0 for all, or none. */
  index?: number;
  id?: string;
  name?: string;
  /** Text, or the arguments themselves as an object. */
  arguments?: unknown;
}

interface Slot {
  index: number;
  order: number;
  id: string;
  name: string;
  pieces: string[];
  started: boolean;
}

/**
 * Puts calls together from fragments: interleaved, without index or id, all with index 0, names in pieces or repeated,
 * arguments as text or object.
 */
export class CallCollector {
  private readonly slots: Slot[] = [];
  private readonly ids = new Set<string>();

  constructor(
    private readonly emit: (event: WireEvent) => void,
    private readonly newId: () => string,
  ) {}

  get size(): number {
    return this.slots.length;
  }

  /** One delta's fragments together, since their order within it is not that of the calls. */
  addAll(fragments: readonly CallFragment[]): void {
    const sorted =
      fragments.length < 2
        ? fragments
        : [...fragments].sort((a, b) => (a.index ?? Infinity) - (b.index ?? Infinity) || 0);
    const taken = new Set<Slot>();
    for (const fragment of sorted) this.add(fragment, sorted.length > 1, taken);
  }

  private add(fragment: CallFragment, amongOthers: boolean, taken: Set<Slot>): void {
    const text = argumentText(fragment.arguments);
    let slot = this.find(fragment, text, amongOthers);
    // Within one delta each named fragment is a call of its own, whatever its index and id say.
    if (slot !== undefined && taken.has(slot) && (fragment.name ?? '') !== '') slot = undefined;
    if (slot === undefined) {
      slot = {
        index: this.slots.length,
        order: fragment.index ?? this.slots.length,
        id: '',
        name: '',
        pieces: [],
        started: false,
      };
      this.slots.push(slot);
    }
    taken.add(slot);
    if (slot.id === '' && fragment.id !== undefined && fragment.id !== '' && !this.ids.has(fragment.id)) {
      slot.id = fragment.id;
      this.ids.add(fragment.id);
    }
    if (!slot.started && fragment.name !== undefined && fragment.name !== '') {
      // A name comes whole, in pieces, or again and again as it grows.
      slot.name = fragment.name.startsWith(slot.name) ? fragment.name : slot.name + fragment.name;
    }
    if (text === '') return;
    if (this.repeatsWhole(slot, fragment, text)) return;
    this.start(slot);
    slot.pieces.push(text);
    this.emit({ type: 'call_arguments', index: slot.index, text });
  }

  private find(fragment: CallFragment, text: string, amongOthers: boolean): Slot | undefined {
    const { id, index, name } = fragment;
    if (id !== undefined && id !== '') {
      const same = this.slots.findLast((slot) => slot.id === id && (index === undefined || slot.order === index));
      if (same !== undefined) return same;
    }
    const opens = name !== undefined && name !== '';
    if (index === undefined) {
      if (opens && (amongOthers || (id !== undefined && id !== ''))) return undefined;
      const last = this.slots.at(-1);
      return opens && last !== undefined && isWhole(last) ? undefined : last;
    }
    const current = this.slots.findLast((slot) => slot.order === index);
    if (current === undefined) return undefined;
    if (opens && id !== undefined && id !== '' && current.id !== '' && current.id !== id) return undefined;
    // No ids at all: a name after whole arguments opens the next call.
    if (opens && (id === undefined || id === '') && text !== '' && isWhole(current) && current.pieces.join('') !== text)
      return undefined;
    return current;
  }

  /** Some servers close with the whole call once more. */
  private repeatsWhole(slot: Slot, fragment: CallFragment, text: string): boolean {
    const named = (fragment.name ?? '') !== '' || (fragment.id ?? '') !== '';
    return named && slot.pieces.length > 0 && isWhole(slot) && slot.pieces.join('') === text;
  }

  private start(slot: Slot): void {
    if (slot.started) return;
    slot.started = true;
    if (slot.id === '') {
      do slot.id = this.newId();
      while (this.ids.has(slot.id));
      this.ids.add(slot.id);
    }
    this.emit({ type: 'call_start', index: slot.index, order: slot.order, id: slot.id, name: slot.name });
  }

  /** The end of the answer: calls that never had arguments begin now. */
  finish(): void {
    for (const slot of this.slots) {
      if (slot.started) continue;
      this.start(slot);
      slot.pieces.push('{}');
      this.emit({ type: 'call_arguments', index: slot.index, text: '{}' });
    }
  }

  /** Calls in the provider's order, then in order of arrival. */
  result(): WireCall[] {
    return [...this.slots]
      .sort((a, b) => a.order - b.order || a.index - b.index)
      .map(({ id, name, pieces }) => {
        const text = pieces.join('');
        const blank = text.trim();
        return { id, name, arguments: blank === '' || blank === 'null' ? '{}' : text };
      });
  }
}

function isWhole(slot: Slot): boolean {
  if (slot.pieces.length === 0) return false;
  const text = slot.pieces.join('').trim();
  return text.endsWith('}') && tryParse(text) !== undefined;
}

function argumentText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : stringifySafely(value);
}
