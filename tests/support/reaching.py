"""What a task's code may try to reach beyond its cell: each is a snippet that ends without an error if it succeeds."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.support.paths import PROJECT

_LIBC = """
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def system(number, *args):
    if libc.syscall(ctypes.c_long(number), *args) < 0:
        raise OSError(ctypes.get_errno(), str(number))
"""

FILES = {
    "reads a file": "open(file).read()",
    "reads it through a link": "os.symlink(file, f'{temp}/link'); open(f'{temp}/link').read()",
    "reads it under another name": "os.link(file, f'{temp}/twin'); open(f'{temp}/twin').read()",
    "reads it from a child": "assert not os.system(f'cat {file} > /dev/null')",
    "reads it in a thread": """
        found = []
        thread = threading.Thread(target=lambda: found.append(open(file).read()))
        threading.excepthook = lambda args: found.append(args.exc_value)
        thread.start(); thread.join()
        if not isinstance(found[0], str): raise found[0]
    """,
    "lists a folder": "os.listdir(folder)",
    "writes to a file": "open(file, 'a').write('x')",
    "writes a new one": "open(f'{folder}/new', 'w').write('x')",
    "empties a file": "os.truncate(file, 0)",
    "empties a file that it may read": "os.close(os.open(readable, os.O_RDONLY | os.O_TRUNC))",
    "removes a file": "os.remove(file)",
    "moves a file": "os.rename(file, f'{temp}/moved')",
    "moves a file over it": "open(f'{temp}/own', 'w').close(); os.rename(f'{temp}/own', file)",
    "makes a folder": "os.mkdir(f'{folder}/new')",
    "makes a pipe": "os.mkfifo(f'{folder}/new')",
    "changes a file's mode": "os.chmod(file, 0o777)",
    "changes an open file's mode": "os.fchmod(os.open(readable, os.O_RDONLY), 0o777)",
    "changes a file's time": "os.utime(file)",
    "changes a file's owner": "os.chown(file, os.getuid(), -1)",
    "changes a file's attributes": "os.setxattr(file, 'user.x', b'x')",
    "is told of changes": "call('inotify_add_watch', libc.inotify_init(), folder.encode(), 0xfff)",
    "is told of changes by a signal": "fcntl.fcntl(os.open(os.path.dirname(os.__file__), 0), fcntl.F_NOTIFY, 2)",
    "locks a file that it may read": "fcntl.flock(open(readable), fcntl.LOCK_EX)",
    "locks a part of it": "fcntl.lockf(open(readable), fcntl.LOCK_SH)",
    "locks it for an open file": "fcntl.fcntl(open(readable), 37, b'\\0' * 32)",
    "has those wait who open it": "fcntl.fcntl(open(readable), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "reads who uses the machine": "open('/etc/passwd').read()",
    "reads what is mounted": "open('/proc/self/mounts').read()",
    "lists the network's devices": "os.listdir('/sys/class/net')",
    "reads where the command was started": "os.listdir('.')",
    "lists where others have temporary files": "os.listdir('/tmp')",
    "makes a file that runs as its owner": "os.close(os.open(f'{temp}/x', os.O_CREAT | os.O_WRONLY, 0o4755))",
    "makes one without a name": "os.close(os.open(temp, os.O_TMPFILE | os.O_WRONLY, 0o6755))",
    "makes one as a node": "os.mknod(f'{temp}/x', 0o104755)",
    "makes one anew": "system(85, f'{temp}/x'.encode(), 0o2755)",
    "names a file by a handle": "system(303, -100, file.encode(), b'\\0' * 64, b'\\0' * 8, 0)",
}
"""Of x86_64, where numbers of system calls occur."""

NETWORK = {
    "connects by TCP": "socket.create_connection(tcp)",
    "listens by TCP": "socket.create_server(('127.0.0.1', 0))",
    "sends by UDP": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', udp)",
    "connects to a socket's file": "socket.socket(socket.AF_UNIX).connect(unix)",
    "connects to an abstract socket": "socket.socket(socket.AF_UNIX).connect(abstract)",
    "listens at an abstract socket": "s = socket.socket(socket.AF_UNIX); s.bind('\\0own'); s.listen()",
    "sends from one of a pair": ("socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', datagrams)"),
    "asks the kernel about the network": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "asks the host of its machine": "socket.socket(40, socket.SOCK_STREAM).connect((2, 1))",
    "has the kernel do its calls": "system(425, 4, b'\\0' * 120)",
}

PROCESSES = {
    "signals its parent": "os.kill(parent, 0)",
    "signals the command": "os.kill(command, 0)",
    "signals from a child": "assert not os.system(f'kill -0 {command}')",
    "signals a thread of its parent": "system(234, parent, parent, 0)",
    "opens its parent": "os.pidfd_open(parent)",
    "lowers its parent's priority": "os.setpriority(os.PRIO_PROCESS, parent, 10)",
    "moves its parent to one core": "os.sched_setaffinity(parent, {0})",
    "limits its parent": "resource.prlimit(parent, resource.RLIMIT_NOFILE, resource.prlimit(parent, 7))",
    "reads about itself": "open('/proc/self/status').read()",
    "has memory under a name": "name = '/dev/shm/adaptive-step'; open(name, 'w').close(); os.unlink(name)",
    "has memory that counts for nobody": "os.memfd_create('x')",
    "has a large buffer": "socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)",
    "has files that only a message holds": "a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [0])",
    "has a thread with files of its own": "system(56, 0x100 | 0x800 | 0x10000, 0, 0, 0, 0)",
    "has a large pipe": "fcntl.fcntl(os.pipe()[1], 1031, 2**17)",
    "has a key that others read": "system(250, 0, -3, 1)",
    "has memory of which it is told": "system(323, 1)",
    "has memory that others share": """
        call('shmget', os.getpid(), 4096, 0o1600); call('shmctl', libc.shmget(os.getpid(), 0, 0), 0, None)
    """,
    "has messages that others read": """
        call('msgget', os.getpid(), 0o1600); call('msgctl', libc.msgget(os.getpid(), 0), 0, None)
    """,
    "has a queue that others read": """
        name = f'/own-{os.getpid()}'.encode()
        call('mq_open', name, os.O_CREAT | os.O_RDWR, 0o600, None); call('mq_unlink', name)
    """,
    "has a child that is its parent's": """
        if (child := libc.syscall(ctypes.c_long(56), 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)) == 0: os._exit(0)
        if child < 0: raise OSError(ctypes.get_errno(), 'clone')
    """,
    "has another view of the system": "call('unshare', 0x10000000)",
    "has the kernel signal its parent": "fcntl.fcntl(0, fcntl.F_SETOWN, parent)",
}

TAKING = {
    "takes its warden's connection": """
        number = os.pidfd_open(parent)
        for other in range(3, 64):
            taken = libc.syscall(ctypes.c_long(438), number, other, 0)
            if taken >= 0: break
            if ctypes.get_errno() != errno.EBADF: raise OSError(ctypes.get_errno(), 'pidfd_getfd')
    """,
    "traces its warden": "call('ptrace', 0x4206, parent, None, None)",
    "reads its warden's memory": """
        here, there = ctypes.create_string_buffer(8), (ctypes.c_size_t * 2)(id(os), 8)
        own = (ctypes.c_size_t * 2)(ctypes.addressof(here), 8)
        call('process_vm_readv', parent, own, ctypes.c_ulong(1), there, ctypes.c_ulong(1), ctypes.c_ulong(0))
    """,
    "looks at its warden's files": "os.readlink(f'/proc/{parent}/fd/0')",
    "reads its warden's environment": "open(f'/proc/{parent}/environ').read()",
}
"""What would lead to other tasks' answers; it is refused to cells that are not confined, too."""

TRACING = {
    "opens the command's memory": "open(f'/proc/{command}/mem', 'r+b').close()",
    "traces the command": "call('ptrace', 0x4206, command, None, None)",
    "reads the command's environment": "open(f'/proc/{command}/environ').read()",
}
"""What would lead to the command, and to all of its answers."""

UNCONTROLLED = {
    "has another view of the system", "names a file by a handle", "has the kernel do its calls",
    "lowers its parent's priority", "moves its parent to one core", "asks the host of its machine",
    "has memory of which it is told", "has a thread with files of its own", "makes one as a node",
}  # fmt: skip
"""What not every system, or not every user, is able to do anyway."""

UNCOUNTED = {
    "folders that are deep": """
        os.chdir(temp)
        for _ in range(42 * count): os.mkdir('ddd'); os.chdir('ddd')
    """,
    "files below a long path": """
        os.chdir(temp)
        for _ in range(17): os.mkdir('d' * 250); os.chdir('d' * 250)
        for number in range(count): open(str(number), 'wb').write(b'x' * (2**24 - 1))
    """,
    "files without a name": """
        kept = []
        for _ in range(count):
            kept.append(open(f'{temp}/x', 'wb', buffering=0)); os.unlink(f'{temp}/x')
            kept[-1].write(b'x' * (2**24 - 1))
    """,
    "files that are mapped and have no name": """
        libc.mmap.restype = ctypes.c_void_p
        for _ in range(count):
            number = os.open(f'{temp}/x', os.O_RDWR | os.O_CREAT); os.unlink(f'{temp}/x')
            os.write(number, b'x' * (2**24 - 1))
            libc.mmap(None, ctypes.c_size_t(2**24 - 1), 3, 1, number, ctypes.c_long(0)); os.close(number)
    """,
    "files of which little is mapped": """
        libc.mmap.restype = ctypes.c_void_p
        for _ in range(count):
            number = os.open(f'{temp}/x', os.O_RDWR | os.O_CREAT); os.unlink(f'{temp}/x')
            os.write(number, b'x' * (2**24 - 1))
            libc.mmap(None, ctypes.c_size_t(4096), 3, 1, number, ctypes.c_long(0)); os.close(number)
    """,
    "threads": """
        threading.stack_size(2**15)
        for _ in range(40 * count): threading.Thread(target=signal.pause, daemon=True).start()
    """,
}
"""What a cell may have so much of, in `count` parts of 16 MiB, and no more; it ends once there is too much."""

ALLOWED = {
    "computes": "import torch; assert torch.ones(3).sum() == 3",
    "imports what it was not given": "import tomllib, wave, sqlite3, scipy.special",
    "reads the Python installation": "assert open(os.__file__).read()",
    "reads a file beside its task": "assert open(readable).read()",
    "has files of its own": """
        with tempfile.TemporaryDirectory() as own:
            open(f'{own}/x', 'w').write('x'); os.rename(f'{own}/x', f'{own}/y'); assert open(f'{own}/y').read() == 'x'
    """,
    "has threads": "t = threading.Thread(target=print); t.start(); t.join()",
    "is called back": "assert ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 3)() == 3",
    "has children": "assert os.waitpid(os.fork() or os._exit(3), 0)[1] == 3 << 8",
    "signals its children": """
        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
        child.kill(); assert child.wait() == -9
    """,
    "talks to its children": "a, b = socket.socketpair(); a.sendall(b'x'); assert b.recv(1) == b'x'",
    "signals itself": "signal.signal(signal.SIGUSR1, lambda *_: None); os.kill(os.getpid(), signal.SIGUSR1)",
    "is random": "import random; random.SystemRandom().random()",
    "knows the time": "import time, zoneinfo; time.time(); zoneinfo.ZoneInfo('UTC')",
}


def try_it(name: str, content: str, code: str, places: dict[str, Any]) -> str:
    """What came of a snippet: `done`, or the error that it was refused with; an `AssertionError` is raised."""
    space: dict[str, Any] = dict(places, parent=os.getppid(), temp=os.environ.get("TMPDIR", places.get("spare")))
    lines = "import ctypes, errno, fcntl, os, resource, signal, socket, subprocess, sys, tempfile, threading\n" + _LIBC
    try:
        exec(lines + textwrap.dedent(code), space)
    except OSError as error:
        return f"{type(error).__name__} {error.errno}"
    except AssertionError as error:
        return f"AssertionError: {error}"
    return "done"


_PLAIN = """
import ctypes, os, sys
from tests.support import reaching
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # all may trace it, as without Yama
if not os.fork():
    print(reaching.try_it("", "", sys.stdin.read(), {"command": os.getppid()}), flush=True)
    os._exit(0)
os.wait()
"""


def try_it_unguarded(code: str) -> str:
    """What came of a snippet in a child of a process of Python's, neither of which does anything against it."""
    command = [sys.executable, "-c", _PLAIN]
    return subprocess.run(command, input=code, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


def environment(name: str, content: str) -> dict[str, str]:
    """The environment of a cell, as Python has it and as the C library has it."""
    found = dict(os.environ)
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    found["C HOME"] = libc.getenv(b"HOME").decode()
    return found


def fill(name: str, content: str, size: int, count: int) -> None:
    """Writes so many files, those without content as links to the first of them, and waits to be killed."""
    first = Path(os.environ["TMPDIR"], "0")
    for number in range(count):
        path = first.with_name(str(number))
        if size or not number:
            path.write_bytes(b"x" * size)
        else:
            path.hardlink_to(first)
    signal.pause()


def leave_file(name: str, content: str) -> str:
    """A file in the folder for temporary files, and where it is."""
    path = Path(os.environ["TMPDIR"], "left")
    path.write_text("x")
    return str(path)


def listening(kind: socket.SocketKind, address: Any) -> socket.socket:
    """A socket that others could reach."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    found = socket.socket(family, kind)
    found.bind(address)
    if kind == socket.SOCK_STREAM:
        found.listen()
    return found
