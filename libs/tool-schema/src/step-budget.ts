import { pointerKeys } from './json-pointer.js';
import { type JsonSchema, isObject, own } from './json-schema.js';
import { type SchemaPosition, resolveLocal, walkSchema } from './schema-walk.js';

/** The keyword that counts work; it is added to the copy of a schema that is compiled, never seen outside. */
export const STEPS = 'x-yard-steps';

/**
 * Checks of subschemas that one validation may cost. Linear-time patterns are not enough: nine levels of a union of
 * three references to itself are 20,000 checks, a list of 100,000 numbers against 1,900 constants 190 million.
 */
const MAX_STEPS = 200_000;

/** Cheaper places are not counted: even a list of 100,000 items takes them in well under a second. */
const MIN_WEIGHT = 8;

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

/** A copy of a schema that counts where much is checked at once, and at the targets of references. */
export function withStepCounts(schema: Record<string, unknown>): Record<string, unknown> {
  const positions = [...walkSchema(schema)];
  const targets = new Set<string>();
  for (const { schema: part } of positions) {
    if (!isObject(part)) continue;
    for (const keyword of ['$ref', '$dynamicRef']) {
      const ref = own(part, keyword);
      const target = typeof ref === 'string' ? resolveLocal(schema, ref) : undefined;
      if (target) targets.add(target.pointer);
    }
  }
  const weights = weightsOf(positions);
  const counted = positions.flatMap(({ pointer }, index) => {
    const weight = weights[index] ?? 1;
    return weight >= MIN_WEIGHT || targets.has(pointer) ? [{ pointer, weight }] : [];
  });
  if (counted.length === 0) return schema;
  const copy = structuredClone(schema);
  for (const { pointer, weight } of counted) {
    let part: unknown = copy;
    for (const key of pointerKeys(pointer)) part = (part as Record<string, unknown>)[key];
    if (isObject(part)) part[STEPS] = weight;
  }
  return copy;
}

/** Keywords whose schemas are applied to the same value. */
const IN_PLACE = /\/(?:(?:allOf|anyOf|oneOf)\/\d+|not|if|then|else|(?:dependentSchemas|dependencies)\/[^/]*)$/;

/**
 * What applying each schema to one value costs, in checks that may end in an error: itself with all the branches that
 * look at the same value. Properties and enum members are cheaper, and those that are absent cost little.
 */
function weightsOf(positions: readonly SchemaPosition[]): number[] {
  const weights = positions.map(({ schema }) => ownWeight(schema));
  // Positions come parents first, so that from the end all parts of a schema are summed up before the schema itself.
  const parents = parentsOf(positions);
  for (let index = positions.length - 1; index > 0; index--) {
    const parent = parents[index] ?? 0;
    if (IN_PLACE.test(positions[index]?.pointer ?? ''))
      weights[parent] = (weights[parent] ?? 0) + (weights[index] ?? 0);
  }
  return weights.map(Math.ceil);
}

function ownWeight(schema: JsonSchema): number {
  if (typeof schema === 'boolean') return 1;
  const count = (keyword: string) => {
    const value = own(schema, keyword);
    return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
  };
  return 1 + count('required') + (count('properties') + count('enum')) / 20 + count('patternProperties');
}

function parentsOf(positions: readonly SchemaPosition[]): number[] {
  const lastOfLevel: number[] = [];
  return positions.map(({ level }, index) => {
    lastOfLevel[level] = index;
    return lastOfLevel[level - 1] ?? 0;
  });
}
