// `npm run test:cluster`: the charts and the fleet against a real Kubernetes API. Level A is etcd and kube-apiserver, level
// B also kube-controller-manager and kube-scheduler, all built once by Go from pinned modules (go/), and helm and kubectl
// from npm. Nothing else is needed, above all no cluster. What cannot be had skips its level, with the reason; a build that
// fails is a failure.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { helms, kubectl, NotHere } from '../charts/binaries.ts';
import { kubernetesVersion, programs, resourceDefinitions } from './toolchain.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));

/** Everything that the tests write lies in here, and goes with it. */
const folder = mkdtempSync(join(tmpdir(), 'yardmaster-cluster-'));

/** What `have` answers, or undefined where that is not to be had, which it says. */
async function unlessNotHere<T>(what: string, have: () => Promise<T>): Promise<T | undefined> {
  try {
    return await have();
  } catch (error) {
    if (!(error instanceof NotHere)) throw error;
    console.log(`${what} SKIPPED: ${error.message}`);
    return undefined;
  }
}

function vitest(found: Record<string, string>): number {
  const { status } = spawnSync(
    process.execPath,
    [`${root}node_modules/vitest/vitest.mjs`, 'run', '--config', `${here}vitest.config.ts`, ...process.argv.slice(2)],
    { stdio: 'inherit', cwd: root, env: { ...process.env, ...found, TMPDIR: folder } },
  );
  return status ?? 1;
}

try {
  const levelA = await unlessNotHere('test:cluster', async () => {
    const { etcd, apiserver } = await programs('etcd', 'apiserver');
    const { helm3, helm4 } = await helms();
    const crds = join(folder, 'crds.yaml');
    writeFileSync(crds, (await resourceDefinitions()).join('\n---\n'));
    return {
      YM_ETCD: etcd,
      YM_APISERVER: apiserver,
      YM_HELM3: helm3,
      YM_HELM4: helm4,
      YM_CRDS: crds,
      YM_KUBERNETES: kubernetesVersion,
    };
  });
  if (levelA !== undefined) {
    const levelB = await unlessNotHere('test:cluster: what needs controllers and a scheduler is', async () => {
      const { controllers, scheduler } = await programs('controllers', 'scheduler');
      return { YM_CONTROLLERS: controllers, YM_SCHEDULER: scheduler, YM_KUBECTL: await kubectl() };
    });
    process.exitCode = vitest({ ...levelA, ...levelB });
  }
} catch (error) {
  console.error(`test:cluster: ${(error as Error).stack}`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
