import type { Plan, Provider } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';

/** `yard model list` */
export async function models(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const items = await session.api.models();
  await invocation.output.page(
    { items },
    [
      { name: 'model', of: (model) => model.id },
      { name: 'owned by', of: (model) => model.owned_by },
    ],
    'no models are configured',
  );
}

/** `yard provider list` */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const answer = await session.api.providers.list();
  const can = ({ capabilities }: Provider) =>
    [
      capabilities.native_tools ? 'native tools' : 'XML tools',
      capabilities.vision ? 'vision' : '',
      capabilities.embeddings ? 'embeddings' : '',
    ]
      .filter((word) => word !== '')
      .join(', ');
  await invocation.output.page(
    answer,
    [
      { name: 'name', of: (provider) => provider.name },
      { name: 'kind', of: (provider) => `${provider.kind}${provider.demo ? ' (demo model)' : ''}` },
      { name: 'health', of: (provider) => provider.health },
      { name: 'until', of: (provider) => provider.until },
      { name: 'can', of: can },
      { name: 'models', of: (provider) => provider.models.join(', '), max: 40 },
      { name: 'address', of: (provider) => provider.base_url, wide: true },
      {
        name: 'keys',
        of: (provider) => provider.keys.map((key) => `${key.hash} ${key.health}`).join(', '),
        wide: true,
      },
    ],
    'no providers are configured',
  );
  if (answer.default_model !== null) invocation.output.note(`default model: ${answer.default_model}`);
}

/** `yard provider plan`: the chain that a request would go along. */
export async function plan(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const text = (name: string, member: string) => {
    const value = invocation.text(name);
    return value === undefined ? {} : { [member]: value };
  };
  const list = (name: string, member: string) => {
    const value = invocation.list(name);
    return value === undefined ? {} : { [member]: value };
  };
  const found: Plan = await session.api.providers.plan({
    ...text('model', 'model'),
    ...text('agent', 'agent'),
    ...text('tool-dispatcher', 'tool_dispatcher'),
    ...list('provider', 'providers'),
    ...list('tool', 'tools'),
    ...(invocation.on('images') ? { images: true } : {}),
  });
  if (invocation.output.structured) await invocation.output.object(found, () => '');
  else
    await invocation.output.page(
      { items: found.candidates.map((candidate, index) => ({ ...candidate, name: candidate.provider, index })) },
      [
        { name: '#', of: (candidate) => candidate.index + 1 },
        { name: 'provider', of: (candidate) => candidate.provider },
        { name: 'model', of: (candidate) => candidate.model },
        { name: 'dialect', of: (candidate) => candidate.dialect },
        { name: 'usable', of: (candidate) => (candidate.usable ? 'yes' : 'no') },
        { name: 'why', of: (candidate) => candidate.reason ?? candidate.origin },
      ],
      'no provider would be tried',
    );
  for (const warning of found.warnings) invocation.output.note(`warning: ${warning}`);
}
