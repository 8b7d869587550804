import type { Invocation } from '../cli/invocation.js';
import { ago } from '../cli/table.js';

/** `yard pod list`: llama.cpp servers that the fleet found. */
export async function pods(invocation: Invocation): Promise<void> {
  const fleet = await (await invocation.session()).api.fleet();
  await invocation.output.page(
    { items: fleet.pods },
    [
      { name: 'name', of: (pod) => pod.name },
      { name: 'provider', of: (pod) => pod.provider },
      { name: 'state', of: (pod) => pod.state },
      { name: 'since', of: (pod) => (pod.since === null ? undefined : ago(pod.since)) },
      { name: 'slots', of: (pod) => pod.slots },
      { name: 'context', of: (pod) => pod.context },
      { name: 'tools', of: (pod) => (pod.native_tools === null ? undefined : pod.native_tools ? 'native' : 'XML') },
      { name: 'model', of: (pod) => pod.model, max: 40 },
      { name: 'why', of: (pod) => pod.reason, max: 60 },
      { name: 'namespace', of: (pod) => pod.namespace, wide: true },
      { name: 'node', of: (pod) => pod.node, wide: true },
      { name: 'address', of: (pod) => pod.address, wide: true },
    ],
    'no llama.cpp pods were found',
  );
  if (fleet.note !== null) invocation.output.note(fleet.note);
}

/** `yard executor list`: the executors that the fleet scales, each with its last decision. */
export async function executors(invocation: Invocation): Promise<void> {
  const fleet = await (await invocation.session()).api.fleet();
  await invocation.output.page(
    { items: fleet.executors },
    [
      { name: 'name', of: (one) => one.name },
      { name: 'state', of: (one) => one.state },
      { name: 'pods', of: (one) => one.current },
      { name: 'wanted', of: (one) => one.desired },
      { name: 'bounds', of: (one) => `${one.min}-${one.max}` },
      { name: 'calls', of: (one) => one.need },
      { name: 'why', of: (one) => one.reason, max: 80 },
      { name: 'kinds', of: (one) => one.kinds.join(', '), wide: true },
      { name: 'deployment', of: (one) => one.deployment, wide: true },
    ],
    'no executors are scaled',
  );
  if (fleet.note !== null) invocation.output.note(fleet.note);
}
