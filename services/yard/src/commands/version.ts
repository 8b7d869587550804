import { readFileSync } from 'node:fs';
import type { Invocation } from '../cli/invocation.js';

/** `yard version` */
export async function version({ output }: Invocation): Promise<void> {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  const found = { name: 'yard', version, node: process.versions.node };
  if (output.form === 'name') output.line(version);
  else await output.object(found, (wide) => `yard ${version}${wide ? ` (Node ${found.node})` : ''}`);
}
