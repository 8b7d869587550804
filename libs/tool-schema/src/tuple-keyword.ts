import { type Ajv, type AnySchema, type CodeKeywordDefinition, type KeywordCxt, _ } from 'ajv';
import { alwaysValidSchema, mergeEvaluated } from 'ajv/dist/compile/util.js';
import type { Dialect } from './json-schema.js';

/**
 * Replaces `prefixItems` of 2020-12, or `items` of draft-07. Ajv's own skip every keyword that follows them (`contains`,
 * `uniqueItems`, …) where a list ends before the first item that they check, so that wrong lists pass.
 */
export function useWholeTuples(ajv: Ajv, dialect: Dialect): void {
  const keyword = dialect === '2020-12' ? 'prefixItems' : 'items';
  const own = ajv.getKeyword(keyword) as CodeKeywordDefinition;
  ajv.removeKeyword(keyword);
  ajv.addKeyword({
    keyword,
    type: 'array',
    schemaType: own.schemaType,
    // Before `unevaluatedItems`, which has to know what was looked at.
    before: 'contains',
    code(cxt) {
      if (Array.isArray(cxt.schema)) tuple(cxt, cxt.schema as AnySchema[]);
      else own.code(cxt);
    },
  } as CodeKeywordDefinition);
}

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
