import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { intercept } from '@yardmaster/executor-shell/intercept';
import type { CommandResult, Limits } from '@yardmaster/executor-shell/protocol';
import type { Suite, Verdict } from '../suite.ts';
import { commandLines, contentOf, type Fixture, residentMb, startFixture, within } from './sandbox-fixture.ts';

interface Never {
  check: string;
  path?: string;
  marker?: string;
  after_s?: number;
  port?: string;
  text?: string;
  regex?: string;
  n?: number;
  ms?: number;
  mb?: number;
  glob?: string;
  command?: string;
  pid?: string;
}

interface Expected {
  blocked_before_run?: boolean;
  reason_matches?: string;
  may_be_blocked?: boolean;
  status?: string;
  status_in?: string[];
  exit_code?: number;
  exit_code_in?: (number | null)[];
  not_exit_code?: number;
  signal_in?: (string | null)[];
  stdout?: string;
  stderr?: string;
  stdout_contains?: string;
  stdout_contains_2?: string;
  stdout_not_contains?: string;
  stderr_contains?: string;
  truncated?: boolean;
  killed_reason_matches_if_killed?: string;
  either?: Expected[];
  then?: { command: string } & Expected;
  never?: Never[];
}

interface Case {
  id: string;
  kind: 'intercept' | 'contain' | 'benign';
  command: string;
  setup?: {
    files?: { path: string; content: string }[];
    dirs?: string[];
    symlinks?: { path: string; target?: string; to?: string }[];
    host_files?: { path: string; content: string }[];
    request_env?: Record<string, string>;
    request_cwd?: string;
    parallel_other_tenant?: string;
  };
  needs?: string[];
  limits?: Limits;
  expected: Expected;
}

interface Run {
  result: CommandResult;
  started: boolean;
  tookMs: number;
}

const TENANT = 'cases';
const AT_ONCE = 3;
/** Checks that look at the whole machine or at time: their cases run alone. */
const ALONE = new Set(['other_session_fails', 'other_session_slower_than_ms', 'processes_at_peak_over', 'service_rss_growth_over_mb', 'result_later_than_ms', 'tcp_connection']);

/** Runs the cases against a real runner, without privileges unless YM_CASES_USER says otherwise. */
export const suite: Suite = (content) => attacks(content, process.env['YM_CASES_USER'] === 'root' ? 'root' : 'unprivileged');

/** The same as a user of choice; `root` keeps the caller's. */
export async function* attacks(content: unknown, user: 'unprivileged' | 'root'): AsyncGenerator<Verdict> {
  const { about, cases } = content as { about?: { defaults?: Limits }; cases: Case[] };
  const fixture = await startFixture({ user });
  try {
    const runner = new CaseRunner(fixture, about?.defaults ?? {});
    const alone = (one: Case): boolean => [...(one.expected.never ?? []), ...(one.expected.then?.never ?? [])].some(({ check }) => ALONE.has(check)) || one.setup?.parallel_other_tenant !== undefined;
    const together = cases.filter((one) => !alone(one));
    for (let i = 0; i < together.length; i += AT_ONCE) yield* await Promise.all(together.slice(i, i + AT_ONCE).map((one) => runner.judge(one)));
    for (const one of cases.filter(alone)) yield await runner.judge(one);
  } finally {
    await fixture.close();
  }
}

class CaseRunner {
  readonly #fixture: Fixture;
  readonly #defaults: Limits;
  #count = 0;

  constructor(fixture: Fixture, defaults: Limits) {
    this.#fixture = fixture;
    this.#defaults = defaults;
  }

  async judge(raw: Case): Promise<Verdict> {
    const missing = raw.needs?.find((need) => !this.#has(need));
    if (missing !== undefined) return { id: raw.id, ok: false, skipped: `needs ${missing}` };
    const number = ++this.#count;
    const workspace = `case-${number}`;
    const path = join(this.#fixture.workspaces, TENANT, workspace);
    const one = this.#fill(raw, path, number) as Case;
    if (one.kind === 'intercept') return this.#intercepted(one);
    try {
      return await this.#contained(one, workspace, path);
    } catch (error) {
      return { id: one.id, ok: false, expected: one.expected, got: String(error), why: 'the case could not be run' };
    }
  }

  #has(need: string): boolean {
    if (need === 'x86_64') return process.arch === 'x64';
    if (need === 'aarch64' || need === 'arm64') return process.arch === 'arm64';
    if (need === 'cgroup-memory') return this.#fixture.runner.status.probes.some(({ name, detail }) => name === 'memory' && detail.includes('cgroup'));
    // The runner's own watch on what a folder holds.
    if (need === 'disk-quota') return true;
    try {
      // The sandbox sees /usr, not what the caller's PATH adds.
      execFileSync('/bin/sh', ['-c', `command -v ${need.replace(/[^\w.-]/g, '')}`], { stdio: 'ignore', env: { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' } });
      return true;
    } catch {
      return false;
    }
  }

  #fill(value: unknown, path: string, number: number): unknown {
    const f = this.#fixture;
    const names: Record<string, string> = {
      WS: path,
      HOST: join(f.host, `case-${number}`),
      HOST_REL: join(f.host, `case-${number}`).slice(1),
      OTHER_WS: f.otherWorkspace,
      OTHER_NAME: 'private',
      OTHER_SECRET: f.otherSecret,
      PORT: String(f.port),
      UDS: f.udsPath,
      ABSTRACT: f.abstractSocket,
      SECRET: f.secret,
      SSH_SECRET: f.sshSecret,
      SERVICE_HOME: f.serviceHome,
      SA_TOKEN: `token-${f.secret}`,
      HOST_PID: String(f.decoy.pid),
      HOST_PROC_MARKER: f.decoyMarker,
      ID: `${process.pid}-${number}`,
    };
    const fill = (text: string): string =>
      text.replace(/\$\{REPEAT:(\d+):([^}]*)\}/g, (_all, n: string, x: string) => x.repeat(Number(n))).replace(/\$\{([A-Z_]+)\}/g, (all, name: string) => names[name] ?? all);
    if (typeof value === 'string') return fill(value);
    if (Array.isArray(value)) return value.map((item) => this.#fill(item, path, number));
    if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, item]) => [fill(key), this.#fill(item, path, number)]));
    return value;
  }

  #intercepted(one: Case): Verdict {
    const found = intercept(one.command, { workspace: '/workspace', cwd: '/workspace', home: '/home/agent' });
    const pattern = one.expected.reason_matches;
    const ok = found !== null && (pattern === undefined || regex(pattern).test(found.reason));
    return { id: one.id, ok, expected: one.expected, got: found, why: found === null ? 'it was not refused' : 'the reason does not match' };
  }

  async #contained(one: Case, workspace: string, path: string): Promise<Verdict> {
    const f = this.#fixture;
    const { setup = {}, expected } = one;
    f.folder(path);
    for (const dir of setup.dirs ?? []) f.folder(join(path, dir));
    for (const file of setup.files ?? []) f.write(join(path, file.path), file.content);
    for (const { path: at, target, to } of setup.symlinks ?? []) f.link(target ?? to ?? '', join(path, at));
    const host = join(f.host, workspace);
    f.folder(host);
    for (const file of setup.host_files ?? []) f.write(within(host, file.path), file.content);
    const never = [...(expected.never ?? [])];
    const changed = new Map(never.filter(({ check }) => check === 'host_file_changed').map(({ path: at }) => [at!, contentOf(at!)]));
    const connections = f.connections();
    const before = residentMb(f.runner.pid);
    let peakMb = before;
    let peakProcesses = 0;
    const markers = never.filter(({ check }) => check === 'processes_at_peak_over').map(({ marker }) => marker!);
    const watching = never.some(({ check }) => check === 'service_rss_growth_over_mb' || check === 'processes_at_peak_over');
    const watch = setInterval(() => {
      if (!watching) return;
      peakMb = Math.max(peakMb, residentMb(f.runner.pid));
      for (const marker of markers) peakProcesses = Math.max(peakProcesses, commandLines().filter((line) => line.includes(marker)).length);
    }, 50);
    const others: Promise<{ never: Never; run: Run }>[] = [];
    const main = this.#run(one.command, { workspace, limits: { ...this.#defaults, ...one.limits }, env: setup.request_env, cwd: setup.request_cwd });
    if (setup.parallel_other_tenant !== undefined) void this.#run(setup.parallel_other_tenant, { tenant: 'neighbour', workspace: `n-${workspace}` });
    const otherChecks = never.filter(({ check }) => check.startsWith('other_session'));
    for (const check of otherChecks) others.push(sleep(400).then(async () => ({ never: check, run: await this.#run(check.command!, { tenant: 'neighbour', workspace: `n-${workspace}` }) })));
    const run = await main;
    clearInterval(watch);

    const problems: string[] = [];
    const allowedBlock = expected.may_be_blocked === true && run.result.verdict.status === 'blocked';
    if (!allowedBlock) {
      if (expected.either === undefined) problems.push(...compare(expected, run));
      else if (expected.either.every((choice) => compare(choice, run).length > 0)) problems.push('none of the allowed outcomes');
    }
    if (one.kind === 'benign' && run.result.verdict.status === 'blocked') problems.push(`refused by ${run.result.verdict.rule}`);
    if (expected.then !== undefined) problems.push(...compare(expected.then, await this.#run(expected.then.command, { workspace })).map((text) => `then: ${text}`));
    const output = run.result.stdout + run.result.stderr;
    for (const check of never) {
      const seen = await this.#sees(check, { run, path, output, changed, connections, growth: peakMb - before, peakProcesses });
      if (seen) problems.push(`never: ${check.check} ${check.path ?? check.text ?? check.regex ?? check.marker ?? ''}`);
    }
    for (const other of others) {
      const { never: check, run: theirs } = await other;
      const failed = theirs.result.verdict.status !== 'ok' || theirs.result.verdict.exit_code !== 0;
      if (check.check === 'other_session_fails' && failed) problems.push(`never: the other session failed: ${theirs.result.verdict.reason}`);
      if (check.check === 'other_session_slower_than_ms' && (failed || theirs.tookMs > check.ms!)) problems.push(`never: the other session took ${theirs.tookMs} ms`);
    }
    const { stdout, stderr, verdict } = run.result;
    return { id: one.id, ok: problems.length === 0, expected, got: { stdout: stdout.slice(0, 400), stderr: stderr.slice(0, 400), verdict, took_ms: Math.round(run.tookMs) }, why: problems.join('; ') };
  }

  async #run(command: string, options: { tenant?: string; workspace: string; limits?: Limits; env?: Record<string, string> | undefined; cwd?: string | undefined }): Promise<Run> {
    const startedAt = performance.now();
    let started = false;
    const { tenant = TENANT, workspace, limits, env, cwd } = options;
    const result = await this.#fixture.runner.client.run(
      { tenant, workspace, command, ...(limits === undefined ? {} : { limits }), ...(env === undefined ? {} : { env }), ...(cwd === undefined ? {} : { cwd }) },
      { onStarted: () => (started = true) },
    );
    return { result, started, tookMs: performance.now() - startedAt };
  }

  async #sees(
    check: Never,
    seen: { run: Run; path: string; output: string; changed: Map<string, string | null>; connections: number; growth: number; peakProcesses: number },
  ): Promise<boolean> {
    const { run, path, output } = seen;
    switch (check.check) {
      case 'command_started':
        return run.started;
      case 'blocked':
        return run.result.verdict.status === 'blocked';
      case 'host_file_changed':
        return contentOf(check.path!) !== seen.changed.get(check.path!);
      case 'host_path_created':
        return existsSync(check.path!);
      case 'process_alive':
        await sleep((check.after_s ?? 0) * 1000);
        return commandLines().some((line) => line.includes(check.marker!));
      case 'tcp_connection':
        return this.#fixture.connections() > seen.connections;
      case 'output_contains':
        return output.includes(check.text!);
      case 'output_matches':
        return regex(check.regex!).test(run.result.stdout);
      case 'output_bytes_over':
        return Buffer.byteLength(output) > check.n!;
      case 'result_later_than_ms':
        return run.tookMs > check.ms!;
      case 'workspace_path_created':
        return existsSync(join(path, check.path!));
      case 'workspace_path_matches': {
        const glob = new RegExp(`^${check.glob!.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.')}$`);
        return readdirSync(path).some((name) => glob.test(name));
      }
      case 'workspace_file_changes_after_result': {
        const first = contentOf(join(path, check.path!));
        await sleep(400);
        return contentOf(join(path, check.path!)) !== first;
      }
      case 'workspace_lines_over':
        return (contentOf(join(path, check.path!)) ?? '').split('\n').length - 1 > check.n!;
      case 'processes_at_peak_over':
        return seen.peakProcesses > check.n!;
      case 'service_rss_growth_over_mb':
        return seen.growth > check.mb!;
      case 'install_attempted':
        return run.result.verdict.install !== undefined && run.result.verdict.install.outcome !== 'reported';
      case 'command_run_count_over':
        return run.result.verdict.install?.outcome === 'installed' && check.n! < 2;
      case 'host_process_ended':
        return this.#fixture.decoy.exitCode !== null || this.#fixture.decoy.signalCode !== null || !commandLines().some((line) => line.includes(this.#fixture.decoyMarker));
      case 'other_session_fails':
      case 'other_session_slower_than_ms':
        return false;
      default:
        throw new Error(`the check ${check.check} is not known`);
    }
  }
}

function compare(expected: Expected, { result, started }: Run): string[] {
  const { verdict, stdout, stderr } = result;
  const problems: string[] = [];
  const check = (ok: boolean, text: string): void => {
    if (!ok) problems.push(text);
  };
  if (expected.blocked_before_run === true) {
    check(verdict.status === 'blocked' && !started, 'it was not refused before it ran');
    if (expected.reason_matches !== undefined) check(regex(expected.reason_matches).test(verdict.reason ?? ''), 'the reason does not match');
    return problems;
  }
  const allowed = expected.status_in ?? (expected.status === undefined ? undefined : [expected.status]);
  check(verdict.status !== 'blocked', `refused by ${verdict.rule}: ${verdict.reason}`);
  if (allowed !== undefined) check(allowed.includes(verdict.status), `status ${verdict.status}`);
  else if (expected.stdout !== undefined || expected.exit_code !== undefined) check(verdict.status === 'ok', `status ${verdict.status}`);
  if (expected.exit_code !== undefined) check(verdict.exit_code === expected.exit_code, `exit code ${verdict.exit_code}`);
  if (expected.exit_code_in !== undefined) check(expected.exit_code_in.includes(verdict.exit_code), `exit code ${verdict.exit_code}`);
  if (expected.not_exit_code !== undefined) check(verdict.exit_code !== expected.not_exit_code, `exit code ${verdict.exit_code}`);
  if (expected.signal_in !== undefined) check(expected.signal_in.includes(verdict.signal), `signal ${verdict.signal}`);
  if (expected.stdout !== undefined) check(stdout === expected.stdout, 'stdout differs');
  if (expected.stderr !== undefined) check(stderr === expected.stderr, 'stderr differs');
  for (const text of [expected.stdout_contains, expected.stdout_contains_2]) if (text !== undefined) check(stdout.includes(text), `stdout lacks ${JSON.stringify(text)}`);
  if (expected.stderr_contains !== undefined) check(stderr.includes(expected.stderr_contains), 'stderr lacks a text');
  if (expected.stdout_not_contains !== undefined) check(!stdout.includes(expected.stdout_not_contains), 'stdout has what it must not');
  if (expected.truncated !== undefined) check(verdict.truncated === expected.truncated, `truncated ${verdict.truncated}`);
  if (expected.killed_reason_matches_if_killed !== undefined && verdict.status === 'killed') check(regex(expected.killed_reason_matches_if_killed).test(verdict.killed_reason ?? ''), `killed for ${verdict.killed_reason}`);
  return problems;
}

function regex(pattern: string): RegExp {
  return pattern.startsWith('(?i)') ? new RegExp(pattern.slice(4), 'i') : new RegExp(pattern);
}
