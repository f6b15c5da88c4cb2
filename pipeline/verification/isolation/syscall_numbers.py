"""Numbers of the system calls that `seccomp` looks at, as Linux 6.5 has them (`asm/unistd.h`), by processor."""

from __future__ import annotations

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
