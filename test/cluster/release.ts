import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HELMS, type HelmName, PLATFORM } from '../charts/helm.ts';
import type { Manifest } from '../charts/manifest.ts';
import type { Cluster } from './objects.ts';

/** Makes charts of other versions, and values, in a folder of its own. */
export class Releases {
  private readonly folder = mkdtempSync(join(tmpdir(), 'yardmaster-releases-'));
  private files = 0;

  constructor(private readonly cluster: () => Cluster) {}

  /** The chart as another release: another version of itself and of its images, in every label that carries one. */
  version(chart: string, version: string): string {
    const copy = join(this.folder, `${chart.split('/').at(-1)}-${version}`);
    // The subchart is a link in the repository; a packaged chart has a copy.
    cpSync(chart, copy, { recursive: true, dereference: true });
    const file = join(copy, 'Chart.yaml');
    const text = readFileSync(file, 'utf8');
    const other = text
      .replace(/^version: .*$/m, `version: ${version}`)
      .replace(/^appVersion: .*$/m, `appVersion: "${version}"`);
    if (other === text) throw new Error(`${file} is of version ${version} already`);
    writeFileSync(file, other);
    return copy;
  }

  /** One release in its namespace. `wait`: until everything is ready, or gone, which nothing ever is without controllers. */
  of(
    helm: HelmName,
    namespace: string,
    { release = 'ym', wait = false }: { release?: string; wait?: boolean } = {},
  ): Release {
    const run = (...args: string[]) =>
      this.cluster().plane.run(HELMS[helm], [
        ...args,
        '--namespace',
        namespace,
        ...(wait ? ['--wait', '--timeout', '110s'] : []),
      ]);
    const words = (values: object | undefined, profile: string | undefined) => {
      const all = profile === undefined ? [] : ['-f', `${PLATFORM}/profiles/${profile}.yaml`];
      if (values === undefined) return all;
      const file = join(this.folder, `values-${this.files++}.json`);
      writeFileSync(file, JSON.stringify(values));
      return [...all, '-f', file];
    };
    return {
      install: (chart, values, profile) =>
        run('install', release, chart, '--create-namespace', ...words(values, profile)),
      upgrade: (chart, values, profile) =>
        // Without the flag helm takes the values of the last revision when it is given none.
        run('upgrade', release, chart, '--reset-values', ...words(values, profile)),
      rollback: (revision) => run('rollback', release, String(revision)),
      uninstall: () => run('uninstall', release),
      state: async () => {
        const all = await this.cluster().everything(namespace);
        return Object.fromEntries(
          [...all]
            .filter(([, { metadata }]) => metadata.labels?.['app.kubernetes.io/instance'] === release)
            .map(([key, object]) => [key, content(object)]),
        );
      },
    };
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What helm does; each throws with its words. */
export interface Release {
  install(chart: string, values?: object, profile?: string): Promise<string>;
  upgrade(chart: string, values?: object, profile?: string): Promise<string>;
  rollback(revision: number): Promise<string>;
  uninstall(): Promise<string>;
  /** What the release has in the cluster, without the bookkeeping of the server and of helm. */
  state(): Promise<Record<string, object>>;
}

function content({ metadata, status: _, ...rest }: Manifest & { status?: unknown }): object {
  const { name, labels, annotations } = metadata;
  const { uid } = metadata as { uid?: string };
  // A Job carries its own id in its selector and its template: another one after it was deleted and made again.
  const spec = JSON.parse(JSON.stringify(rest).replaceAll(uid ?? '-', 'its own id')) as object;
  return { ...spec, metadata: { name, labels, annotations: annotations ?? {} } };
}
