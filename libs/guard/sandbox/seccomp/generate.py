#!/usr/bin/env python3
"""Writes the seccomp filters of the sandbox (x64.bpf, arm64.bpf) with libseccomp, which knows the numbers of both architectures.

Usage: generate.py [OUTPUT_FOLDER]. Needs libseccomp.so.2 (Debian: libseccomp2), no compiler.
What is not named is allowed: the namespaces decide what can be reached, the filter closes kernel surface behind them.
"""
import ctypes
import os
import sys

ALLOW = 0x7FFF0000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
ERRNO = lambda code: 0x00050000 | code
ARCHES = {"x64": 0xC000003E, "arm64": 0xC00000B7}
NE, LT, LE, EQ, GE, GT, MASKED_EQ = 1, 2, 3, 4, 5, 6, 7
CLONE_NEW = {"NEWNS": 0x00020000, "NEWCGROUP": 0x02000000, "NEWUTS": 0x04000000, "NEWIPC": 0x08000000, "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000, "NEWTIME": 0x80}
LOW32 = 0xFFFFFFFF

DENY = """
mount umount2 pivot_root move_mount open_tree fsopen fsmount fsconfig fspick mount_setattr chroot
unshare setns ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
keyctl add_key request_key bpf perf_event_open userfaultfd lookup_dcookie
io_uring_setup io_uring_enter io_uring_register
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff syslog
open_by_handle_at name_to_handle_at fanotify_init quotactl acct vhangup nfsservctl
settimeofday clock_settime clock_adjtime adjtimex stime iopl ioperm modify_ldt personality
move_pages mbind migrate_pages set_mempolicy
""".split()
# glibc and Go fall back to clone when clone3 is "not there"; its flags lie in memory that a filter cannot read.
MISSING = ["clone3", "memfd_secret"]
# Families a command may use: unix, IPv4, IPv6 (in a network namespace with nothing but loopback).
FAMILIES = [1, 2, 10]


class Cmp(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def library():
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_init.argtypes = [ctypes.c_uint32]
    for name in ("seccomp_arch_add", "seccomp_arch_remove"):
        getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Cmp)]
    lib.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.seccomp_release.argtypes = [ctypes.c_void_p]
    lib.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    return lib


def build(lib, arch, path):
    ctx = lib.seccomp_init(ALLOW)
    native = 0  # SCMP_ARCH_NATIVE
    if lib.seccomp_arch_add(ctx, arch) not in (0, -17):
        raise SystemExit("libseccomp does not know this architecture")
    for other in ARCHES.values():
        if other != arch:
            lib.seccomp_arch_remove(ctx, other)

    def rule(action, name, *compare):
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if number == -1:
            return
        array = (Cmp * len(compare))(*compare)
        result = lib.seccomp_rule_add_array(ctx, action, number, len(compare), array)
        # A system call that this architecture lacks is no error.
        if result not in (0, -33, -22):
            raise SystemExit(f"{name}: libseccomp answered {result}")

    for name in DENY:
        rule(ERRNO(EPERM), name)
    for name in MISSING:
        rule(ERRNO(ENOSYS), name)
    for flag in CLONE_NEW.values():
        if flag != CLONE_NEW["NEWTIME"]:  # in clone these bits are the exit signal
            rule(ERRNO(EPERM), "clone", Cmp(0, MASKED_EQ, flag, flag))
    # The kernel looks at the low 32 bits of an ioctl request only.
    for request in (0x5412, 0x541C):  # TIOCSTI, TIOCLINUX
        rule(ERRNO(EPERM), "ioctl", Cmp(1, MASKED_EQ, LOW32, request))
    last = 0
    for family in FAMILIES + [1 << 31]:
        for number in range(last, min(family, 64)):
            rule(ERRNO(EAFNOSUPPORT), "socket", Cmp(0, MASKED_EQ, LOW32, number))
        last = family + 1
    # SOCK_RAW needs a capability that nobody has; refused here as well (type is arg 1 without its flags).
    rule(ERRNO(EPERM), "socket", Cmp(1, MASKED_EQ, 0xF, 3))
    with open(path, "wb") as out:
        if lib.seccomp_export_bpf(ctx, out.fileno()) != 0:
            raise SystemExit("libseccomp could not write the filter")
    lib.seccomp_release(ctx)


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    lib = library()
    for arch_name, arch in ARCHES.items():
        build(lib, arch, os.path.join(folder, f"{arch_name}.bpf"))
