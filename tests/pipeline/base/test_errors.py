"""How a command ends: errors are one line and an exit code, bugs a traceback; Ctrl-C ends it at any moment.

A package with broken metadata beside this one is named once, and ends no command.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipeline.base.errors import Exit, LMUnavailable, UsageError, run_command
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
from pipeline.optimize import NAME, main
start(NAME, main)
"""


def test_ctrl_c_while_torch_is_imported_ends_a_command() -> None:
    """Torch's C code drops what is raised within the NumPy that it imports, and would go on without both."""
    words = [sys.executable, "-c", INTERRUPTED, "gemm/1", "data/oracles/gemm/1.step"]
    ran = subprocess.run(words, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "pipeline.optimize: interrupted\n")


def raising(error: BaseException) -> Callable[[Sequence[str] | None], int]:
    def main(argv: Sequence[str] | None) -> int:
        raise error

    return main


def test_a_command_without_its_packages_says_in_one_line_what_to_install(capsys) -> None:
    """Another module that is missing is a defect, and stays a traceback."""

    def missing(module: str) -> Callable[[Sequence[str] | None], int]:
        return raising(ModuleNotFoundError(f"No module named {module!r}", name=module))

    assert run_command("pipeline.verify", missing("torch.nn")) == Exit.USAGE
    advice = "the commands need: pip install 'adaptive-step[pipeline]'"
    assert capsys.readouterr().err == f"pipeline.verify: torch.nn is not installed; {advice}\n"
    with pytest.raises(ModuleNotFoundError):
        run_command("pipeline.verify", missing("pipeline.nothing"))


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UsageError("x.yaml:3: unknown dtype"), 2, "pipeline.example: x.yaml:3: unknown dtype\n"),
        (LMUnavailable("no key"), 3, "pipeline.example: no key\n"),
        (KeyboardInterrupt(), 130, "pipeline.example: interrupted\n"),
    ],
)
def test_errors_become_a_message_and_an_exit_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a person can repair is one line on stderr, without a traceback."""
    assert run_command("pipeline.example", raising(error)) == code
    assert capsys.readouterr() == ("", message)


def test_an_unforeseen_error_keeps_its_traceback() -> None:
    """A bug is not presented as a user's mistake."""
    with pytest.raises(ZeroDivisionError):
        run_command("pipeline.example", raising(ZeroDivisionError()))


def test_a_warning_is_a_line_like_any_message() -> None:
    """With the word, and without the position in our code, in a command that is the main program."""
    code = (
        "import warnings; from pipeline.base.errors import start; start('pipeline.x', lambda _: warnings.warn('slow'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "pipeline.x: warning: slow\n")


def test_success_is_exit_code_zero() -> None:
    """The code that a command returns is the process's."""
    assert run_command("pipeline.example", lambda argv: Exit.NO) == 1
    assert run_command("pipeline.example", lambda argv: Exit.OK) == 0


CODE = """
import pipeline, pydantic, importlib_metadata, subprocess, sys
from pipeline.base.languages import declared
importlib_metadata.entry_points()
print("step" in declared())
subprocess.run([sys.executable, "-c", "import pipeline"], check=True)
"""


@pytest.mark.parametrize("entries", [b"[adaptive_step.languages]\nx = \xff\xfe\n", b"[broken\nx = y\n", b"\x00\xff"])
def test_an_unreadable_package_is_named_and_skipped(entries: bytes, tmp_path: Path) -> None:
    metadata = tmp_path / "bad-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_bytes(entries)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PROJECT}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    named = done.stderr.count(f"{metadata}: its entry_points.txt can't be read; this package is skipped")
    assert named == (b"\xff" in entries)
