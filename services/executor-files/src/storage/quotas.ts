import { refusal } from '../refusal.js';
import { measure, type Usage } from './measure.js';

/** What all workspaces of a tenant may hold together; 0 is no limit. */
export type QuotaLimits = Usage;

interface Account extends Usage {
  /** `-Infinity`: never. */
  measuredAt: number;
  tookMs: number;
  measuring: Promise<void> | undefined;
}

/** Commands write past us, so what we count is measured anew after so long, in milliseconds. */
const MEASURE_AGAIN_MS = 60_000;
/** Before a refusal the tenant is measured, unless that was done so recently: something may have been deleted. */
const RECENT_MS = 1_000;
/** Measuring takes at most one part in so many of the time. */
const SHARE = 20;
/** A call waits so long for a measurement. What is counted by then is less than there is, never more. */
const PATIENCE_MS = 2_000;

/** Counts what tenants hold, by measuring and by what is written here. */
export class Quotas {
  readonly #accounts = new Map<string, Account>();

  constructor(
    private readonly root: string,
    private readonly limits: QuotaLimits,
  ) {}

  /** Counts what is going to be written. Throws `quota` when it does not fit; what shrinks always fits. */
  async take(tenant: string, bytes: number, files: number): Promise<void> {
    if (this.#unlimited()) return;
    const account = await this.#fitting(tenant, bytes, files);
    account.bytes += bytes;
    account.files += files;
  }

  /** Throws `quota` when it would not fit. */
  async fits(tenant: string, bytes: number, files: number): Promise<void> {
    if (!this.#unlimited()) await this.#fitting(tenant, bytes, files);
  }

  /** Counts what became free, or was not written after all. */
  give(tenant: string, bytes: number, files: number): void {
    const account = this.#accounts.get(tenant);
    if (account === undefined) return;
    account.bytes -= bytes;
    account.files -= files;
  }

  #unlimited(): boolean {
    return this.limits.bytes === 0 && this.limits.files === 0;
  }

  async #fitting(tenant: string, bytes: number, files: number): Promise<Account> {
    const account = await this.#of(tenant);
    const age = () => performance.now() - account.measuredAt;
    if (this.#over(account, bytes, files) && age() > Math.max(RECENT_MS, account.tookMs))
      await this.#measure(tenant, account);
    const refused = this.#over(account, bytes, files);
    if (refused !== undefined) throw refused;
    return account;
  }

  async #of(tenant: string): Promise<Account> {
    let account = this.#accounts.get(tenant);
    if (account === undefined) {
      account = { bytes: 0, files: 0, measuredAt: -Infinity, tookMs: 0, measuring: undefined };
      this.#accounts.set(tenant, account);
    }
    const age = performance.now() - account.measuredAt;
    if (age === Infinity) await this.#measure(tenant, account);
    else if (age > Math.max(MEASURE_AGAIN_MS, account.tookMs * SHARE))
      this.#measure(tenant, account).catch(() => undefined);
    return account;
  }

  /** Resolves when the tenant is measured or the patience is over; then the measurement goes on alone. */
  async #measure(tenant: string, account: Account): Promise<void> {
    const counted: Usage = { bytes: 0, files: 0 };
    const startedAt = performance.now();
    account.measuring ??= measure(this.root, tenant, counted)
      .then(() => {
        const now = performance.now();
        Object.assign(account, counted, { measuredAt: now, tookMs: now - startedAt });
      })
      .finally(() => (account.measuring = undefined));
    // A failure after the patience is over has nobody to tell; the next call measures again.
    account.measuring.catch(() => undefined);
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => (timer = setTimeout(resolve, PATIENCE_MS)));
    await Promise.race([account.measuring, patience]).finally(() => clearTimeout(timer));
    if (account.measuredAt === -Infinity) Object.assign(account, counted, { measuredAt: performance.now() });
  }

  #over(usage: Usage, bytes: number, files: number) {
    const { limits } = this;
    if (limits.bytes > 0 && bytes > 0 && usage.bytes + bytes > limits.bytes)
      return full('bytes', 'bytes', usage.bytes, bytes, limits.bytes);
    if (limits.files > 0 && files > 0 && usage.files + files > limits.files)
      return full('files', 'files and folders', usage.files, files, limits.files);
    return undefined;
  }
}

const full = (unit: string, words: string, used: number, needed: number, limit: number) =>
  refusal(
    'quota',
    `Nothing was written: the workspaces hold ${used} of ${limit} ${words}, and this needs ${needed} more. Delete what is not needed.`,
    { used, needed, limit, unit },
  );
