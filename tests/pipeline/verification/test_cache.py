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


@pytest.mark.parametrize("name", ["evaluate", "generate", "compile"])
def test_a_second_run_verifies_nothing(
    name: str, engine: Engine, folder: Path, judged: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And has the same figures."""
    command, argv = commands(folder, tmp_path)[name]
    results = []
    for verified in (True, False):
        judged.clear()
        code = run_command(command.NAME, command.main, [*argv, *SAMPLING, "--verdict-cache", str(tmp_path / "kept")])
        assert code in (0, 1)
        assert bool(judged) == verified
        results.append(json.loads(capsys.readouterr().out))
    for result in results:
        for changing in ("seconds", "run_id"):
            result.pop(changing, None)
    assert results[0] == results[1]


def test_the_folder_is_shared_by_commands(
    engine: Engine, folder: Path, judged: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What one has verified, the others know; generating verifies its own rewrites of the answers only."""
    kept, evaluated = ("--verdict-cache", str(tmp_path / "kept")), set[str]()
    for name, (command, argv) in commands(folder, tmp_path).items():
        judged.clear()
        run_command(command.NAME, command.main, [*argv, *SAMPLING, *kept])
        evaluated |= set(judged) if name == "evaluate" else set()
        assert evaluated and (name != "compile" or not judged)
        assert name == "evaluate" or not evaluated & set(judged)
    assert capsys.readouterr().err


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
