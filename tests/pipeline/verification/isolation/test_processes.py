"""What the system says of processes, and how those that call themselves ours are ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pipeline.verification.isolation import processes
from tests.support.processes import PATIENCE, eventually

pytestmark = pytest.mark.skipif(not processes.LINUX, reason="/proc is Linux's")


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A shell with a child."""
    process = subprocess.Popen(["sh", "-c", "sleep 600 & wait"])
    assert eventually(lambda: len(processes.children(process.pid)) == 1)
    yield process.pid
    for pid in [*processes.descendants(process.pid), process.pid]:
        processes.kill(pid)
    process.wait()


def test_children_and_descendants(sleeper: int) -> None:
    """Of a process that is gone there are none."""
    (below,) = processes.children(sleeper)
    assert [*processes.descendants(sleeper)] == [below]
    assert sleeper in processes.children(os.getpid())
    assert processes.children(2**22 - 1) == []


def test_a_process_is_watched() -> None:
    """Whether it has children or threads, and what it holds."""
    code = "import sys, threading, subprocess\nfor line in sys.stdin: exec(line); print('done', flush=True)"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def do(statement: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{statement}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        do("pass")
        watched = processes.Watched(process.pid)
        assert watched.alone()
        assert watched.held() < 2**22
        do("held = b'1' * 2**25")
        assert watched.held() >= 2**25
        do("child = subprocess.Popen(['sleep', '600'])")
        assert not watched.alone()
        assert watched.children() == 1
        do("child.kill(), child.wait()")
        assert watched.alone()
        do("go = threading.Event(); threading.Thread(target=go.wait).start()")
        assert not watched.alone()
        before = processes.processor_time(process.pid)
        do("sum(range(10**6)), go.set()")
        assert processes.processor_time(process.pid) > before
    assert watched.alone()
    assert watched.held() == 0
    watched.close()
    assert processes.processor_time(2**22 - 1) == 0


def test_memory_is_what_a_process_holds_itself() -> None:
    """Not what it has mapped of files."""
    before = processes.memory(os.getpid())
    held = b"1" * 2**26
    assert processes.memory(os.getpid()) - before > 2**25
    assert len(held) == 2**26
    assert processes.memory(2**22 - 1) == 0


def test_a_process_that_is_gone_takes_no_signal() -> None:
    """It may have ended on its own."""
    process = subprocess.Popen(["true"])
    process.wait()
    processes.kill(process.pid, signal.SIGTERM)


STRAYS = """
import os, subprocess, sys, time
from pipeline.verification.isolation import processes
processes.adopt_orphans()
known = subprocess.Popen(["sleep", "600"])
subprocess.run(["sh", "-c", "setsid sh -c 'sleep 600 & sleep 600' & exit"])  # orphans, one of a session of its own
while len([*processes.descendants(os.getpid())]) < 4:
    time.sleep(0.01)
processes.kill_strays({known.pid})
print([*processes.descendants(os.getpid())] == [known.pid])
known.kill()
"""


def test_strays_are_killed_and_the_known_are_not() -> None:
    """Whatever session they are of, and whoever was their parent."""
    ran = subprocess.run([sys.executable, "-c", STRAYS], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.split() == ["True"]


def test_a_process_limits_itself() -> None:
    """Files, memory, and no core; the control is below them."""
    code = (
        "import resource, sys\nfrom pipeline.verification.isolation import processes\nprocesses.limit_this(2**26)\n"
        "held = b'1' * 2**24\nprint(resource.getrlimit(resource.RLIMIT_CORE)[1])\n"
        "try: b'1' * 2**27\nexcept MemoryError: print('refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.split() == ["0", "refused"]


def test_secrets_are_forgotten() -> None:
    """By name and by content, in Python's view and in the system's; the control stays."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom pipeline.verification.isolation import processes\n"
        "processes.forget_secrets()\nprint(dict(os.environ), sys.argv, os.popen('env').read())\n"
        "print(Path('/proc/self/environ').read_bytes())"
    )
    planted = {"OPENAI_API_KEY": "sk-planted", "BASE": "http://user:planted@localhost", "HARMLESS": "here"}
    words = [sys.executable, "-c", code, "planted"]
    ran = subprocess.run(words, env=os.environ | planted, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "planted" not in ran.stdout
    assert ran.stdout.count("here") >= 2
