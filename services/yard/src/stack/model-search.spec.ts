import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { findModel } from './model-search.js';

async function provider(answers: Record<string, unknown>): Promise<unknown> {
  const server = createServer((request, response) => {
    const answer = answers[request.url!];
    response.statusCode = answer === undefined ? 404 : 200;
    response.end(JSON.stringify(answer ?? {}));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const options = { config: undefined, provider: 'llamacpp', env: { LLAMA_URL: url } };
    const found = await findModel(options, () => Promise.reject(new Error('no demo')));
    return (parse(found.yaml) as { providers: { local: unknown } }).providers.local;
  } finally {
    server.close();
  }
}

const props = { default_generation_settings: { params: { reasoning_format: 'none' } }, chat_template: '' };
const up = { '/health': {}, '/v1/models': { data: [{ id: 'm' }] } };

it('a llama.cpp server whose template opens the reasoning is entered as such', async () => {
  const prompt = { prompt: '<|user|>Hello.<|assistant|><think>\n' };
  expect(await provider({ ...up, '/props': props, '/apply-template': prompt })).toMatchObject({
    think_prefilled: true,
  });
});

it('one that opens nothing, or does not say, is not', async () => {
  const prompt = { prompt: '<|user|>Hello.<|assistant|>' };
  expect(await provider({ ...up, '/props': props, '/apply-template': prompt })).not.toHaveProperty('think_prefilled');
  expect(await provider(up)).toMatchObject({ kind: 'llamacpp' });
});
