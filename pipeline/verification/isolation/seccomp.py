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

_CALLS: dict[str, tuple[int, int | None]] = {
    # to trace, read, signal or schedule other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "kcmp": (312, 272), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "move_pages": (279, 239), "migrate_pages": (256, 238), "ioprio_set": (251, 30),
    # sockets, a pair of them excepted, whose buffers stay small and pass no open files on, which nobody would see
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "setsockopt": (54, 208), "socket": (41, 198), "connect": (42, 203),
    "bind": (49, 200), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    # messages, semaphores and memory that outlive a process, or that others reach
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184), "mq_getsetattr": (245, 185), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "semctl": (66, 191),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
    # attributes of files, locks, and to be told of changes, about which Landlock says nothing
    "flock": (73, 32), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11),
    "llistxattr": (195, 12), "flistxattr": (196, 13), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    # calls in the kernel's own threads, past a filter, and code in the kernel
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "memfd_secret": (447, 447),
    # mounts, namespaces, and files by other names than paths
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "chroot": (161, 51), "setns": (308, 268), "unshare": (272, 97), "swapon": (167, 224),
    "swapoff": (168, 225), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "create_module": (174, None),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116),
    "iopl": (172, None), "ioperm": (173, None), "vhangup": (153, 58), "uselib": (134, None), "sysfs": (139, None),
    "nfsservctl": (180, 42), "lookup_dcookie": (212, 18),
    # refused by their arguments
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "socketpair": (53, 199), "clone": (56, 220), "clone3": (435, 435),
    "prlimit64": (302, 261), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274), "fcntl": (72, 25),
    "ioctl": (16, 29), "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "creat": (85, None),
    "mknod": (133, None), "mknodat": (259, 33), "truncate": (76, 45), "memfd_create": (319, 279),
}  # fmt: skip
"""Refused calls, with their numbers on x86_64 and on aarch64; None where there is none."""

NUMBERS = {
    "x86_64": {name: number for name, (number, _) in _CALLS.items()},
    "aarch64": {name: number for name, (_, number) in _CALLS.items() if number is not None},
}
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
