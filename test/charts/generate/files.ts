import { fileURLToPath } from 'node:url';
import { redisUsers, serviceUsers } from '@yardmaster/contracts';
import { schemaOf } from './schema.ts';
import { valuesPage } from './values-page.ts';

export const root = fileURLToPath(new URL('../../..', import.meta.url));
const values = (chart: string) => `${root}charts/${chart}/values.yaml`;

/** The committed files that are made from others, by path: written by generate/run.ts, compared by a test. */
export async function generatedFiles(): Promise<Map<string, string>> {
  const { format } = await import('prettier');
  return new Map([
    ...(['yardmaster', 'llama'] as const).map(
      (chart) =>
        [`charts/${chart}/values.schema.json`, `${JSON.stringify(schemaOf(chart, values(chart)), null, 2)}\n`] as const,
    ),
    [
      'charts/yardmaster/files/logins.json',
      // The logins of the code's own table: which passwords the chart's Secrets hold. Executors' come from the values.
      `${JSON.stringify({ nats: serviceUsers([]).map(({ user }) => user), redis: redisUsers().map(({ user }) => user) }, null, 2)}\n`,
    ],
    [
      'docs/values.md',
      await format(
        valuesPage([
          { name: 'yardmaster', file: values('yardmaster'), about: 'The platform.' },
          {
            name: 'llama',
            file: values('llama'),
            about: 'A llama.cpp server; also the subchart `llama` of the platform.',
          },
        ]),
        { parser: 'markdown' },
      ),
    ],
  ]);
}
