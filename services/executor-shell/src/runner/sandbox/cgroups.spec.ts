import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Cgroups } from './cgroups.js';

let root = '';
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'yardmaster-cgroups-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

// A folder stands in for the kernel's file system: what is written where is what counts.
describe('cgroups', () => {
  it('version 2: limits, swap, one fate for the whole group, and what was used', () => {
    const mount = join(root, 'v2');
    mkdirSync(join(mount, 'pod'), { recursive: true });
    writeFileSync(join(mount, 'cgroup.controllers'), 'cpu memory pids');
    const cgroups = Cgroups.detect(mount, '0::/pod\n');
    if (typeof cgroups === 'string') throw new Error(cgroups);
    expect(cgroups.version).toBe(2);
    expect(readFileSync(join(mount, 'pod', 'cgroup.subtree_control'), 'utf8')).toContain('cpu');
    const group = cgroups.create('one', { memoryMb: 64, pids: 32 });
    const dir = join(mount, 'pod', `yardmaster-shell-${process.pid}`, 'one');
    const read = (name: string): string => readFileSync(join(dir, name), 'utf8');
    expect([read('memory.max'), read('memory.swap.max'), read('memory.oom.group'), read('pids.max')]).toEqual([
      '67108864',
      '0',
      '1',
      '36',
    ]);
    expect(group.joinFiles).toEqual([join(dir, 'cgroup.procs')]);
    writeFileSync(join(dir, 'memory.peak'), '123\n');
    writeFileSync(join(dir, 'cpu.stat'), 'usage_usec 2500\nuser_usec 1\n');
    writeFileSync(join(dir, 'memory.events'), 'low 0\noom 1\noom_kill 2\n');
    expect(group.usage()).toEqual({ peakBytes: 123, cpuMs: 2.5, oomKills: 2 });
  });

  it('removes what a runner that is gone has left', () => {
    const mount = join(root, 'reap');
    mkdirSync(join(mount, 'yardmaster-shell-999999999', 'left'), { recursive: true });
    writeFileSync(join(mount, 'cgroup.controllers'), 'memory pids');
    Cgroups.detect(mount, '0::/\n');
    expect(existsSync(join(mount, 'yardmaster-shell-999999999'))).toBe(false);
  });

  it('says why there are none', () => {
    expect(Cgroups.detect(join(root, 'missing'), '')).toMatch(/no memory controller/);
  });
});
