import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { type AuthStyle, priceOf, providerKind, providerKindNames, type ProviderKind } from '@yardmaster/llm-wire';
import type { FoundProvider, PlatformConfig, PodPhase, ProviderConfig } from '@yardmaster/service-kit';
import type { ProviderKeyRef } from '../failover/candidate.js';

/** One configured provider, with everything that its kind knows filled in. */
export interface ProviderEntry {
  name: string;
  kind: ProviderKind;
  baseUrl: string;
  auth: AuthStyle;
  keys: readonly ProviderKeyRef[];
  nativeTools: boolean;
  vision: boolean;
  embeddings: boolean;
  demo: boolean;
  /** Undefined: serves whatever model it is asked for. */
  models: readonly string[] | undefined;
  config: ProviderConfig;
  /** One pod of the provider, where the fleet found its pods. */
  pod?: { name: string; phase: PodPhase; reason: string };
}

export interface ProviderTable {
  providers: ReadonlyMap<string, ProviderEntry>;
  /** By the name of their provider, which may have an entry of its own: its address when no pod can be reached. */
  pods: ReadonlyMap<string, readonly ProviderEntry[]>;
  /** What is wrong with single entries; the others work. */
  warnings: readonly string[];
}

const TEXT = (name: string) => `provider "${name}"`;

/** A pod that the fleet found, and not a provider that somebody wrote into the bucket. */
export const isFound = (entry: ProviderConfig): entry is FoundProvider => 'found' in entry;

/**
 * The providers of a configuration, and the pods that the fleet found. An entry that cannot work is a warning and is left
 * out: the chain has others.
 */
export function providerTable(
  config: PlatformConfig,
  env: NodeJS.ProcessEnv,
  found: readonly FoundProvider[] = [],
): ProviderTable {
  const providers = new Map<string, ProviderEntry>();
  const pods = new Map<string, ProviderEntry[]>();
  const warnings: string[] = [];
  for (const [name, entry] of Object.entries(config.providers)) {
    const made = entryOf(name, entry, env, warnings);
    if (made !== undefined) providers.set(name, made);
  }
  for (const one of found) {
    const { found: pod, base_url: url, slots, ...said } = one;
    const configured = config.providers[pod.provider];
    // Its key is for its own address: whoever can write into the bucket must not get it sent to another one.
    if (configured !== undefined && serverOf(configured.kind) !== serverOf(said.kind)) {
      warnings.push(
        `${TEXT(pod.provider)} is "${configured.kind}", and a "${said.kind}" was found under its name: left out`,
      );
      continue;
    }
    // What people wrote holds over what the pod says of itself; where it is and how much fits in, only the pod knows.
    const entry: ProviderConfig = { ...said, ...configured, base_url: url, ...(slots === undefined ? {} : { slots }) };
    const made = entryOf(pod.provider, entry, env, warnings);
    if (made === undefined) continue;
    made.pod = { name: pod.pod, phase: pod.phase, reason: pod.reason };
    const known = pods.get(pod.provider) ?? [];
    pods.set(pod.provider, [...known, made]);
  }
  return { providers, pods, warnings: [...new Set(warnings)] };
}

function entryOf(
  name: string,
  entry: ProviderConfig,
  env: NodeJS.ProcessEnv,
  warnings: string[],
): ProviderEntry | undefined {
  const kind = providerKind(entry.kind);
  if (kind === undefined) {
    warnings.push(
      `${TEXT(name)}: there is no kind "${entry.kind.slice(0, 60)}"; known: ${providerKindNames().join(', ')}, custom:<url>`,
    );
    return undefined;
  }
  const baseUrl = entry.base_url ?? kind.baseUrl;
  if (!URL.canParse(baseUrl)) {
    warnings.push(`${TEXT(name)}: its address cannot be read`);
    return undefined;
  }
  const auth = authOf(entry, kind);
  const keys = auth.style === 'none' ? [] : keysOf(name, entry, kind, env, warnings);
  if (auth.style !== 'none' && keys.length === 0 && !kind.local) {
    warnings.push(
      `${TEXT(name)}: no key: set ${entry.key_env ?? kind.keyEnv ?? 'key_env or key_file'}; it is left out`,
    );
    return undefined;
  }
  return {
    name,
    kind,
    baseUrl,
    auth: keys.length === 0 ? { style: 'none' } : auth,
    keys,
    nativeTools: entry.native_tools ?? kind.capabilities.nativeTools,
    vision: entry.vision ?? kind.capabilities.vision,
    embeddings: entry.embeddings ?? false,
    demo: entry.demo ?? false,
    models: entry.models,
    config: entry,
  };
}

/** What server a kind is a way to talk to: llama.cpp has two. */
const serverOf = (kind: string): string | undefined => providerKind(kind)?.kind.replace(/-completion$/, '');

function authOf(entry: ProviderConfig, kind: ProviderKind): AuthStyle {
  if (entry.auth === undefined) return kind.auth;
  if (typeof entry.auth === 'object') return { style: 'custom', header: entry.auth.header };
  return { style: entry.auth };
}

/** A provider's own keys and nobody else's: a key is never taken over from another entry. */
function keysOf(
  name: string,
  entry: ProviderConfig,
  kind: ProviderKind,
  env: NodeJS.ProcessEnv,
  warnings: string[],
): ProviderKeyRef[] {
  const references = entry.keys ?? [
    ...(entry.key_env === undefined ? [] : [{ env: entry.key_env }]),
    ...(entry.key_file === undefined ? [] : [{ file: entry.key_file }]),
  ];
  if (references.length === 0 && kind.keyEnv !== undefined && entry.base_url === undefined)
    references.push({ env: kind.keyEnv });
  const keys: ProviderKeyRef[] = [];
  for (const reference of references) {
    if ('env' in reference && reference.env !== undefined) {
      const value = env[reference.env];
      if (value === undefined || value.trim() === '')
        warnings.push(`${TEXT(name)}: the variable ${reference.env} is not set`);
      else keys.push(keyRef(() => value.trim(), value.trim()));
    } else if ('file' in reference && reference.file !== undefined) {
      const key = fileKey(reference.file);
      if (key === undefined) warnings.push(`${TEXT(name)}: the key file ${reference.file} cannot be read`);
      else keys.push(key);
    }
  }
  return keys;
}

const hashOf = (value: string) => createHash('sha256').update(value).digest('hex').slice(0, 8);

function keyRef(reveal: () => string, value: string): ProviderKeyRef {
  // Not enumerable: a logger that walks the object finds the hash only.
  return Object.defineProperty({ id: hashOf(value) } as ProviderKeyRef, 'reveal', { value: reveal, enumerable: false });
}

/** A key in a file is read again when the file changes: rotating it needs no restart. */
function fileKey(file: string): ProviderKeyRef | undefined {
  try {
    let value = readFileSync(file, 'utf8').trim();
    let changed = statSync(file).mtimeMs;
    if (value === '') return undefined;
    return keyRef(() => {
      try {
        const now = statSync(file).mtimeMs;
        if (now !== changed) {
          value = readFileSync(file, 'utf8').trim();
          changed = now;
        }
      } catch {
        // The file is being replaced: the key that is known still counts.
      }
      return value;
    }, value);
  } catch {
    return undefined;
  }
}

export const priceFor = (entry: ProviderEntry, model: string) =>
  entry.demo || entry.kind.local ? undefined : priceOf(entry.kind.kind, model);
