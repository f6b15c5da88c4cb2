"""Programs of a language from another package are judged in the same workers, and reported in the same words."""

import io
import json
from pathlib import Path

import dspy
import pytest

from pipeline import verify
from pipeline.base.errors import run_command
from pipeline.languages import registry
from pipeline.verification.limits import verification_pool
from pipeline.verification.metric import Metric
from tests.support.languages import COUNTER, install, install_counter


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    registry.find.cache_clear()
    return install_counter(tmp_path, monkeypatch)


def test_verdicts_are_reached_in_workers_and_shared_by_key(data: Path) -> None:
    """A crash and a fault of the language say nothing of a program; programs of one key share a pass."""
    language = registry.find("counter")
    task = language.task((data / "tasks/two.yaml").read_text(), "two", "two.yaml")
    with verification_pool(1, seconds=5, language="counter") as pool:
        metric = Metric(pool, language=language)

        def judged(text: str) -> tuple[object, ...]:
            reward = metric(dspy.Example(task=task), dspy.Prediction(impl=text))
            return reward.score, reward.stage, reward.codes, bool(reward.get("unscored"))

        assert judged("up\nup") == (1.0, None, [], False)
        assert judged("up\ndown\nup\nup") == (1.0, None, [], False)
        assert judged("up") == (0.0, "value", ["value"], False)
        assert judged("upward") == (0.0, "parse", ["word"], False)
        assert judged("crash") == (0.0, "run", ["crashed"], True)
        assert judged("fail") == (0.0, "run", ["internal"], True)
        assert metric.findings(task, "up\nup") == ()
        assert metric.verdict(task, "up\ndown\nup\nup").passed


def run(*argv: str) -> int:
    return run_command(verify.NAME, verify.main, [*argv, "--language", "counter"])


def test_the_command_verifies_by_names_of_the_languages_own_tasks(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task's own solution, and a program from standard input with its place."""
    assert run("deep/minus") == 0
    assert capsys.readouterr().out == "deep/minus: passed\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("up\nleft\n"))
    assert run("two", "-") == 1
    out = capsys.readouterr().out
    assert out == "two:2:1: word: expected up or down, found 'left'\n  left\n  ^^^^\n"
    assert run(str(data / "tasks"), "--json") == 2  # one of them has no program
    found = json.loads(capsys.readouterr().out)
    assert [each["passed"] for each in found["programs"]] == [True, False]


def test_what_the_language_does_not_offer_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its name and exit code 2, and so is a task that it can't read."""
    for option in ("--explain", "--values", "--cost"):
        assert run("deep/minus", option) == 2
        assert f"{option}: the language `counter` does not offer this" in capsys.readouterr().err
    (data / "tasks/bad.yaml").write_text("goal: bad\nwant: two\n")
    assert run("bad") == 2
    assert "bad.yaml:2: want: expected int, found 'two'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "options", "code", "said"),
    [
        ("hang", ["--limit-seconds", "0.3"], 4, "time-limit: verification took longer than 0.3 s"),
        ("up", ["--limit-characters", "1"], 1, "length: expected at most 1 characters, found 3"),
        ("up", ["--limit-dims", "1"], 2, "--limit-dims: the language `counter` keeps no such limit"),
        ("nothing", [], 4, "internal: the language counter failed: TypeError: `judge` gave None, expected a Verdict"),
        ("silent", [], 4, "`judge` gave no diagnostic with a failure, expected one or more"),
        ("strings", [], 4, "`judge` gave the diagnostics ('strings',), expected `Diagnostic`s"),
        ("crash", [], 4, "hint: `judge` of the language `counter` may be at fault, and not the program"),
        ("nowhere", [], 4, "`judge` gave the stage 'elsewhere', expected one of parse, run, value"),
    ],
)
def test_limits_hold_and_faults_are_said_whatever_the_language_does(
    word: str, options: list[str], code: int, said: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the worker; a fault of the language is an unknown verdict that names the member."""
    program = tmp_path / "p.txt"
    program.write_text(f"{word}\n")
    assert run("two", str(program), *options) == code
    assert said in "".join(capsys.readouterr())


def test_a_language_that_runs_programs_needs_confined_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a sandbox, the command ends with exit code 2, and nothing is judged."""
    registry.find.cache_clear()
    install_counter(tmp_path, monkeypatch)
    install(tmp_path, monkeypatch, "running", COUNTER.replace("executes = False", "executes = True")
            .replace('name = "counter"', 'name = "running"'))  # fmt: skip
    task = str(tmp_path / "counter/tasks/deep/minus.yaml")
    monkeypatch.setenv("ADAPTIVE_STEP_SANDBOX", "off")
    assert run_command(verify.NAME, verify.main, [task, "--language", "running"]) == 2
    assert "its programs run as Python, and only where confined: the sandbox is off" in capsys.readouterr().err
    monkeypatch.setenv("ADAPTIVE_STEP_SANDBOX", "auto")
    assert run_command(verify.NAME, verify.main, [task, "--language", "running"]) == 0
