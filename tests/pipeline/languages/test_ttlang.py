"""One optimizer learns two languages: here TT-Lang, by a scripted LM whose answers depend on what it is shown."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline import compile as compile_command
from pipeline import evaluate, generate, report, verify
from pipeline.base.errors import run_command
from pipeline.reporting.runs import read_runs
from tests.support.answering_lm import Scripted, use

pytest.importorskip("ttl")

from ttlang.language import TTLANG

TASKS = ["add", "swiglu", "softmax", "attention"]
LADDER = {"add": None, "swiglu": "add", "softmax": "swiglu", "attention": "softmax"}
"""Each task is answered rightly where the one before it is shown."""
OPTIONS = ["--language", "ttlang", "--lm", "scripted/x", "--samples", "2", "--temperatures", "0.7", "--threads", "1"]


def text(kind: str, name: str) -> str:
    return (TTLANG.folder / f"{kind}/{name}.ttl").read_text()


def climbing(asked: str, shown: Sequence[str]) -> str:
    """Answers with oracles and near-misses from a fixed table."""
    name = next(name for name in LADDER if _goal(name) in asked)
    needed = LADDER[name]
    knows = needed is None or any(_goal(needed) in each for each in shown)
    return text("oracles" if knows else "near-misses/value", name)


def _goal(name: str) -> str:
    return (TTLANG.folder / f"tasks/{name}.yaml").read_text().splitlines()[0]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> Scripted:
    engine = Scripted(climbing)
    use(engine, monkeypatch)
    return engine


def test_it_learns_records_resumes_and_is_measured(
    engine: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str], unrendered: None
) -> None:
    """Four iterations climb four tasks; the compiled program solves all of them at once."""
    program = str(tmp_path / "program.json")
    argv = ["--optimizer", "adaptive", *OPTIONS, "--tasks", *TASKS, "-o", program, "--json"]
    assert run_command(compile_command.NAME, compile_command.main, argv) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (set(found["solved"]), found["unsolved"]) == (set(TASKS), [])
    assert found["iterations"] == 4
    (run,) = read_runs([found["run_id"]])
    assert run.params["programs"] == "run as Python, in confined cells"
    assert run.language == "ttlang" and set(run.programs) == set(TASKS)
    saved = json.loads(Path(program).read_text())
    assert (saved["language"], saved["language_version"]) == ("ttlang", TTLANG.version)

    asked = len(engine.requests)
    assert run_command(compile_command.NAME, compile_command.main, ["--resume", found["run_id"], "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["solved"]) == set(TASKS) and len(engine.requests) == asked

    argv = ["--program", program, *OPTIONS, "--tasks", "add", "softmax", "--json"]
    assert run_command(evaluate.NAME, evaluate.main, argv) == 0
    assert json.loads(capsys.readouterr().out)["pass_at_1"] == 1.0

    folder = tmp_path / "solved"
    argv = ["attention", "--program", program, *OPTIONS, "-o", str(folder), "--format", "both"]
    assert run_command(generate.NAME, generate.main, argv) == 0
    written = [str(folder / "attention.yaml"), str(folder / "attention.ttlang")]
    assert run_command(verify.NAME, verify.main, [*written, "--language", "ttlang"]) == 0
    assert run_command(report.NAME, report.main, ["-o", str(tmp_path / "report")]) == 0
