import { createHash, timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';

const SHOWN = '[secret]';

/**
 * A value that cannot be printed by accident: logs, templates, JSON, inspection and error messages show `[secret]`.
 * Only `reveal` gives it, and that word is easy to find in a review.
 */
export class Secret<T = string> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The value itself: for the header or the file that needs it, never for a message. */
  reveal(): T {
    return this.#value;
  }

  /** True when both hold the same text; takes the same time wherever they differ. */
  equals(other: Secret<T>): boolean {
    const digest = (value: T) => createHash('sha256').update(String(value)).digest();
    return timingSafeEqual(digest(this.#value), digest(other.#value));
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [Symbol.toPrimitive](): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }

  get [Symbol.toStringTag](): string {
    return 'Secret';
  }
}
