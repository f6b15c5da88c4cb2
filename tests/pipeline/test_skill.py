"""`pipeline.skill` holds these.

- The skill is a folder that agents read: frontmatter with the folder's name, and references that are there.
- It shows the language, the cookbook, and a program's verified solutions; every program in it passes.
- Its figures are those of an LM that is asked with and without it, on tasks that it does not contain.
- Without a gain it is written, says so, and the exit code is 1.
"""

import re
from pathlib import Path

import dspy
import pytest
import yaml

from pipeline import save_program, skill
from pipeline.agent.agent import Agent
from pipeline.base.errors import run_command
from step_runtime.verification.loading import load_task
from tests.support.answering_lm import Engine
from tests.support.scripted_runs import RIGHT


def run(*argv: str) -> int:
    return run_command(skill.NAME, skill.main, argv)


@pytest.fixture
def compiled(folder: Path, tmp_path: Path) -> Path:
    """A program that shows how to double, and a wrong program for `halve`."""
    agent = Agent("none")
    right = dspy.Example(task=load_task(folder / "double.yaml"), impl=RIGHT)
    wrong = dspy.Example(task=load_task(folder / "halve.yaml"), impl="return E0")
    agent.proposer.predict.demos = [right, wrong]
    path = tmp_path / "compiled.json"
    save_program(agent, path)
    return path


def test_a_skill_is_what_agents_expect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name is the folder's, the description says when to use it, and every link leads to a file."""
    target = tmp_path / "my-step"
    assert run("-o", str(target)) == 0
    text = (target / "SKILL.md").read_text()
    front = yaml.safe_load(text.split("---")[1])
    assert front["name"] == "my-step" and "Use it when" in front["description"] and len(front["description"]) <= 1024
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all((target / link).is_file() for link in links)
    assert "Not measured" in text and len(text.splitlines()) < 500
    assert capsys.readouterr().out.splitlines()[0] == str(target / "SKILL.md")


def test_learned_solutions_are_shown_but_for_wrong_ones(
    folder: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`halve` is refused with a message."""
    assert run("-o", str(tmp_path / "step"), "--program", str(compiled)) == 0
    text = (tmp_path / "step" / "references" / "solutions.md").read_text()
    assert "### double\n" in text and "halve" not in text
    assert "halve" in capsys.readouterr().err


def test_an_existing_skill_stays_unless_told(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --force it is replaced, and so are references that the new one lacks."""
    target = tmp_path / "step"
    assert run("-o", str(target), "--program", str(compiled)) == 0
    assert run("-o", str(target)) == 2
    assert "SKILL.md exists; use --force" in capsys.readouterr().err
    assert run("-o", str(target), "--force") == 0
    assert not (target / "references" / "solutions.md").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "My Step"], "a skill is named as its folder"),
        (["-o", "step", "--samples", "2"], "--samples: only --measure asks an LM"),
        ([], "-o/--output"),
    ],
)
def test_bad_usage_is_one_line(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_figures_are_those_of_tasks_that_it_does_not_contain(
    engine: Engine, folder: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`double` is shown, so `triple` and `halve` count. The LM triples whenever a solution is shown."""
    target = tmp_path / "step"
    words = ["--measure", "--tasks", str(folder), "--samples", "4", "--program", str(compiled)]
    assert run("-o", str(target), *words) == 1  # two tasks are too few for an interval above zero
    text = (target / "SKILL.md").read_text()
    assert "| without it | 12.5 % | 1 |" in text and "| with it | 50.0 % | 1 |" in text
    assert "4 samples each at temperature 0.7, seed 0, on 2 tasks that this skill does not contain" in text
    assert "No gain was measured: +37.5 points" in text and text.rstrip().splitlines()[-1] in capsys.readouterr().out


def test_a_gain_is_one_beyond_doubt(
    engine: Engine, folder: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six tasks like `triple`, solved more often with the skill: the interval lies above zero."""
    many = tmp_path / "many"
    many.mkdir()
    for number in range(6):
        (many / f"t{number}.yaml").write_text((folder / "triple.yaml").read_text())
    words = ["--measure", "--tasks", str(many), "--samples", "4", "--program", str(compiled)]
    assert run("-o", str(tmp_path / "step"), *words) == 0
    assert "It helps this model: +83.3 points" in (tmp_path / "step" / "SKILL.md").read_text()


def test_a_skill_of_all_tasks_is_not_measured(
    engine: Engine, folder: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what to do; nothing is written."""
    words = ["--measure", "--tasks", str(folder / "double.yaml"), "--program", str(compiled)]
    assert run("-o", str(tmp_path / "step"), *words) == 2
    assert "--tasks: the skill contains a solution of every task" in capsys.readouterr().err
    assert not (tmp_path / "step").exists() and engine.calls == 0
