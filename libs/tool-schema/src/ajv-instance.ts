import { Ajv, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import type { Dialect } from './json-schema.js';
import { linearPattern } from './linear-pattern.js';
import { STEPS, countSteps } from './step-budget.js';
import { useWholeTuples } from './tuple-keyword.js';

const FORMATS = ['date', 'time', 'date-time', 'email', 'uri', 'uuid', 'ipv4', 'ipv6'] as const;

const OPTIONS: Options = {
  strict: false,
  // Without it `required: ["toString"]` passes on {}.
  ownProperties: true,
  addUsedSchema: false,
  // A definition that is used a thousand times would otherwise be compiled a thousand times.
  inlineRefs: false,
  validateFormats: true,
  logger: false,
  code: { regExp: Object.assign(linearPattern, { code: 'linearPattern' }) },
};

/**
 * A fresh ajv for one schema. One instance per cached validator, so that dropping the validator frees all of it:
 * recompiling on a shared instance leaks about 4 KB each time. Without meta-schemas it costs under 1 ms, with them 10.
 */
export function freshAjv(dialect: Dialect, kind: 'decide' | 'explain' = 'decide'): Ajv {
  const explain = kind === 'explain';
  return configured(dialect, { ...OPTIONS, meta: false, validateSchema: false, allErrors: explain, verbose: explain });
}

const metaValidators = new Map<Dialect, ValidateFunction>();

/** Checks a schema against the meta-schema of its dialect; returns what is wrong in words, or undefined. */
export function metaSchemaError(schema: unknown, dialect: Dialect): string | undefined {
  let validate = metaValidators.get(dialect);
  if (!validate) {
    const ajv = configured(dialect, { ...OPTIONS, code: {}, validateFormats: false });
    const id =
      dialect === '2020-12' ? 'https://json-schema.org/draft/2020-12/schema' : 'http://json-schema.org/draft-07/schema';
    validate = ajv.getSchema(id) as ValidateFunction;
    metaValidators.set(dialect, validate);
  }
  if (validate(schema)) return undefined;
  const first = validate.errors?.[0];
  return `${first?.instancePath || 'the top'} ${first?.message ?? 'is no JSON Schema'}`;
}

function configured(dialect: Dialect, options: Options): Ajv {
  const ajv = (dialect === '2020-12' ? new Ajv2020(options) : new Ajv(options)) as Ajv;
  for (const name of FORMATS) ajv.addFormat(name, fullFormats[name] as Parameters<Ajv['addFormat']>[1]);
  useWholeTuples(ajv, dialect);
  // Ajv compares every item with every other: 11 s for 20,000 objects. Ours is linear.
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({ keyword: STEPS, schemaType: 'number', errors: false, validate: countSteps });
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    errors: false,
    error: { message: 'must not contain the same item twice' },
    validate: (wanted: boolean, items: unknown[]) => !wanted || new Set(items.map(canonical)).size === items.length,
  });
  return ajv;
}

/** JSON text with sorted keys: equal texts mean equal values. */
export function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const object = value as Record<string, unknown>;
  const members = Object.keys(object)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(object[key])}`);
  return `{${members.join(',')}}`;
}
