import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { parsePlatformConfig } from '@yardmaster/service-kit';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { defaultValues, LLAMA, PLATFORM, PROFILES, render, root } from './helm.ts';
import { envOf, find, pods, quantity } from './manifest.ts';

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

describe('what the guide says', () => {
  const guide = readFileSync(`${root}docs/install.md`, 'utf8');

  test('its values render with the profile that it installs, into a configuration without a warning', () => {
    const [, text] = /^cat > my-values\.yaml <<'Y'\n([\s\S]+?)^Y$/m.exec(guide)!;
    const [, profile] = /^helm install ym .*-f charts\/yardmaster\/profiles\/(\w+)\.yaml -f my-values\.yaml$/m.exec(
      guide,
    )!;
    const manifests = render({ profile: profile!, values: parse(text!) as object });
    const config = parsePlatformConfig(find(manifests, 'ConfigMap', 'config').data!['config.yaml']!);
    expect([config.warnings, Object.keys(config.providers)]).toEqual([[], ['claude']]);
    const [router] = pods(manifests).find(({ component }) => component === 'router')!.containers;
    expect(router!.volumeMounts!.map(({ mountPath }) => mountPath)).toContain('/run/yardmaster/provider-keys');
  });

  test("another tenant's first key comes in by the chart's own Job, with another name and Secret and nothing else", () => {
    const section = /^## Another tenant\n([\s\S]+?)^## /m.exec(guide)![1]!;
    const [, setting, template] = /--set (\S+)="first-key-\$TENANT" --show-only (\S+) \|/.exec(section)!;
    expect(existsSync(`${PLATFORM}/${template!}`)).toBe(true);
    const job = (...args: string[]) => find(render({ profile: 'ha', args }), 'Job', 'bootstrap');
    const [first, other] = [job(), job('--set', `${setting!}=first-key-globex`)];
    expect(other.metadata.name).not.toBe(first.metadata.name);

    const mounted = (of: typeof first, volume: string) =>
      of.spec.template.spec.volumes.find(({ name }: { name: string }) => name === volume).secret;
    const [container] = other.spec.template.spec.containers;
    expect(mounted(other, 'api-key').secretName).toBe('first-key-globex');
    const [item] = mounted(other, 'api-key').items;
    expect(section).toContain(`--from-literal=${item.key}="ym_`);
    const mount = container.volumeMounts.find(({ name }: { name: string }) => name === 'api-key');
    expect(container.args.slice(-2)).toEqual(['--import-key', `${mount.mountPath}/${item.path}`]);
    // The same but for the Secret: nothing of the streams changes, and the same policies let it through.
    expect(container).toEqual(first.spec.template.spec.containers[0]);
    expect(other.spec.template.metadata.labels).toEqual(first.spec.template.metadata.labels);
    for (const [volume, login] of [
      ['nats-password', 'setup'],
      ['redis-password', 'bootstrap'],
    ] as const) {
      const { secretName, items } = mounted(other, volume);
      expect(items[0].key).toMatch(new RegExp(`-${login}$`));
      expect(section).toContain(`\`${items[0].key}\``);
      expect(section).toContain(`\`${secretName}\``);
    }
  });

  test('keys of values that it names are keys of values.yaml', () => {
    const values = defaultValues(PLATFORM) as Record<string, any>; // eslint-disable-line @typescript-eslint/no-explicit-any
    values['llama'] = { ...defaultValues(LLAMA), ...values['llama'] };
    const is = ([map, name, ...rest]: string[]) => {
      const entry = { executors: 'executorDefaults', workspaces: 'workspaceDefaults' }[map!];
      const path = entry === undefined ? [map!, name!, ...rest] : name === 'colocate' ? [map!] : [entry, ...rest];
      return (
        path.reduce<any>((node, key) => (node && Object.keys(node).length === 0 ? node : node?.[key]), values) !==
        undefined
      ); // eslint-disable-line @typescript-eslint/no-explicit-any
    };
    let named = 0;
    for (const page of ['install', 'fleet', 'runbook', 'executors', 'providers'])
      for (const [, key] of readFileSync(`${root}docs/${page}.md`, 'utf8').matchAll(
        /`([a-zA-Z]+(?:\.[\w<>-]+)+)(?::[^`]*)?`/g,
      )) {
        const path = key!.split('.');
        // Files, the chart llama's own keys, and names of programs.
        if (!(path[0]! in values) || /\.(conf|cpp|md)$/.test(key!) || key === 'networkPolicy.fromNamespaces') continue;
        expect(is(path), `docs/${page}.md: ${key}`).toBe(true);
        named++;
      }
    expect(named).toBeGreaterThan(20);
  });

  test('the sum of requests is that of the defaults', () => {
    const [, cpu, memory] = /One pod of each asks for ([\d.]+) CPU and ([\d.]+) GiB/.exec(guide)!;
    const sum = (of: string) =>
      pods(render())
        .filter(({ owner }) => ['Deployment', 'StatefulSet'].includes(owner.kind))
        .flatMap(({ containers }) => containers)
        .reduce((total, { resources }) => total + quantity(resources!.requests![of]!), 0);
    expect(Number(cpu)).toBeCloseTo(sum('cpu'), 2);
    expect(Number(memory)).toBeCloseTo(sum('memory') / 2 ** 30, 1);
  });
});
