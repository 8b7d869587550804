import type { Invocation } from '../cli/invocation.js';
import type { Session } from '../connection/session.js';
import { stackFile, type StackFile, stackIn } from '../stack/checkout.js';
import { type JetStream, openJetStream, type StreamState } from '../stack/stack-servers.js';

export interface CheckResult {
  /** Stable; for programs. */
  id: string;
  title: string;
  state: 'ok' | 'failed' | 'skipped';
  /** What was found. */
  detail: string;
  /** What to change, where it failed. */
  remedy?: string;
}

/** Ends a check as failed, with what to change. */
export class Finding extends Error {
  constructor(
    detail: string,
    readonly remedy: string,
  ) {
    super(detail);
  }
}

/** Ends a check as not applicable here. */
export class Skip extends Error {}

export interface Check {
  id: string;
  title: string;
  /** What was found; throws Finding or Skip. Anything else that it throws is a failed check too. */
  look: (patient: Patient) => Promise<string> | string;
  remedy?: string;
}

/** What checks look at; each thing is opened once and only when it is asked for. */
export class Patient {
  readonly stack: StackFile | undefined = stackIn(stackFile());
  private nats: Promise<JetStream> | undefined;
  private found: Promise<StreamState[]> | undefined;
  private answers: Promise<Session> | undefined;

  constructor(private readonly invocation: Invocation) {}

  /** The API for the check whether it answers. */
  session(): Promise<Session> {
    return this.invocation.session();
  }

  /** The API for all other checks: one failure is told once. Throws Skip when it does not answer. */
  async api(): Promise<Session> {
    this.answers ??= this.session().then(async (session) => {
      await session.lookup.ready().catch((error: { class?: string }) => {
        // "Not ready" is an answer; its own check tells why.
        if (error.class === undefined || (error as { code?: string }).code === 'YM-UNREACHABLE') throw error;
      });
      return session;
    });
    return this.answers.catch(() => {
      throw new Skip('the API does not answer');
    });
  }

  /** The local stack, where it is what commands talk to. Throws Skip. */
  async localStack(): Promise<StackFile> {
    if (this.stack === undefined) throw new Skip('no local stack runs');
    const { settings } = await this.api();
    if (settings.stack === undefined) throw new Skip(`${settings.apiUrl} is not the local stack`);
    return this.stack;
  }

  async jetStream(): Promise<JetStream> {
    const { nats_url } = await this.localStack();
    return (this.nats ??= openJetStream(nats_url));
  }

  async streams(): Promise<StreamState[]> {
    const jetStream = await this.jetStream();
    return (this.found ??= jetStream.streams());
  }

  async close(): Promise<void> {
    const opened = await this.nats?.catch(() => undefined);
    await opened?.close();
  }
}

/** Longest that one check may take, in milliseconds. */
const CHECK_MS = 5_000;

/** Does all checks at once, and answers in their order. */
export async function examine(
  checks: (patient: Patient) => Check[] | Promise<Check[]>,
  invocation: Invocation,
): Promise<CheckResult[]> {
  const patient = new Patient(invocation);
  try {
    const all = await checks(patient);
    return await Promise.all(all.map((check) => result(check, patient)));
  } finally {
    await patient.close();
  }
}

async function result(check: Check, patient: Patient): Promise<CheckResult> {
  const { id, title, look, remedy } = check;
  let timer: NodeJS.Timeout | undefined;
  try {
    const slow = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer in ${CHECK_MS / 1000} s`)), CHECK_MS);
    });
    return { id, title, state: 'ok', detail: await Promise.race([Promise.resolve().then(() => look(patient)), slow]) };
  } catch (error) {
    if (error instanceof Skip) return { id, title, state: 'skipped', detail: error.message };
    const what = error instanceof Finding ? error.remedy : remedy;
    return {
      id,
      title,
      state: 'failed',
      detail: error instanceof Error ? error.message : String(error),
      ...(what === undefined ? {} : { remedy: what }),
    };
  } finally {
    clearTimeout(timer);
  }
}
