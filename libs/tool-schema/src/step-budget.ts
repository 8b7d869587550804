import { pointerKeys } from './json-pointer.js';
import { isObject, own } from './json-schema.js';
import { type SchemaPosition, resolveLocal, walkSchema } from './schema-walk.js';

/** The keyword that counts work; it is added to the copy of a schema that is compiled, never seen outside. */
export const STEPS = 'x-yard-steps';

/**
 * Checks of subschemas that one validation may cost. Linear-time patterns are not enough: nine levels of a union of
 * three references to itself are 20,000 checks, a list of 100,000 numbers against 1,900 constants 190 million.
 */
const MAX_STEPS = 500_000;

let steps = 0;

/** Begins a new budget; a validation runs to its end before the next one starts. */
export function restartSteps(): void {
  steps = 0;
}

/** The function behind the keyword; throws RangeError when the budget is spent. */
export function countSteps(weight: number): boolean {
  steps += weight;
  if (steps > MAX_STEPS) throw new RangeError('checking takes too many steps');
  return true;
}

const LOOPS =
  /\/(items|additionalItems|additionalProperties|unevaluatedItems|unevaluatedProperties|contains|propertyNames)$|\/patternProperties\/[^/]*$/;

/** A copy of a schema that counts at every place that is run more than once: targets of references and parts of loops. */
export function withStepCounts(schema: Record<string, unknown>): Record<string, unknown> {
  const positions = [...walkSchema(schema)];
  const counted = new Map<string, number>();
  const targets = new Set<string>();
  for (const { schema: part } of positions) {
    if (!isObject(part)) continue;
    for (const keyword of ['$ref', '$dynamicRef']) {
      const ref = own(part, keyword);
      const target = typeof ref === 'string' ? resolveLocal(schema, ref) : undefined;
      if (target) targets.add(target.pointer);
    }
  }
  for (const [index, { pointer }] of positions.entries()) {
    const weight = subtreeSize(positions, index);
    if (targets.has(pointer) || (weight > 2 && LOOPS.test(pointer))) counted.set(pointer, weight);
  }
  if (counted.size === 0) return schema;
  const copy = structuredClone(schema);
  for (const [pointer, weight] of counted) {
    let part: unknown = copy;
    for (const key of pointerKeys(pointer)) part = (part as Record<string, unknown>)[key];
    if (isObject(part)) part[STEPS] = weight;
  }
  return copy;
}

/** Positions come in pre-order, so a subtree ends where the level falls back to its own. */
function subtreeSize(positions: readonly SchemaPosition[], index: number): number {
  const level = positions[index]?.level ?? 0;
  let end = index + 1;
  while (end < positions.length && (positions[end]?.level ?? 0) > level) end++;
  return end - index;
}
