"""Parsers derived from configs hold these:

- every field is an option, with its type, default and help text; only options that are given are reported;
- a value is refused in one line that names the option, what was expected and what was found;
- argparse's errors never print the usage text, and never exit.

The program that a command's arguments name: a file, stdin or the task's own.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.base.config import PlanOptions, ProgramConfig, RunConfig
from pipeline.base.errors import UsageError
from pipeline.cli.options import Item, Parser, ProgramName, names_many, read_program, resolve
from tests.support.scripted_runs import RIGHT, TASK, tasks


def parser() -> Parser:
    return Parser("pipeline.example", "An example.", "", RunConfig)


def test_only_what_is_given_is_reported() -> None:
    """With the field's type; the rest has the config's defaults."""
    given = parser().given(
        ["--temperatures", "1.0,0.4", "--no-ir", "--tasks", "a", "b", "--max-usd", "2", "--seed", "7"]
    )
    assert given == {"temperatures": (1.0, 0.4), "no_ir": True, "tasks": ["a", "b"], "max_usd": 2.0, "seed": 7}
    assert parser().given([]) == {}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--samples", "0"], "--samples: expected a whole number of 1 or more, got '0'"),
        (["--seed", "-1"], "--seed: expected"),
        (["--max-minutes", "nan"], "--max-minutes: expected a number greater than 0, got 'nan'"),
        (["--max-usd", "inf"], "--max-usd: expected a number greater than 0"),
        (["--temperatures", "0.4,0.4"], "--temperatures: expected distinct numbers"),
        (["--temperatures", "nan"], "--temperatures: expected distinct numbers from 0 to 2"),
        (["--guardian", "angel"], "--guardian: invalid choice: 'angel'"),
        (["--sample", "3"], "unrecognized arguments: --sample 3"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(
    argv: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option and what it accepts; nothing else is printed."""
    with pytest.raises(UsageError) as caught:
        parser().given(argv)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("model", [RunConfig, ProgramConfig, PlanOptions])
def test_help_shows_every_field_with_its_default(
    model: type[RunConfig | ProgramConfig | PlanOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """Derived from the fields, so that no option lacks a text or states another default."""
    with pytest.raises(SystemExit):
        Parser("pipeline.example", "An example.", "", model).given(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name.replace('_', '-')}" in text for name in model.model_fields)
    assert all(f"(default: {shown})" in text for shown in ("4096", "64", "0.4,0.7,1.0", "0"))


OWN = tasks()[0]


def test_a_program_is_read_from_a_file_stdin_or_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named takes precedence over the task's own program."""
    file = tmp_path / "program.step"
    file.write_text(RIGHT)
    monkeypatch.setattr("sys.stdin", io.StringIO("return E0"))
    own = OWN.model_copy(update={"impl": "return 1"})
    assert read_program(ProgramName(task="t", impl=str(file)), own) == RIGHT
    assert read_program(ProgramName(task="t", impl="-"), own) == "return E0"
    assert read_program(ProgramName(task="t"), own) == "return 1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(TASK)
        (tmp_path / f"{name}.step").write_text(RIGHT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_task_and_a_program_are_one_item(folder: Path) -> None:
    """And not many; its label is what was typed."""
    (item,) = resolve(["a.yaml", "a.step"])
    assert item == Item(folder / "a.yaml", "a.step") and item.text == RIGHT and item.label == "a.yaml a.step"
    assert not names_many(["a.yaml", "a.step"]) and not names_many(["a.yaml"]) and not names_many(["a.yaml", "-"])


def test_pairs_folders_patterns_and_benchmark_names_may_be_mixed(folder: Path) -> None:
    """Each program belongs to the task before it; files of either ending are tasks."""
    (folder / "sub" / "c.yaml").rename(folder / "sub" / "c.yml")
    items = resolve(["a.yaml", "a.step", "b.yaml", "sub", "*.yaml", "gemm/1", "b.step"])
    found = [(item.task.name, item.program) for item in items]
    assert found == [("a.yaml", "a.step"), ("b.yaml", None), ("c.yml", None), ("a.yaml", None), ("b.yaml", None),
                     ("1.yaml", "b.step")]  # fmt: skip
    assert all(names_many(names) for names in (["a.yaml", "b.yaml"], ["sub"], ["*.yaml"], ["gemm/1", "gemm/2"]))


def test_a_folder_gives_programs_by_the_end_of_a_tasks_path(folder: Path) -> None:
    """The longest match counts; a task without any keeps its own `impl`."""
    (folder / "c.step").write_text("other")
    (folder / "b.step").unlink()
    assert [item.program for item in resolve(["sub", "b.yaml", "a.yaml", "a.step"], ".")] == [
        "sub/c.step",
        None,
        "a.step",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.yaml", "a.step", "b.step"], "b.step: a program without a task before it"),
        (["*.yaml", "a.step"], r"\*.yaml: stands for 2 tasks; name one"),
        (["none.yaml"], "none.yaml: no such task"),
        (["a.yaml", "-", "b.yaml", "-"], "-: standard input holds one program"),
    ],
)
def test_names_that_do_not_fit_are_refused(folder: Path, names: list[str], message: str) -> None:
    """With the name concerned."""
    with pytest.raises(UsageError, match=message):
        resolve(names)


def test_a_file_whose_name_reads_like_a_pattern_is_that_file(folder: Path) -> None:
    """Brackets and stars in the names of programs, of tasks, and of programs found in a folder."""
    for name in ("a[1]", "[b]", "c*"):
        (folder / f"{name}.yaml").write_text(TASK)
        (folder / f"{name}.step").write_text(RIGHT)
        (item,) = resolve([f"{name}.yaml", f"{name}.step"])
        assert (item.task.name, item.program) == (f"{name}.yaml", f"{name}.step")
        assert [found.program for found in resolve([f"{name}.yaml"], ".")] == [f"{name}.step"]
        assert not names_many([f"{name}.yaml", f"{name}.step"])
