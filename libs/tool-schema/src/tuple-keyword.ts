import { type AnySchema, type CodeKeywordDefinition, type KeywordCxt, _ } from 'ajv';
import { alwaysValidSchema, mergeEvaluated } from 'ajv/dist/compile/util.js';
import { validateArray } from 'ajv/dist/vocabularies/code.js';

/**
 * `prefixItems` of 2020-12 and `items` of draft-07. Ajv's own skip every keyword that follows them (`contains`,
 * `uniqueItems`, …) where a list ends before the first item that they check, so that wrong lists pass.
 */
export const prefixItems: CodeKeywordDefinition = {
  keyword: 'prefixItems',
  type: 'array',
  schemaType: ['array'],
  // Before `unevaluatedItems`, which has to know what was looked at.
  before: 'contains',
  code: (cxt) => tuple(cxt, cxt.schema as AnySchema[]),
};

export const draft07Items: CodeKeywordDefinition = {
  keyword: 'items',
  type: 'array',
  schemaType: ['object', 'array', 'boolean'],
  before: 'contains',
  code(cxt) {
    const schema = cxt.schema as AnySchema | AnySchema[];
    if (Array.isArray(schema)) return tuple(cxt, schema);
    cxt.it.items = true;
    if (alwaysValidSchema(cxt.it, schema) !== true) cxt.ok(validateArray(cxt));
  },
};

function tuple(cxt: KeywordCxt, schemas: readonly AnySchema[]): void {
  const { gen, data, keyword, it } = cxt;
  if (it.opts.unevaluated && schemas.length > 0 && it.items !== true)
    it.items = mergeEvaluated.items(gen, schemas.length, it.items);
  const valid = gen.name('valid');
  gen.var(valid, true);
  const length = gen.const('len', _`${data}.length`);
  for (const [index, schema] of schemas.entries()) {
    if (alwaysValidSchema(it, schema) === true) continue;
    gen.if(_`${length} > ${index}`, () => cxt.subschema({ keyword, schemaProp: index, dataProp: index }, valid));
    cxt.ok(valid);
  }
}
