import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments } from 'yaml';
import type { Manifest } from './manifest.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const PLATFORM = `${root}charts/yardmaster`;
export const LLAMA = `${root}charts/llama`;

/** The two releases of helm that test/charts/run.ts found. */
export const HELMS = { helm3: process.env['YM_HELM3'] ?? '', helm4: process.env['YM_HELM4'] ?? '' };
export type HelmName = keyof typeof HELMS;

/** The profiles that the platform's chart ships, by name. */
export const PROFILES = readdirSync(`${PLATFORM}/profiles`)
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => basename(name, '.yaml'));
/** What is needed for a chart that refuses to be rendered with its defaults. */
export const LLAMA_VALUES = { model: { url: 'https://models.example.com/m.gguf', sha256: 'a'.repeat(64) } };

export const defaultValues = (chart: string) =>
  parse(readFileSync(`${chart}/values.yaml`, 'utf8')) as Record<string, unknown>;

export interface RenderOptions {
  chart?: string;
  profile?: string;
  values?: object;
  args?: string[];
  release?: string;
  namespace?: string;
  kube?: string;
  helm?: HelmName;
}

const folder = mkdtempSync(join(tmpdir(), 'yardmaster-charts-'));
const done = new Map<string, string>();
let files = 0;

function run(helm: HelmName, args: string[]): string {
  if (HELMS[helm] === '') throw new Error('run this through "npm run test:charts": it brings helm');
  try {
    return execFileSync(HELMS[helm], args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 << 20,
      env: { PATH: process.env['PATH'] ?? '', HOME: folder, HELM_NO_PLUGINS: '1' },
    });
  } catch (error) {
    throw new Error((error as { stderr: string }).stderr || String(error), { cause: error });
  }
}

function valueArgs({ chart = PLATFORM, profile, values, args = [] }: RenderOptions): string[] {
  const all = [...args];
  if (values !== undefined) {
    const file = join(folder, `values-${files++}.yaml`);
    // JSON: helm reads an unquoted "yes" as true, as YAML 1.1 did.
    writeFileSync(file, JSON.stringify(values));
    all.unshift('-f', file);
  }
  if (profile !== undefined) all.unshift('-f', `${chart}/profiles/${profile}.yaml`);
  return all;
}

/** What `helm template` prints. Throws an Error with helm's own words. The same question is asked once. */
export function renderText(options: RenderOptions = {}): string {
  const { chart = PLATFORM, release = 'ym', namespace = 'yard', kube, helm = 'helm4' } = options;
  const key = JSON.stringify(options);
  const known = done.get(key);
  if (known !== undefined) return known;
  // Named explicitly: each helm has another default.
  const text = run(helm, [
    'template',
    release,
    chart,
    '--namespace',
    namespace,
    '--kube-version',
    kube ?? '1.35.0',
    ...valueArgs(options),
  ]);
  done.set(key, text);
  return text;
}

/** The rendered objects. Two equal keys in one of them are an error. */
export function render(options: RenderOptions = {}): Manifest[] {
  return parseAllDocuments(renderText(options), { uniqueKeys: true }).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    const value = document.toJS() as Manifest | null;
    return value === null ? [] : [value];
  });
}

/** What helm says when it refuses; fails when it does not. */
export function refusal(options: RenderOptions): string {
  try {
    renderText(options);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error(`helm rendered ${JSON.stringify(options)}, which it should refuse`);
}

/** `helm lint --strict`. Throws with its output. */
export function lint(options: RenderOptions = {}): void {
  run(options.helm ?? 'helm4', ['lint', '--strict', options.chart ?? PLATFORM, ...valueArgs(options)]);
}
