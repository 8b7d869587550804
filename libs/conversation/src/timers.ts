import type { Redis } from 'ioredis';
import { keys } from './keys.js';
import { call, command } from './redis-connection.js';

/** Things to do later (approval expiry, deadlines); the leader asks what is due. */
export class Timers {
  constructor(private readonly redis: Redis) {}

  /** Sets, or moves, the timer of this name. */
  async add(member: string, inMs: number): Promise<void> {
    await call(this.redis, 'timer_add', [keys.timers], [member, Math.max(0, Math.round(inMs))]);
  }

  /** What is due. Each comes again after `hideMs` unless `done` is called: nothing is lost with the one who asked. */
  async due(limit = 100, hideMs = 30_000): Promise<string[]> {
    return (await call(this.redis, 'timer_due', [keys.timers], [limit, hideMs])) as string[];
  }

  async done(...members: string[]): Promise<void> {
    if (members.length > 0) await command(this.redis.zrem(keys.timers, ...members));
  }
}

/** A lease that one process of many holds. */
export class Leadership {
  constructor(
    private readonly redis: Redis,
    private readonly owner: string,
  ) {}

  /** Takes or renews the lease; true while it is ours. Call it about three times a lease. */
  async lead(name: string, leaseMs: number): Promise<boolean> {
    const [mine] = (await call(this.redis, 'lead', [keys.lead(name)], [this.owner, leaseMs])) as [number];
    return mine === 1;
  }

  /** Gives the lease up at once. */
  async resign(name: string): Promise<void> {
    await call(this.redis, 'resign', [keys.lead(name)], [this.owner]);
  }
}
