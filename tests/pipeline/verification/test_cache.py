"""Kept verdicts hold these:

- a second run of any command verifies nothing that the first one did, and says the same;
- a folder that can't be used is reported before the LM is asked, and is left as it is;
- one that fails later costs a warning, and no verdict.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import compile as compile_command
from pipeline import evaluate, generate
from pipeline.base.errors import run_command
from pipeline.verification.cache import VerdictStore
from pipeline.verification.pool import WorkerPool
from step_runtime.base.errors import Diagnostic
from step_runtime.verification.verify import Verdict
from tests.support.answering_lm import Engine

pytestmark = pytest.mark.usefixtures("unrendered")
SAMPLING = ("--samples", "4", "--temperatures", "0.7", "--threads", "1", "--json")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that go to the workers."""
    texts: list[str] = []
    submit: Callable[..., Any] = WorkerPool.submit

    def counting(self: WorkerPool, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if fn.__name__ == "judge":
            texts.append(args[2])
        return submit(self, fn, *args, **kwargs)

    monkeypatch.setattr(WorkerPool, "submit", counting)
    return texts


def commands(folder: Path, tmp_path: Path) -> dict[str, tuple[Any, list[str]]]:
    program, tasks = ["--program", "none"], str(folder)
    output = str(tmp_path / "program.json")
    return {
        "evaluate": (evaluate, [*program, "--tasks", tasks]),
        "generate": (generate, [*program, tasks]),
        "compile": (compile_command, ["--optimizer", "none", "--tasks", tasks, "-o", output]),
    }


def repeatable(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("seconds", "run_id")}


def test_what_one_command_verified_all_others_know(
    engine: Engine, folder: Path, judged: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run has the same figures and verifies nothing; generating verifies its own rewrites of the answers only.

    Compiling comes last, and has nothing to verify.
    """
    kept, evaluated = ("--verdict-cache", str(tmp_path / "kept")), set[str]()
    for name, (command, argv) in commands(folder, tmp_path).items():
        results = []
        for turn in range(2):
            judged.clear()
            assert run_command(command.NAME, command.main, [*argv, *SAMPLING, *kept]) in (0, 1)
            results.append(json.loads(capsys.readouterr().out, object_hook=repeatable))
            assert bool(judged) == (turn == 0 and name != "compile") and not evaluated & set(judged)
            evaluated |= set(judged) if name == "evaluate" else set()
        assert results[0] == results[1]


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        ("a file in its place", r"--verdict-cache: \S+/kept is not a folder"),
        ("no database", r"verdicts can't be kept in \S+/kept.*name another folder"),
    ],
)
def test_a_folder_that_can_not_be_used_is_reported(
    damage: str, reported: str, engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one message, nothing asked, nothing lost."""
    kept = tmp_path / "kept"
    if damage == "no database":
        VerdictStore(kept).close()
        (damaged,) = kept.glob("*.db")
    else:
        damaged = kept
    damaged.write_bytes(b"not a database " * 1000)
    command, argv = commands(folder, tmp_path)["evaluate"]
    assert run_command(command.NAME, command.main, [*argv, *SAMPLING, "--verdict-cache", str(kept)]) == 2
    assert re.search(reported, capsys.readouterr().err)
    assert engine.calls == 0
    assert damaged.read_bytes() == b"not a database " * 1000


def test_one_that_fails_later_costs_a_warning(tmp_path: Path) -> None:
    """From then on it knows nothing."""
    verdict = Verdict(False, "value", (Diagnostic("value", "value", "differs"),))
    with VerdictStore(tmp_path) as store:
        store.put("task", "key", verdict)
        assert store.get("task", "key") == verdict
        store._database.execute("DROP TABLE verdicts")
        with pytest.warns(UserWarning, match="can't be used any more"):
            assert store.get("task", "key") is None
        store.put("task", "another", verdict)
        assert store.get("task", "another") is None
