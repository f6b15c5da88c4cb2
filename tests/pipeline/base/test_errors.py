"""A command that is a process's own holds these: Ctrl-C ends it at any moment, and what is not installed is named."""

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from pipeline.base.errors import Exit, run_command
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
from pipeline.codegen import NAME, main
start(NAME, main)
"""


def test_ctrl_c_while_torch_is_imported_ends_a_command() -> None:
    """Torch's C code drops what is raised within the NumPy that it imports, and would go on without both."""
    words = [sys.executable, "-c", INTERRUPTED, "gemm/1", "data/oracles/gemm/1.step"]
    ran = subprocess.run(words, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "pipeline.codegen: interrupted\n")


def test_a_command_without_its_packages_says_in_one_line_what_to_install(capsys) -> None:
    """Another module that is missing is a defect, and stays a traceback."""

    def missing(module: str) -> Callable[[Sequence[str] | None], int]:
        def main(argv: Sequence[str] | None) -> int:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)

        return main

    assert run_command("pipeline.verify", missing("torch.nn")) == Exit.USAGE
    advice = "the commands need: pip install 'adaptive-step[pipeline]'"
    assert capsys.readouterr().err == f"pipeline.verify: torch.nn is not installed; {advice}\n"
    with pytest.raises(ModuleNotFoundError):
        run_command("pipeline.verify", missing("pipeline.nothing"))
