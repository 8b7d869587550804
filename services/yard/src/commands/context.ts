import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Invocation, readStdin } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { UsageError } from '../cli/usage-error.js';
import { contextsFile, LOCAL, readContexts, writeContexts } from '../connection/contexts.js';
import { checkedUrl, resolveSettings } from '../connection/settings.js';

/** `yard context list`: never the keys. */
export async function list({ output }: Invocation): Promise<void> {
  const { current, contexts } = readContexts();
  const items = [
    { name: LOCAL, current: current === undefined || current === LOCAL, api_url: '', key: '.yard/dev.json' },
    ...Object.entries(contexts).map(([name, context]) => ({
      name,
      current: name === current,
      api_url: context.api_url,
      key: context.key_file ?? (context.key === undefined ? '' : contextsFile()),
    })),
  ];
  await output.page(
    { items },
    [
      { name: 'name', of: (item) => item.name },
      { name: 'used', of: (item) => (item.current ? 'yes' : '') },
      { name: 'address', of: (item) => item.api_url || '(the stack of this checkout)' },
      { name: 'key in', of: (item) => item.key },
    ],
    '',
  );
}

/** `yard context use NAME` */
export async function use({ args, output }: Invocation): Promise<void> {
  const name = args[0]!;
  const contexts = readContexts();
  if (name !== LOCAL && !Object.hasOwn(contexts.contexts, name))
    throw new UsageError(
      `there is no context "${name.slice(0, 60)}"; there are: ${[LOCAL, ...Object.keys(contexts.contexts)].join(', ')}`,
    );
  writeContexts({ contexts: contexts.contexts, current: name });
  output.note(`using ${name}`);
}

/** `yard context add NAME --api-url URL --key-file FILE|-` */
export async function add(invocation: Invocation): Promise<void> {
  const name = invocation.args[0]!;
  const url = invocation.text('api-url');
  const keyFile = invocation.text('key-file');
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$/.test(name) || name === LOCAL)
    throw new UsageError(`a context is named with 1 to 40 letters, digits, . - or _, and not "${LOCAL}"`);
  if (url === undefined || keyFile === undefined)
    throw new UsageError('both are needed: --api-url URL and --key-file FILE (- reads the key from stdin)');
  if (keyFile !== '-' && !existsSync(keyFile)) throw new UsageError(`there is no file ${keyFile}`);
  const contexts = readContexts();
  contexts.contexts[name] = {
    api_url: checkedUrl(url, '--api-url'),
    ...(keyFile === '-' ? { key: (await readStdin()).trim() } : { key_file: resolve(keyFile) }),
  };
  if (!invocation.on('dry-run')) writeContexts(contexts);
  invocation.output.note(
    `${invocation.on('dry-run') ? 'would save' : 'saved'} ${name} in ${contextsFile()}; use it with: yard context use ${name}`,
  );
}

/** `yard context show` */
export async function show(invocation: Invocation): Promise<void> {
  const { apiUrl, apiKey, source } = resolveSettings({
    apiUrl: invocation.text('api-url'),
    context: invocation.text('context'),
  });
  const [, tenant = '', id = ''] = apiKey.split('_');
  const shown = { api_url: apiUrl, from: source, tenant, key_id: id };
  await invocation.output.object(shown, () =>
    fields([
      ['address', shown.api_url],
      ['from', shown.from],
      ['tenant', shown.tenant],
      ['key id', shown.key_id],
    ]),
  );
}
