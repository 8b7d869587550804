import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const folder = new URL('../sandbox/seccomp/', import.meta.url).pathname;
const ARCHES = {
  x64: {
    audit: 0xc000003e,
    numbers: {
      read: 0,
      ioctl: 16,
      socket: 41,
      clone: 56,
      execve: 59,
      ptrace: 101,
      pivot_root: 155,
      mount: 165,
      umount2: 166,
      unshare: 272,
      setns: 308,
      perf_event_open: 298,
      bpf: 321,
      userfaultfd: 323,
      io_uring_setup: 425,
      clone3: 435,
      keyctl: 250,
      open_by_handle_at: 304,
      process_vm_readv: 310,
      kexec_load: 246,
      init_module: 175,
      pidfd_getfd: 438,
      move_mount: 429,
    },
  },
  arm64: {
    audit: 0xc00000b7,
    numbers: {
      read: 63,
      ioctl: 29,
      socket: 198,
      clone: 220,
      execve: 221,
      ptrace: 117,
      pivot_root: 41,
      mount: 40,
      umount2: 39,
      unshare: 97,
      setns: 268,
      perf_event_open: 241,
      bpf: 280,
      userfaultfd: 282,
      io_uring_setup: 425,
      clone3: 435,
      keyctl: 219,
      open_by_handle_at: 265,
      process_vm_readv: 270,
      kexec_load: 104,
      init_module: 105,
      pidfd_getfd: 438,
      move_mount: 429,
    },
  },
} as const;
const ALLOW = 0x7fff0000;
const errno = (code: number): number => 0x00050000 | code;
const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** Runs a classic BPF program over one system call, as the kernel does. */
function decide(program: Buffer, arch: number, nr: number, args: bigint[] = []): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(nr >>> 0, 0);
  data.writeUInt32LE(arch >>> 0, 4);
  args.forEach((arg, i) => data.writeBigUInt64LE(BigInt.asUintN(64, arg), 16 + 8 * i));
  let a = 0;
  for (let pc = 0; pc < program.length / 8; pc++) {
    const code = program.readUInt16LE(pc * 8);
    const jt = program[pc * 8 + 2]!;
    const jf = program[pc * 8 + 3]!;
    const k = program.readUInt32LE(pc * 8 + 4);
    switch (code) {
      case 0x20:
        a = data.readUInt32LE(k);
        break;
      case 0x54:
        a = (a & k) >>> 0;
        break;
      case 0x05:
        pc += k;
        break;
      case 0x15:
        pc += a === k ? jt : jf;
        break;
      case 0x25:
        pc += a > k ? jt : jf;
        break;
      case 0x35:
        pc += a >= k ? jt : jf;
        break;
      case 0x45:
        pc += (a & k) !== 0 ? jt : jf;
        break;
      case 0x06:
        return k >>> 0;
      default:
        throw new Error(`instruction ${code.toString(16)} is not known`);
    }
  }
  throw new Error('the program fell off its end');
}

describe.each(Object.entries(ARCHES))('seccomp filter for %s', (name, { audit, numbers }) => {
  const program = readFileSync(join(folder, `${name}.bpf`));
  const ask = (call: keyof typeof numbers, ...args: bigint[]): number => decide(program, audit, numbers[call], args);

  it('lets ordinary calls through', () => {
    expect(ask('read')).toBe(ALLOW);
    expect(ask('execve')).toBe(ALLOW);
    expect(ask('clone', 0x01200011n)).toBe(ALLOW);
    expect(ask('clone', 0x3d0f00n)).toBe(ALLOW);
    for (const family of [1n, 2n, 10n]) expect(ask('socket', family, 1n)).toBe(ALLOW);
    expect(ask('ioctl', 0n, 0x5401n)).toBe(ALLOW);
  });

  it.each([
    'ptrace',
    'pivot_root',
    'mount',
    'umount2',
    'unshare',
    'setns',
    'perf_event_open',
    'bpf',
    'userfaultfd',
    'io_uring_setup',
    'keyctl',
    'open_by_handle_at',
    'process_vm_readv',
    'kexec_load',
    'init_module',
    'pidfd_getfd',
    'move_mount',
  ] as const)('refuses %s', (call) => {
    expect(ask(call)).toBe(errno(EPERM));
  });

  it('refuses new namespaces through clone, and says that clone3 is missing', () => {
    for (const flag of [0x00020000n, 0x02000000n, 0x04000000n, 0x08000000n, 0x10000000n, 0x20000000n, 0x40000000n])
      expect(ask('clone', flag | 17n)).toBe(errno(EPERM));
    expect(ask('clone3')).toBe(errno(ENOSYS));
  });

  it('refuses pushing characters into a terminal, whatever the high bits of the request say', () => {
    expect(ask('ioctl', 0n, 0x5412n)).toBe(errno(EPERM));
    expect(ask('ioctl', 0n, 0xffffffff00005412n)).toBe(errno(EPERM));
    expect(ask('ioctl', 0n, 0x541cn)).toBe(errno(EPERM));
  });

  it('refuses packet, netlink, vsock, kernel crypto and all other families, and raw sockets', () => {
    for (let family = 0n; family < 64n; family++) {
      if ([1n, 2n, 10n].includes(family)) continue;
      expect(ask('socket', family, 1n)).toBe(errno(EAFNOSUPPORT));
      expect(ask('socket', family | (1n << 40n), 1n)).toBe(errno(EAFNOSUPPORT));
    }
    expect(ask('socket', 2n, 3n)).toBe(errno(EPERM));
    expect(ask('socket', 2n, 3n | 0o2000000n)).toBe(errno(EPERM));
  });

  it('ends a process that calls with the numbers of another architecture', () => {
    const kill = [0x00000000, 0x80000000];
    expect(kill).toContain(decide(program, 0x40000003, 11));
    for (const other of Object.values(ARCHES))
      if (other.audit !== audit) expect(kill).toContain(decide(program, other.audit, 0));
    if (name === 'x64') expect(kill).toContain(decide(program, audit, 0x40000000 + 101));
  });

  it('is what the committed script makes, where the library of that version is there', (context) => {
    const out = mkdtempSync(join(tmpdir(), 'yardmaster-seccomp-'));
    try {
      let version = '';
      try {
        const code =
          "import ctypes\nclass V(ctypes.Structure): _fields_=[(n,ctypes.c_uint) for n in 'abc']\nl=ctypes.CDLL('libseccomp.so.2');l.seccomp_version.restype=ctypes.POINTER(V);v=l.seccomp_version().contents;print(f'{v.a}.{v.b}.{v.c}')";
        version = execFileSync('/usr/bin/python3', ['-c', code], {
          encoding: 'utf8',
          stdio: ['ignore', 'pipe', 'ignore'],
        }).trim();
      } catch {
        // no Python or no library
      }
      if (version !== readFileSync(join(folder, 'VERSION'), 'utf8').trim())
        return context.skip(`needs libseccomp of the committed version, found ${version || 'none'}`);
      execFileSync('/usr/bin/python3', [join(folder, 'generate.py'), out]);
      expect(readFileSync(join(out, `${name}.bpf`)).equals(program)).toBe(true);
    } finally {
      rmSync(out, { recursive: true, force: true });
    }
  });
});
