import { render as renderChart } from '../charts/helm.ts';
import type { Manifest } from '../charts/manifest.ts';
import { variable } from './objects.ts';

export { root } from '../charts/helm.ts';
export { ofKind } from '../charts/manifest.ts';

/** The platform's chart, rendered for the API server that the tests run. */
export const render = (values: object = {}): Manifest[] => renderChart({ values, kube: variable('YM_KUBERNETES') });
