import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ConfigError } from './config.js';
import { parsePlatformConfig, PlatformConfigFile } from './platform-config.js';

const mistakesOf = (yaml: string) => {
  try {
    parsePlatformConfig(yaml, 'f.yaml');
    return [];
  } catch (error) {
    return [...(error as ConfigError).mistakes];
  }
};

it('reads providers, routing, agents and approvals', () => {
  const config = parsePlatformConfig(`
providers:
  local: { kind: llamacpp, base_url: http://127.0.0.1:8080/v1, native_tools: false }
  lab: { kind: "custom:http://10.0.0.7:8080/v1" }
routing: { default_model: m, providers: [local], model_fallbacks: { m: [n] } }
agents: { coder: { model: m, tools: [file_read], limits: { max_iterations: 3 } } }
approvals: { execute: ask }
`);
  expect(config.providers['lab']?.kind).toBe('custom:http://10.0.0.7:8080/v1');
  expect(config.agents['coder']?.limits?.max_iterations).toBe(3);
  expect(config.approvals.execute).toBe('ask');
  expect(config.warnings).toEqual([]);
});

it('an empty file is a configuration with nothing in it', () => {
  expect(parsePlatformConfig('')).toMatchObject({ providers: {}, agents: {} });
});

it.each([
  ['providers: { a: { kind: openai, keyenv: X } }', 'providers.a: there is no key "keyenv" here'],
  ['approvals: { execute: maybe }', 'approvals.execute: must be one of allow, ask, deny'],
  ['agents: { coder: { limits: { max_iterations: 0 } } }', 'agents.coder.limits.max_iterations: must be >= 1'],
  ['providers: { a: {} }', "providers.a: must have required property 'kind'"],
  ['providers: [', 'f.yaml:'],
])('%s is refused with the key and the rule', (yaml, words) => {
  expect(mistakesOf(yaml).join('\n')).toContain(words);
});

it('a chain that names an unknown provider is a warning, not the end', () => {
  expect(parsePlatformConfig('routing: { providers: [nobody] }').warnings).toEqual([
    'routing.providers: there is no provider "nobody"; it is left out',
  ]);
});

it('a file that breaks while it is watched is reported, and the old version stays', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'ym-config-'));
  const path = join(dir, 'c.yaml');
  writeFileSync(path, 'routing: { default_model: one }');
  const problems: string[] = [];
  const file = new PlatformConfigFile(path, (problem) => problems.push(problem));
  try {
    writeFileSync(path, 'routing: { default_modle: two }');
    await expect.poll(() => problems.join(), { timeout: 10_000 }).toContain('stays as it was');
    expect(file.current.routing.default_model).toBe('one');
    writeFileSync(path, 'routing: { default_model: three }');
    await expect.poll(() => file.current.routing.default_model, { timeout: 10_000 }).toBe('three');
  } finally {
    file.close();
    rmSync(dir, { recursive: true });
  }
});
