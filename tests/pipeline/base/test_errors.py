"""A command that is a process's own holds this: Ctrl-C ends it at any moment, with one line."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import PROJECT

INTERRUPTED = """
import signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy.linalg":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from pipeline.base.errors import start
from pipeline.verify import NAME, main
start(NAME, main)
"""


def test_ctrl_c_while_torch_is_imported_ends_a_command() -> None:
    """Torch's C code drops what is raised within the NumPy that it imports, and would go on without both."""
    words = [sys.executable, "-c", INTERRUPTED, "gemm/1", "data/oracles/gemm/1.step"]
    ran = subprocess.run(words, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "pipeline.verify: interrupted\n")
