"""A filter of system calls (seccomp) for what Landlock leaves: sockets of every kind, other processes, file attributes.

Landlock decides about paths, which a filter can't read; the filter about calls, all of which it sees. It names what is
refused, as what Python and torch call can't be listed; a call that is newer than this list does not exist, so that
libraries fall back to an older one. Source: https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
import sys
from collections.abc import Sequence

NEWEST = 451
"""The newest call that is known here, of any processor."""

SECCOMP = {"x86_64": 317, "aarch64": 277}
"""The call that installs a filter."""

_X86_64 = {
    # to trace, read, signal or schedule other processes
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "kcmp": 312, "process_madvise": 440, "process_mrelease": 448, "move_pages": 279,
    "migrate_pages": 256, "ioprio_set": 251,
    # sockets, a pair of them excepted, whose buffers stay small and pass no open files on, which nobody would see
    "sendmsg": 46, "sendmmsg": 307, "setsockopt": 54, "socket": 41, "connect": 42, "bind": 49, "listen": 50,
    "accept": 43, "accept4": 288,
    # messages, semaphores and memory that outlive a process, or that others reach
    "mq_open": 240, "mq_unlink": 241, "mq_timedsend": 242, "mq_timedreceive": 243, "mq_notify": 244,
    "mq_getsetattr": 245, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "semget": 64, "semop": 65,
    "semtimedop": 220, "semctl": 66, "shmget": 29, "shmat": 30, "shmctl": 31, "add_key": 248, "request_key": 249,
    "keyctl": 250,
    # attributes of files, locks, and to be told of changes, about which Landlock says nothing
    "flock": 73, "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "getxattr": 191, "lgetxattr": 192, "fgetxattr": 193, "listxattr": 194, "llistxattr": 195,
    "flistxattr": 196, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "inotify_init": 253,
    "inotify_init1": 294, "inotify_add_watch": 254, "fanotify_init": 300, "fanotify_mark": 301,
    # calls in the kernel's own threads, past a filter, and code in the kernel
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "memfd_secret": 447,
    # mounts, namespaces, and files by other names than paths
    "mount": 165, "umount2": 166, "pivot_root": 155, "move_mount": 429, "open_tree": 428, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "chroot": 161, "setns": 308,
    "unshare": 272, "swapon": 167, "swapoff": 168, "name_to_handle_at": 303, "open_by_handle_at": 304,
    # the machine
    "init_module": 175, "finit_module": 313, "delete_module": 176, "create_module": 174, "kexec_load": 246,
    "kexec_file_load": 320, "reboot": 169, "sethostname": 170, "setdomainname": 171, "settimeofday": 164,
    "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "acct": 163, "quotactl": 179, "quotactl_fd": 443,
    "syslog": 103, "iopl": 172, "ioperm": 173, "vhangup": 153, "uselib": 134, "sysfs": 139, "nfsservctl": 180,
    "lookup_dcookie": 212,
    # refused by their arguments
    "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "socketpair": 53,
    "clone": 56, "clone3": 435, "prlimit64": 302, "setpriority": 141, "sched_setaffinity": 203,
    "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314, "fcntl": 72, "ioctl": 16, "open": 2,
    "openat": 257, "openat2": 437, "creat": 85, "mknod": 133, "mknodat": 259, "truncate": 76, "memfd_create": 319,
}  # fmt: skip

_AARCH64 = {
    # to trace, read, signal or schedule other processes
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_open": 434, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "kcmp": 272, "process_madvise": 440, "process_mrelease": 448, "move_pages": 239,
    "migrate_pages": 238, "ioprio_set": 30,
    # sockets, a pair of them excepted, whose buffers stay small and pass no open files on, which nobody would see
    "sendmsg": 211, "sendmmsg": 269, "setsockopt": 208, "socket": 198, "connect": 203, "bind": 200, "listen": 201,
    "accept": 202, "accept4": 242,
    # messages, semaphores and memory that outlive a process, or that others reach
    "mq_open": 180, "mq_unlink": 181, "mq_timedsend": 182, "mq_timedreceive": 183, "mq_notify": 184,
    "mq_getsetattr": 185, "msgget": 186, "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "semget": 190, "semop": 193,
    "semtimedop": 192, "semctl": 191, "shmget": 194, "shmat": 196, "shmctl": 195, "add_key": 217,
    "request_key": 218, "keyctl": 219,
    # attributes of files, locks, and to be told of changes, about which Landlock says nothing
    "flock": 32, "fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54, "setxattr": 5, "lsetxattr": 6,
    "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "getxattr": 8, "lgetxattr": 9,
    "fgetxattr": 10, "listxattr": 11, "llistxattr": 12, "flistxattr": 13, "utimensat": 88, "inotify_init1": 26,
    "inotify_add_watch": 27, "fanotify_init": 262, "fanotify_mark": 263,
    # calls in the kernel's own threads, past a filter, and code in the kernel
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "memfd_secret": 447,
    # mounts, namespaces, and files by other names than paths
    "mount": 40, "umount2": 39, "pivot_root": 41, "move_mount": 429, "open_tree": 428, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "chroot": 51, "setns": 268,
    "unshare": 97, "swapon": 224, "swapoff": 225, "name_to_handle_at": 264, "open_by_handle_at": 265,
    # the machine
    "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
    "reboot": 142, "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "clock_settime": 112,
    "clock_adjtime": 266, "adjtimex": 171, "acct": 89, "quotactl": 60, "quotactl_fd": 443, "syslog": 116,
    "vhangup": 58, "nfsservctl": 42, "lookup_dcookie": 18,
    # refused by their arguments
    "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "socketpair": 199,
    "clone": 220, "clone3": 435, "prlimit64": 261, "setpriority": 140, "sched_setaffinity": 122,
    "sched_setscheduler": 119, "sched_setparam": 118, "sched_setattr": 274, "fcntl": 25, "ioctl": 29,
    "openat": 56, "openat2": 437, "mknodat": 33, "truncate": 45, "memfd_create": 279,
}  # fmt: skip

NUMBERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
"""The numbers of calls by processor, as `platform.machine` names it."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""As the kernel names them (AUDIT_ARCH_*), for programs of 64 bits."""
_X32 = 0x40000000
"""Numbers from here on are those of another interface of x86_64."""

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_SPEC_ALLOW = 4
"""No mitigations beyond those of other processes, which would slow all down."""
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
"""Where a call's number and architecture are, in the data that a filter sees; its arguments begin at 16."""

_NAMESPACES = 0x00000080 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""Flags of `clone` for new namespaces; 0x80 is no flag of it, but of its successor."""
_SIBLING, _THREAD, _FILES = 0x00008000, 0x00010000, 0x00000400
"""Flags of `clone`: for a process beside the one that makes it, CLONE_PARENT, for a thread, and for the same files."""
_SET_ID = 0o6000
"""The bits of a file's mode with which it runs with its owner's or its group's rights."""
_MAKES = os.O_CREAT | 0o20000000
"""The flags of `open` with which its mode counts, __O_TMPFILE among them."""
_COMMANDS = (fcntl.F_SETOWN, 15, 10, 6, 7, 37, 38, 1024, 1026, 1031) if sys.platform == "linux" else ()
"""`fcntl` commands by which the system signals another process, F_SETOWN_EX and F_SETSIG among them; locks and leases
on files, for which others wait, of a description too; F_NOTIFY; and F_SETPIPE_SZ, memory in no process's account."""
_OWNER_CONTROLS = (0x8901, 0x8902)
_KIND = 0xF
"""The bits of a socket's type without its flags."""

Instruction = tuple[int, int, int, int]


def _argument(index: int) -> Instruction:
    """Loads the lower half of an argument."""
    return (_LOAD, 0, 0, 16 + 8 * index + (0 if sys.byteorder == "little" else 4))


def _refuse(error: int = errno.EPERM) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | error)


_PASS: Instruction = (_RETURN, 0, 0, _ALLOW)


def _only(index: int, allowed: Sequence[int], mask: int | None = None) -> list[Instruction]:
    """Allows a call whose argument, after the mask, is among these values."""
    block = [_argument(index), *([(_AND, 0, 0, mask)] if mask is not None else [])]
    for value in allowed:
        block += [(_EQUAL, 0, 1, value & 0xFFFFFFFF), _PASS]
    return [*block, _refuse()]


def _never(index: int, refused: Sequence[int]) -> list[Instruction]:
    """Refuses a call whose argument is among these values."""
    block = [_argument(index)]
    for value in refused:
        block += [(_EQUAL, 0, 1, value), _refuse()]
    return [*block, _PASS]


def _all_of(*tests: tuple[int, int, int | None]) -> list[Instruction]:
    """Allows a call all of whose arguments have these values: index, value, mask."""
    block: list[Instruction] = []
    for index, value, mask in tests:
        block += [_argument(index), *([(_AND, 0, 0, mask)] if mask is not None else [])]
        block += [(_EQUAL, 1, 0, value), _refuse()]
    return [*block, _PASS]


def _open(index: int, *, truncation: bool) -> list[Instruction]:
    """Allows to open a file, with flags in this argument and a mode in the next, but not to make one of set-id bits."""
    block: list[Instruction] = []
    if truncation:  # to open a file for reading can empty it
        block += [_argument(index), (_AND, 0, 0, os.O_TRUNC | os.O_ACCMODE)]
        for value in (os.O_TRUNC, os.O_TRUNC | os.O_ACCMODE):
            block += [(_EQUAL, 0, 1, value), _refuse()]
    block += [_argument(index), (_AND, 0, 0, _MAKES), (_EQUAL, 0, 1, 0), _PASS]
    return [*block, *_all_of((index + 1, 0, _SET_ID))]


def _conditions(me: int, *, signals: bool, truncation: bool) -> dict[str, list[Instruction]]:
    """The calls that depend on their arguments; see `program`."""
    found = {
        # A thread with open files of its own would hide them from the warden.
        "clone": [
            *(_argument(0), (_AND, 0, 0, (_NAMESPACES & ~0x80) | _SIBLING), (_EQUAL, 1, 0, 0), _refuse()),
            *(_argument(0), (_AND, 0, 0, _THREAD | _FILES), (_EQUAL, 0, 1, _THREAD), _refuse(), _PASS),
        ],
        "clone3": [_refuse(errno.ENOSYS)],  # its flags are out of a filter's sight; the C library then uses clone
        "openat2": [_refuse(errno.ENOSYS)],  # likewise
        "memfd_create": [_refuse(errno.ENOSYS)],  # memory that is in no process's account
        # A datagram socket of a pair could still send to any address.
        "socketpair": _all_of((0, socket.AF_UNIX, None), (1, socket.SOCK_STREAM, _KIND)),
        "fcntl": _never(1, _COMMANDS),
        "ioctl": _never(1, _OWNER_CONTROLS),
        "open": _open(1, truncation=truncation),
        "openat": _open(2, truncation=truncation),
        "creat": _all_of((1, 0, _SET_ID)),
        "mknod": _all_of((1, 0, _SET_ID)),
        "mknodat": _all_of((2, 0, _SET_ID)),
        "setpriority": _all_of((0, os.PRIO_PROCESS, None), (1, 0, None)),
    }
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        found[name] = _only(0, [0])
    if signals:
        for name in ("kill", "rt_sigqueueinfo"):
            found[name] = _only(0, [me, 0] if name == "kill" else [me])
        for name in ("tgkill", "rt_tgsigqueueinfo"):
            found[name] = _only(0, [me])
        found["tkill"] = [_refuse()]
    if truncation:
        found["truncate"] = [_refuse()]
    return found


def program(architecture: str, me: int, *, signals: bool, truncation: bool) -> bytes:
    """The filter for a process, as instructions of the kernel's.

    Args:
        architecture: The processor's, as `platform.machine` names it.
        me: The number of the process, which may signal itself.
        signals: Whether to refuse signals to others, as Landlock does not.
        truncation: Whether to refuse to empty a file that may only be read, as Landlock does not.
    """
    numbers = NUMBERS[architecture]
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[architecture]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _refuse(),
        (_AT_LEAST, 0, 1, NEWEST + 1),
        _refuse(errno.ENOSYS),
    ]
    conditions = _conditions(me, signals=signals, truncation=truncation)
    for name, block in conditions.items():
        if name in numbers:
            code += [(_EQUAL, 0, len(block), numbers[name]), *block]
    for number in sorted(number for name, number in numbers.items() if name not in CONDITIONAL):
        code += [(_EQUAL, 0, 1, number), _refuse()]
    return b"".join(struct.pack("=HBBI", *each) for each in [*code, _PASS])


CONDITIONAL = frozenset(_conditions(1, signals=True, truncation=True))
"""Calls that are not always refused."""


def available() -> bool:
    """Whether this system filters the system calls of a process that asks for it."""
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES or sys.maxsize < 2**32:
        return False
    number, action = ctypes.c_long(SECCOMP[platform.machine()]), ctypes.c_uint32(_ERRNO)
    libc = ctypes.CDLL(None, use_errno=True)
    return not libc.syscall(number, ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action))


def restrict(*, signals: bool, truncation: bool) -> None:
    """Filters what this process calls from here on, and all that it starts; see `program`.

    Raises:
        OSError: The system refuses it.
    """
    machine = platform.machine()
    code = program(machine, os.getpid(), signals=signals, truncation=truncation)
    kept = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    number = SECCOMP[machine]
    if libc.syscall(ctypes.c_long(number), ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_SPEC_ALLOW), filter_):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
