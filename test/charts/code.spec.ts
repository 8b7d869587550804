import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { parsePlatformConfig } from '@yardmaster/service-kit';
import { expect, test } from 'vitest';
import { PROFILES, render, root } from './helm.ts';
import { envOf, find, pods } from './manifest.ts';

// What the charts take for granted about the code.

test('the configuration file that the chart writes is one that the services accept, without a warning', () => {
  for (const profile of PROFILES) {
    const text = find(render({ profile }), 'ConfigMap', 'config').data!['config.yaml']!;
    expect(parsePlatformConfig(text).warnings, profile).toEqual([]);
  }
  const gpu = parsePlatformConfig(find(render({ profile: 'gpu' }), 'ConfigMap', 'config').data!['config.yaml']!);
  expect(gpu.providers['llama']).toMatchObject({ kind: 'llamacpp', key_file: '/run/yardmaster/llama/api-key' });
});

test("the registry gets MCP servers and tenants' credentials for them, and nothing of providers", () => {
  const github = { url: 'https://mcp.example.com/mcp', credential: 'github' };
  const values = {
    config: { mcp_servers: { github }, mcp_egress: [{ host: 'mcp.tools.svc', private: true }] },
    registry: { mcpCredentials: { existingSecret: 'mcp' } },
    providerKeys: { existingSecret: 'keys' },
  };
  const manifests = render({ values });
  const pod = pods(manifests).find(({ component }) => component === 'registry')!;
  const file = find(manifests, 'ConfigMap', 'registry');
  expect(pod.spec.volumes).toContainEqual({ name: 'config', configMap: { name: file.metadata.name } });
  expect(pod.spec.volumes).toContainEqual({ name: 'mcp-credentials', secret: { secretName: 'mcp' } });
  expect(envOf(pod.containers[0]!)).toMatchObject({
    YM_CONFIG: '/etc/yardmaster/config.yaml',
    YM_REGISTRY_MCP_CREDENTIALS: '/run/yardmaster/mcp-credentials',
  });
  for (const text of [file.data!['config.yaml']!, find(manifests, 'ConfigMap', 'config').data!['config.yaml']!]) {
    const config = parsePlatformConfig(text);
    expect([config.warnings, config.mcpServers, config.mcpEgress]).toEqual([[], { github }, values.config.mcp_egress]);
  }
  expect(JSON.stringify(pod.spec)).not.toContain('"keys"');
});

test('every YM_ variable that a container gets is one that its code reads', () => {
  const sources = (folder: string): string =>
    readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
      .map((name) => readFileSync(`${root}${folder}/${name}`, 'utf8'))
      .join('\n');
  const shared = sources('libs/service-kit/src');
  const install = {
    enabled: true,
    policy: { registries: {} },
    egress: [{ to: [{ ipBlock: { cidr: '1.2.3.4/32' } }] }],
  };
  const values = {
    api: { hosts: ['x'] },
    registry: { mcpCredentials: { existingSecret: 'x' } },
    executors: { shell: { sandbox: { install } } },
  };
  for (const { component, all } of pods(render({ values })))
    for (const container of all) {
      const service = ['nats', 'redis', 'test', 'bootstrap'].includes(component) ? 'yard' : component;
      const code = shared + sources(`services/${service}/src`);
      for (const name of Object.keys(envOf(container)).filter((one) => one.startsWith('YM_'))) {
        // The runner's variables are written once without their prefix.
        const short = name.replace('YM_EXECUTOR_SHELL_', '');
        const known =
          code.includes(`'${name}'`) ||
          code.includes(`${name}:`) ||
          (short !== name && new RegExp(`\\b${short}\\b`).test(code));
        expect(known, `${component}/${container.name}: ${name}`).toBe(true);
      }
    }
});

test('what containers run is there', () => {
  for (const { all } of pods(render()))
    for (const { command = [] } of all)
      for (const word of command.filter((one) => one.startsWith('services/')))
        expect(existsSync(`${root}${word.replace('/dist/', '/src/').replace(/\.js$/, '.ts')}`), word).toBe(true);
});

test('the images that the installation guide builds are those that the chart runs', () => {
  const rendered = pods(render({ values: { image: { registry: 'registry.test' } } }))
    .flatMap(({ all }) => all)
    .map(({ image }) => /^registry\.test\/yardmaster\/([^:]+):/.exec(image ?? '')?.[1])
    .filter((name) => name !== undefined);
  const guide = readFileSync(`${root}docs/install.md`, 'utf8');
  const looped = /^for service in (.+); do$/m.exec(guide)![1]!.split(' ');
  const single = [...guide.matchAll(/^docker build .*SERVICE=([a-z-]+)/gm)].map(([, name]) => name!);
  expect([...looped, ...single].sort()).toEqual([...new Set(rendered)].sort());
});
