"""An LM and tasks whose every figure is known, for the tests of the commands that ask one."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError

from pipeline import compile as command
from pipeline.base.errors import run_command
from tests.support.scripted_lm import respond
from tests.support.scripted_runs import RIGHT, TASK

PROMPT_TOKENS, COMPLETION_TOKENS, ANSWER_TOKENS = 4000, 20, 4020
"""As many as the texts can have: budgets count more where an LM reports too few."""
USAGE = lm15.Usage(input_tokens=PROMPT_TOKENS, output_tokens=COMPLETION_TOKENS)
WRONG = ("return E0", "E9 = step.Map(fn=fn).apply(E0)\nE1 = step.Map(fn=fn).apply(E9)\nreturn E1", "return E7")
"""Wrong for every task: the input itself and the function applied twice (`value`), an unknown name (`parse`)."""


class Engine:
    """Doubles always; triples where the request shows a solved example, or on every fourth answer; never halves."""

    def __init__(self) -> None:
        self.calls = 0
        self.fail_from = 1_000_000

    def solves(self, task: str, shown: bool, turn: int) -> bool:
        return "'] * 2" in task or ("'] * 3" in task and (shown or turn == 3))

    def right(self, task: str) -> str:
        """The program for a task that it solves."""
        return RIGHT

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.calls += 1
        if self.calls >= self.fail_from:
            raise LMAuthError("the key was revoked")
        task, turn = request.messages[-1].text or "", (request.config.seed or 0) % 4
        answer = self.right(task) if self.solves(task, len(request.messages) > 1, turn) else WRONG[min(turn, 2)]
        text = f"[[ ## impl ## ]]\n{answer}\n\n[[ ## completed ## ]]"
        return respond(request, text, USAGE)


class Doubling(Engine):
    """Doubles alone, triples once it has seen a demonstration and never before, and can't halve."""

    def solves(self, task: str, shown: bool, turn: int) -> bool:
        return "'] * 2" in task or ("'] * 3" in task and shown)


def run(*argv: str) -> int:
    """`pipeline.compile` with an optimizer, two samples and two threads."""
    return run_command(command.NAME, command.main, ["--optimizer", *argv, "--samples", "2", "--threads", "2"])


def use(engine: Any, monkeypatch: pytest.MonkeyPatch) -> dspy.LM:
    """The LM of every command from here on."""
    lm = dspy.LM("scripted", engine=engine, cache=False, num_retries=0)
    monkeypatch.setattr("pipeline.lms.factory.make_lm", lambda model, api_base=None, **_: lm)
    return lm


@cache
def shared_tasks() -> Path:
    """Those of `write_tasks`, for reading only: in a folder of this process's, whose tasks its workers know."""
    folder = Path(tempfile.mkdtemp(prefix="shared-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_tasks(folder / "mine")


def write_tasks(folder: Path) -> Path:
    """Task files `double`, `triple` and `halve`; the one right program has the same text for all."""
    folder.mkdir()
    for name, factor in [("double", "* 2"), ("triple", "* 3"), ("halve", "/ 2")]:
        text = TASK.replace("input_data['E0'] * 2", f"input_data['E0'] {factor}")
        text = text.replace("input[0] * 2", "input[0] * 3") if name == "triple" else text
        (folder / f"{name}.yaml").write_text(text)
    return folder


def refuses(run: Callable[..., int], argv: Sequence[str], reported: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command line ends with exit code 2, one line that says `reported`, and nothing on stdout."""
    assert run(*argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert reported in err
