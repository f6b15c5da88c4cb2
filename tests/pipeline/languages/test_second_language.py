"""A language of another package learns, records and resumes as STeP does, with the same optimizer."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from dspy import lm15

from pipeline import compile as compile_command
from pipeline import evaluate, generate, report, verify
from pipeline.base.errors import run_command
from pipeline.languages import registry
from pipeline.reporting.runs import read_runs
from tests.support.answering_lm import USAGE, use
from tests.support.languages import declare, install_counter
from tests.support.paths import PROJECT
from tests.support.scripted_lm import Engine

OPTIONS = ["--language", "counter", "--samples", "2", "--temperatures", "0.7", "--threads", "1"]


def counting(request: lm15.Request) -> str:
    """Counts to two at once, and to minus one where the request shows a solved task; never to nine."""
    *shown, asked = [message.text or "" for message in request.messages]
    program = "up\nup" if "want: 2" in asked else "down" if "want: -1" in asked and shown else "up"
    return f"[[ ## impl ## ]]\n```\n{program}\n```\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> Engine:
    data = install_counter(tmp_path, monkeypatch)
    (data / "tasks/nine.yaml").write_text("goal: count to nine\nwant: 9\n")
    engine = Engine(counting, USAGE)
    use(engine, monkeypatch)
    return engine


def test_it_learns_is_recorded_resumed_and_measured(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], unrendered: None
) -> None:
    """The second task is solved by showing the first; the program and the record name the language."""
    program = str(tmp_path / "program.json")
    argv = ["--optimizer", "adaptive", "--lm", "scripted/x", *OPTIONS, "-o", program, "--json"]
    assert run_command(compile_command.NAME, compile_command.main, argv) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (set(found["solved"]), found["unsolved"]) == ({"two", "deep/minus"}, ["nine"])
    assert all("Write the words up and down" in request for request in engine.texts)
    assert any("goal: count to two" in request and "up\nup" in request for request in engine.texts)
    assert not any("down\n  down" in request for request in engine.texts)  # no author's solution is shown
    saved = json.loads(Path(program).read_text())
    assert (saved["language"], saved["language_version"], saved["guardian"]) == ("counter", "1", "none")

    (run,) = read_runs([found["run_id"]])
    assert (run.language, run.programs["two"]) == ("counter", "up\nup")
    asked = len(engine.requests)
    assert run_command(compile_command.NAME, compile_command.main, ["--resume", found["run_id"], "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["solved"]) == {"two", "deep/minus"}
    assert len(engine.requests) == asked

    argv = ["--program", program, "--lm", "scripted/x", *OPTIONS, "--json"]
    assert run_command(evaluate.NAME, evaluate.main, argv) == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures["solved"]) == {"two", "deep/minus"} and figures["by_class"] == {}
    assert run_command(evaluate.NAME, evaluate.main, ["--program", program, "--lm", "scripted/x"]) == 2
    assert "this program writes counter; give --language counter" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--lm", "embedded"],
        ["--guardian", "gated", "--lm", "x/y"],
        ["--proposer", "react", "--lm", "x/y"],
        ["--no-ir", "--lm", "x/y"],
        ["--prompt", "short", "--lm", "x/y"],
        ["--objective", "time", "--lm", "x/y"],
        ["--proposer", "typed", "--lm", "x/y"],
        ["--split", "--lm", "x/y"],
    ],
)
def test_what_it_does_not_offer_ends_the_command(
    options: list[str], engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2 and the name of the option, before any request."""
    argv = ["--optimizer", "adaptive", *OPTIONS, *options]
    assert run_command(compile_command.NAME, compile_command.main, argv) == 2
    err = capsys.readouterr().err
    assert f"{options[0]}" in err and "the language `counter`" in err and err.count("\n") == 1
    assert not engine.requests


def test_it_generates_verified_programs_and_reports_the_run(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], unrendered: None
) -> None:
    """Task files with their programs, and the program alone under the language's name; the report reads the run."""
    folder = tmp_path / "solved"
    asked = ["--program", "none", "--lm", "scripted/x", *OPTIONS, "-o", str(folder), "--format", "both"]
    assert run_command(generate.NAME, generate.main, ["two", "nine", *asked, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["solved"], found["unsolved"]) == (["two"], ["nine"])
    assert (folder / "two.counter").read_text() == "up\nup\n"
    assert run_command(verify.NAME, verify.main, [str(folder / "two.yaml"), "--language", "counter"]) == 0

    argv = ["--optimizer", "none", "--lm", "scripted/x", *OPTIONS, "-o", str(tmp_path / "p.json")]
    assert run_command(compile_command.NAME, compile_command.main, argv) == 0
    assert run_command(report.NAME, report.main, ["-o", str(tmp_path / "report")]) == 0
    assert "deep/minus" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (verify, ["--exact"]),
        (verify, ["--dtype", "float32"]),
        (verify, ["--no-stress"]),
        (generate, []),
        (generate, ["--proposer", "search"]),
        (generate, ["--program", "none", "--objective", "memory"]),
    ],
)
def test_what_step_alone_has_ends_the_command(
    command: Any, options: list[str], engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any import that takes seconds, with exit code 2, the command or its option, and the language."""
    argv = ["deep/minus", "--language", "counter", *options]
    assert run_command(command.NAME, command.main, argv) == 2
    err = capsys.readouterr().err
    assert "the language `counter` " in err and err.count("\n") == 1
    assert not engine.requests


@pytest.mark.parametrize(("name", "tasks"), [("stack", []), ("ttlang", ["add", "column_sum", "matmul", "swiglu"])])
def test_a_languages_own_programs_play_an_lm_that_learns_from_demonstrations(
    name: str,
    tasks: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store_folder: Path,
    capsys: pytest.CaptureFixture[str],
    unrendered: None,
) -> None:
    """`--lm scripted/LANGUAGE` solves more of the tasks where the others are shown."""
    if name == "ttlang":
        pytest.importorskip("ttl")
    else:
        shutil.copytree(PROJECT / "examples/stack/stack_language", tmp_path / "stack_language")
        declare(tmp_path, monkeypatch, "stack", "stack_language:STACK")
    argv = ["--language", name, "--lm", f"scripted/{name}", "--samples", "2", "--json", "-o", str(tmp_path / "p")]
    argv += ["--tasks", *tasks] if tasks else []
    solved = {}
    for optimizer in ("none", "adaptive"):
        run_command(compile_command.NAME, compile_command.main, ["--optimizer", optimizer, *argv])
        found = json.loads(capsys.readouterr().out)
        solved[optimizer] = len(found["solved"]) / (len(found["solved"]) + len(found["unsolved"]))
    assert solved["none"] <= 0.5 and solved["adaptive"] == 1
    saved = json.loads((tmp_path / "p").read_text())
    assert (saved["language"], saved["language_version"]) == (name, registry.version(name))
    run = next(each for each in read_runs([]) if each.run_id == found["run_id"])
    assert (run.params.get("programs") == "run as Python, in confined cells") == registry.find(name).executes
