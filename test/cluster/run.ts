// `npm run test:cluster`: the charts and the fleet against a real Kubernetes API: etcd and kube-apiserver, built once by
// Go from pinned modules (go/), and helm from npm. Nothing else is needed, above all no cluster. Where one of them cannot
// be had, the tests are skipped with the reason.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { helms } from '../charts/binaries.ts';
import { kubernetesVersion, programs, resourceDefinitions } from './toolchain.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'yardmaster-cluster-'));
let found: Record<string, string>;
try {
  const { etcd, apiserver } = await programs('etcd', 'apiserver');
  const { helm3, helm4 } = await helms();
  const crds = join(folder, 'crds.yaml');
  writeFileSync(crds, (await resourceDefinitions()).join('\n---\n'));
  found = {
    YM_ETCD: etcd,
    YM_APISERVER: apiserver,
    YM_HELM3: helm3,
    YM_HELM4: helm4,
    YM_CRDS: crds,
    YM_KUBERNETES: kubernetesVersion,
  };
} catch (error) {
  rmSync(folder, { recursive: true, force: true });
  console.log(`test:cluster SKIPPED: ${(error as Error).message}`);
  process.exit(0);
}
const { status } = spawnSync(
  process.execPath,
  [`${root}node_modules/vitest/vitest.mjs`, 'run', '--config', `${here}vitest.config.ts`, ...process.argv.slice(2)],
  { stdio: 'inherit', cwd: root, env: { ...process.env, ...found } },
);
rmSync(folder, { recursive: true, force: true });
process.exitCode = status ?? 1;
