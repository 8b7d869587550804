import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { onFreePort, ServerProcess } from '@yardmaster/local-stack';

export interface Answer<Body = any> {
  status: number;
  body: Body;
  /** What the server says beside its answer: deprecations, fields that do nothing. */
  warnings: string[];
}

export interface Status {
  reason?: string;
  message?: string;
  details?: { causes?: { reason?: string; message?: string; field?: string }[] };
}

export interface ControlPlaneOptions {
  /** Paths of the programs. */
  etcd: string;
  apiserver: string;
  controllers?: string;
  scheduler?: string;
  /** Further arguments of the API server. */
  apiserverArgs?: readonly string[];
}

/** An object as a watch tells of it; `DELETED` with its last state. */
export type Change = 'ADDED' | 'MODIFIED' | 'DELETED';

const START_MS = 120_000;

/**
 * A real etcd and a real kube-apiserver on loopback, with RBAC and the admission plugins of a cluster. Unless asked
 * for, nothing acts on what is stored there: no controllers, no scheduler, no kubelet.
 */
export class ControlPlane {
  private readonly running: Record<string, ServerProcess> = {};
  private certificate: string | undefined;
  private agent = new Agent({ keepAlive: true, maxSockets: 16 });

  private constructor(
    readonly folder: string,
    private readonly options: ControlPlaneOptions,
    private readonly ports: { etcd: number; peer: number; api: number },
  ) {}

  static async start(options: ControlPlaneOptions): Promise<ControlPlane> {
    const folder = mkdtempSync(join(tmpdir(), 'yardmaster-cluster-'));
    const ports = { etcd: await freePort(), peer: await freePort(), api: await freePort() };
    const plane = new ControlPlane(folder, options, ports);
    try {
      plane.prepare();
      await plane.startEtcd();
      await plane.startApiServer();
      await plane.ready();
      if (options.controllers !== undefined || options.scheduler !== undefined) await plane.startActors();
      return plane;
    } catch (error) {
      await plane.stop().catch(() => {});
      throw error;
    }
  }

  get url(): string {
    return `https://127.0.0.1:${this.ports.api}`;
  }
  get kubeconfig(): string {
    return join(this.folder, 'kubeconfig');
  }
  /** What the API server's certificate is checked against; it makes that itself, at its first start. */
  get ca(): string {
    return (this.certificate ??= readFileSync(join(this.folder, 'certs/apiserver.crt'), 'utf8'));
  }

  private prepare(): void {
    mkdirSync(join(this.folder, 'certs'));
    execFileSync('openssl', ['genrsa', '-out', join(this.folder, 'sa.key'), '2048'], { stdio: 'ignore' });
    writeFileSync(join(this.folder, 'tokens.csv'), 'admin-token,admin,admin,system:masters\n', { mode: 0o600 });
    this.writeKubeconfig(this.kubeconfig, 'admin-token');
  }

  /** A kubeconfig that authenticates with a token, for this server or for what stands in front of it. */
  writeKubeconfig(file: string, token: string, server = this.url): void {
    const named = (what: object) => [{ name: 'it', ...what }];
    const text = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: named({
        cluster: { server, 'certificate-authority': join(this.folder, 'certs/apiserver.crt') },
      }),
      users: named({ user: { token } }),
      contexts: named({ context: { cluster: 'it', user: 'it' } }),
      'current-context': 'it',
    };
    writeFileSync(file, JSON.stringify(text), { mode: 0o600 });
  }

  private async launch(name: string, command: [string, ...string[]]): Promise<void> {
    this.running[name] = await ServerProcess.start({
      command,
      log: join(this.folder, `${name}.log`),
      cwd: this.folder,
      graceMs: 10_000,
      ...(name === 'etcd' ? { removeAtEnd: this.folder } : {}),
    });
  }

  private async startEtcd(): Promise<void> {
    const at = (port: number) => `http://127.0.0.1:${port}`;
    await this.launch('etcd', [
      this.options.etcd,
      ...['--data-dir', join(this.folder, 'etcd')],
      ...['--listen-client-urls', at(this.ports.etcd), '--advertise-client-urls', at(this.ports.etcd)],
      ...['--listen-peer-urls', at(this.ports.peer), '--initial-advertise-peer-urls', at(this.ports.peer)],
      ...['--initial-cluster', `default=${at(this.ports.peer)}`],
      // Nothing that is stored here must survive a power cut.
      '--unsafe-no-fsync',
    ]);
  }

  private async startApiServer(): Promise<void> {
    await this.launch('apiserver', [
      this.options.apiserver,
      `--etcd-servers=http://127.0.0.1:${this.ports.etcd}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${this.ports.api}`,
      '--cert-dir=certs',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--authorization-mode=Node,RBAC',
      '--token-auth-file=tokens.csv',
      '--service-account-issuer=https://kubernetes.default.svc',
      '--service-account-key-file=sa.key',
      '--service-account-signing-key-file=sa.key',
      '--enable-admission-plugins=NamespaceLifecycle,ServiceAccount,PodSecurity,LimitRanger,ResourceQuota,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook',
      '--allow-privileged=false',
      // It would ask itself through its own address, which nothing here does.
      '--endpoint-reconciler-type=none',
      ...(this.options.apiserverArgs ?? []),
    ]);
  }

  private async startActors(): Promise<void> {
    const { controllers, scheduler } = this.options;
    const common = [
      `--kubeconfig=${this.kubeconfig}`,
      '--leader-elect=false',
      '--secure-port=0',
      // One controller manager makes everything of all tests: at its usual rate it would be what they wait for.
      '--kube-api-qps=200',
      '--kube-api-burst=400',
    ];
    if (controllers !== undefined)
      await this.launch('controllers', [
        controllers,
        ...common,
        '--service-account-private-key-file=sa.key',
        '--root-ca-file=certs/apiserver.crt',
        '--use-service-account-credentials=true',
        '--concurrent-deployment-syncs=10',
        '--concurrent-replicaset-syncs=10',
        '--concurrent-gc-syncs=10',
      ]);
    if (scheduler !== undefined)
      await this.launch('scheduler', [
        scheduler,
        ...common,
        `--authentication-kubeconfig=${this.kubeconfig}`,
        `--authorization-kubeconfig=${this.kubeconfig}`,
      ]);
    if (controllers !== undefined) await this.acting();
  }

  /** Which program has ended without being asked to, with its last words. */
  private get dead(): string | undefined {
    const found = Object.entries(this.running).find(([, { running }]) => !running);
    return found === undefined ? undefined : `${found[0]} has ended:\n${found[1].lastWords(20)}`;
  }

  /** Resolves when the API server says that it is ready. */
  private ready(): Promise<void> {
    return this.until('apiserver', async () => {
      try {
        return (await this.api('GET', '/readyz')).status === 200;
      } catch {
        // It does not listen yet, or has not written its certificate.
        return false;
      }
    });
  }

  /** Resolves when controllers make what every namespace has. */
  private acting(): Promise<void> {
    return this.until('controllers', async () => {
      const account = await this.api('GET', '/api/v1/namespaces/default/serviceaccounts/default');
      return account.status === 200;
    });
  }

  private async until(program: string, does: () => Promise<boolean>): Promise<void> {
    const until = Date.now() + START_MS;
    while (!(await does())) {
      if (this.dead !== undefined) throw new Error(this.dead);
      if (Date.now() > until)
        throw new Error(
          `${program} does not do its work after ${START_MS / 1000} s:\n${this.running[program]?.lastWords(20)}`,
        );
      await sleep(100);
    }
  }

  /** Ends the API server (`kill`: as a power cut would) and starts it again, after `meanwhile`. */
  async restartApiServer(how: 'stop' | 'kill', meanwhile: () => Promise<void> = async () => {}): Promise<void> {
    await this.running['apiserver']![how]();
    await meanwhile();
    await this.startApiServer();
    await this.ready();
  }

  /** Makes etcd forget every revision but the last: a watch from an older one is answered with 410. */
  async compact(): Promise<number> {
    const ask = async (path: string, body: object) => {
      const response = await fetch(`http://127.0.0.1:${this.ports.etcd}/v3/${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      if (!response.ok) throw new Error(`etcd answers ${response.status} to ${path}: ${await response.text()}`);
      return (await response.json()) as { header: { revision: string } };
    };
    const { revision } = (await ask('maintenance/status', {})).header;
    await ask('kv/compaction', { revision, physical: true });
    return Number(revision);
  }

  /** One request as `as`, a user's name or the administrator; any status is an answer. */
  api<Body = any>(
    method: string,
    path: string,
    body?: unknown,
    { type = 'application/json', as }: { type?: string; as?: string } = {},
  ): Promise<Answer<Body>> {
    const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const sent = request(
        `${this.url}${path}`,
        {
          method,
          ca: this.ca,
          agent: this.agent,
          headers: {
            authorization: 'Bearer admin-token',
            ...(as === undefined ? {} : { 'impersonate-user': as }),
            ...(text === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(text) }),
          },
        },
        (response) => {
          let all = '';
          response
            .setEncoding('utf8')
            .on('data', (chunk: string) => (all += chunk))
            .on('end', () => {
              const json = response.headers['content-type']?.startsWith('application/json') ?? false;
              const warnings = (response.headers['warning'] as string | undefined)?.match(/"(?:[^"\\]|\\.)*"/g) ?? [];
              resolve({ status: response.statusCode!, body: (json ? JSON.parse(all) : all) as Body, warnings });
            })
            .on('error', reject);
        },
      );
      sent.on('error', reject).end(text);
    });
  }

  /** As `api`, for what must succeed: throws with the server's words. */
  async must<Body = any>(
    method: string,
    path: string,
    body?: unknown,
    options?: { type?: string; as?: string },
  ): Promise<Body> {
    const { status, body: answer } = await this.api<Body & Status>(method, path, body, options);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${answer.message ?? JSON.stringify(answer)}`);
    return answer;
  }

  /**
   * Follows a list: every object as it is now, then each change, in the order in which they happened and without a gap.
   * A watch that ends by itself has lost that, and what is thrown in `onChange` is a failure too: both reject when the
   * returned function is called, which ends the following.
   */
  async follow<Item>(path: string, onChange: (change: Change, item: Item) => void): Promise<() => Promise<void>> {
    const { items, metadata } = await this.must<{ items: Item[]; metadata: { resourceVersion: string } }>('GET', path);
    let problem: unknown;
    let stopped = false;
    const tell = (change: Change, item: Item) => {
      try {
        onChange(change, item);
      } catch (error) {
        problem ??= error;
      }
    };
    for (const item of items) tell('ADDED', item);
    const sent = request(
      `${this.url}${path}?watch=true&resourceVersion=${metadata.resourceVersion}&timeoutSeconds=7200`,
      { ca: this.ca, agent: false, headers: { authorization: 'Bearer admin-token' } },
      (response) => {
        let rest = '';
        response
          .setEncoding('utf8')
          .on('data', (chunk: string) => {
            const lines = (rest + chunk).split('\n');
            rest = lines.pop()!;
            for (const line of lines) {
              const { type, object } = JSON.parse(line) as { type: Change | 'ERROR'; object: Item };
              if (type === 'ERROR') problem ??= new Error(`the watch of ${path} failed: ${line}`);
              else tell(type, object);
            }
          })
          .on('close', () => {
            if (!stopped) problem ??= new Error(`the watch of ${path} has ended`);
          });
      },
    );
    sent.on('error', (error) => {
      if (!stopped) problem ??= error;
    });
    sent.end();
    return () => {
      stopped = true;
      sent.destroy();
      return problem === undefined ? Promise.resolve() : Promise.reject(problem as Error);
    };
  }

  /** A namespace with a Pod Security level. */
  async namespace(name: string, level: 'restricted' | 'baseline' | 'privileged'): Promise<void> {
    const labels = {
      'pod-security.kubernetes.io/enforce': level,
      'pod-security.kubernetes.io/enforce-version': 'latest',
    };
    await this.must('POST', '/api/v1/namespaces', { metadata: { name, labels } });
  }

  /** Runs a program that reads KUBECONFIG; throws with what it wrote to stderr. */
  async run(program: string, args: readonly string[], input?: string): Promise<string> {
    const started = promisify(execFile)(program, args, {
      maxBuffer: 64 << 20,
      timeout: 240_000,
      env: { PATH: process.env['PATH'], HOME: this.folder, KUBECONFIG: this.kubeconfig, HELM_NO_PLUGINS: '1' },
    });
    started.child.stdin?.end(input);
    try {
      return (await started).stdout;
    } catch (error) {
      throw new Error((error as { stderr?: string }).stderr || String(error), { cause: error });
    }
  }

  /** Ends it all; throws when one of its programs had ended before, whatever the tests made of that. */
  async stop(): Promise<void> {
    const { dead } = this;
    this.agent.destroy();
    for (const name of ['scheduler', 'controllers', 'apiserver', 'etcd']) await this.running[name]?.stop();
    rmSync(this.folder, { recursive: true, force: true });
    if (dead !== undefined) throw new Error(dead);
  }
}

/** A loopback port that nobody has now. */
export const freePort = () => onFreePort((port) => Promise.resolve(port));
