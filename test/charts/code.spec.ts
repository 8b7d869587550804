import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { parsePlatformConfig } from '@yardmaster/service-kit';
import { expect, test } from 'vitest';
import { PROFILES, render, root } from './helm.ts';
import { envOf, find, ofKind, pods } from './manifest.ts';

// What the charts take for granted about the code.

test('the configuration file that the chart writes is one that the services accept, without a warning', () => {
  for (const profile of PROFILES) {
    const text = find(render({ profile }), 'ConfigMap', 'config').data!['config.yaml']!;
    expect(parsePlatformConfig(text).warnings, profile).toEqual([]);
  }
  const gpu = parsePlatformConfig(find(render({ profile: 'gpu' }), 'ConfigMap', 'config').data!['config.yaml']!);
  expect(gpu.providers['llama']).toMatchObject({ kind: 'llamacpp', key_file: '/run/yardmaster/llama/api-key' });
});

test('MCP servers of the configuration reach the registry, with their credentials and a way out', () => {
  const values = {
    config: {
      mcp_servers: { docs: { url: 'https://mcp.example.com/mcp', token_file: '/run/yardmaster/mcp-credentials/DOCS' } },
      mcp_egress: [{ host: 'mcp.tools.svc', private: true, http: true }],
    },
    registry: { mcpCredentials: { existingSecret: 'mcp-keys' }, networkPolicy: { internet: true } },
  };
  const manifests = render({ values });
  const config = parsePlatformConfig(find(manifests, 'ConfigMap', 'config').data!['config.yaml']!);
  expect(config).toMatchObject({ mcpServers: values.config.mcp_servers, warnings: [] });
  expect(config.mcpEgress).toMatchObject(values.config.mcp_egress);
  const { containers, volumes } = find(manifests, 'Deployment', 'registry').spec.template.spec;
  expect(envOf(containers[0])).toMatchObject({
    YM_CONFIG: '/etc/yardmaster/config.yaml',
    YM_REGISTRY_MCP_CREDENTIALS: '/run/yardmaster/mcp-credentials',
  });
  expect(volumes).toContainEqual({ name: 'mcp-credentials', secret: { secretName: 'mcp-keys' } });
  const others = ofKind(manifests, 'Deployment').filter(({ metadata }) => !metadata.name.endsWith('registry'));
  expect(others.length).toBeGreaterThan(4);
  expect(JSON.stringify(others)).not.toContain('mcp-keys');
  const outside = (all: typeof manifests) =>
    JSON.stringify(find(all, 'NetworkPolicy', 'registry').spec.egress).includes('0.0.0.0/0');
  expect([outside(manifests), outside(render())]).toEqual([true, false]);
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
    executors: { shell: { sandbox: { install } } },
    registry: { mcpCredentials: { existingSecret: 'x' } },
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
