// The worker's side of the floors' processes, for roles of ours: the same calls, the same load, the same CPU count.

interface LoadOptions {
  inFlight: number;
  seconds: number;
}
export interface RoleOptions {
  natsUrl: string;
  user: string;
  pass: string;
}
type Operation = (slot: number) => Promise<void>;

const floors = (file: string) => import(new URL(`../../floors/lib/${file}`, import.meta.url).href);

/** Runs a role: `setUp` answers what one operation of the load is, or nothing when the role only serves. */
export async function role(setUp: (options: RoleOptions) => Promise<Operation | void>): Promise<void> {
  const [{ role: start }, { load }] = await Promise.all([floors('processes.mjs'), floors('load.mjs')]);
  start(async (options: RoleOptions) => {
    const operation = await setUp(options);
    return { load: (load_: LoadOptions) => load({ ...load_, operation }) };
  });
}

export const tenantOf = (slot: number) => `t${slot % 16}`;
