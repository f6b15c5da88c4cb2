"""Programs priced in a process of their own."""

from pathlib import Path

import pytest

from pipeline.actions.price_program import Optimized, chip_of, draw_program, optimize, price_programs, pytest_script
from pipeline.base.errors import UsageError
from pipeline.cli.program_arguments import ProgramArguments, read_program
from pipeline.verification.task_files import load_task_named
from step_runtime.cost.chip import DEFAULT_CHIP
from tests.step_runtime.rewriting.test_optimizing import NEEDLESS
from tests.support.oracles import task
from tests.support.scripted_runs import RIGHT, TASK, tasks

OWN = tasks()[0]


def test_every_program_is_priced_or_has_findings() -> None:
    right, wrong = price_programs(OWN, [("right", RIGHT), ("wrong", "return E9")], DEFAULT_CHIP, {"M": 32})
    assert not isinstance(right.priced, tuple) and right.priced.cost.operations == 32
    assert isinstance(wrong.priced, tuple) and wrong.priced[0].stage == "parse"


def test_sizes_that_the_task_does_not_have_are_refused() -> None:
    with pytest.raises(UsageError, match="no dim Q"):
        price_programs(OWN, [("right", RIGHT)], DEFAULT_CHIP, {"Q": 32})


def test_the_chip_is_the_default_one_a_file_or_one_with_other_memory(tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text("rate: 2\nsram: 10")
    assert chip_of(None, None) is DEFAULT_CHIP
    assert (chip_of(str(path), None).sram, chip_of(str(path), 20).sram, chip_of(str(path), 20).rate) == (10, 20, 2)
    path.write_text("rate: x")
    with pytest.raises(UsageError, match="rate"):
        chip_of(str(path), None)


def test_a_program_becomes_cheaper() -> None:
    found = optimize(task("norm/2"), NEEDLESS, "memory", DEFAULT_CHIP, 40)
    assert isinstance(found, Optimized)
    assert found.best.cost.memory < found.given.cost.memory
    assert "drop a round trip" in found.best.rewrites and found.refused == 0


def test_a_wrong_program_gets_its_verdict() -> None:
    found = optimize(task("norm/2"), "return E0", "memory", DEFAULT_CHIP, 40)
    assert not isinstance(found, Optimized) and found.stage == "value"


@pytest.fixture
def arguments(tmp_path: Path) -> ProgramArguments:
    (tmp_path / "double.yaml").write_text(TASK)
    (tmp_path / "program.step").write_text(RIGHT)
    return ProgramArguments(task=str(tmp_path / "double.yaml"), impl=str(tmp_path / "program.step"))


def test_task_and_program_are_read_from_where_the_arguments_say(arguments: ProgramArguments) -> None:
    """As they stand."""
    task = load_task_named(arguments.task)
    text = read_program(arguments, task)
    assert text == RIGHT and [spec.name for spec in task.inputs] == ["E0"]


def test_a_picture_is_drawn_as_far_as_the_program_goes(arguments: ProgramArguments, tmp_path: Path) -> None:
    """Its errors are left to the verdict; a picture of another kind is refused."""
    pytest.importorskip("pygraphviz")
    for number, text in enumerate((RIGHT, "a = step.Streamify().apply(E0)\nreturn a")):
        path = tmp_path / f"{number}.svg"
        draw_program(arguments.task, text, str(path))
        assert "<svg" in path.read_text()
    with pytest.raises(UsageError, match=r"ends in \.svg"):
        draw_program(arguments.task, RIGHT, str(tmp_path / "graph.txt"))


def test_the_script_holds_task_program_and_type(arguments: ProgramArguments) -> None:
    """It depends on nothing of the project but the language."""
    found = load_task_named(arguments.task)
    script = pytest_script(found, RIGHT, "float64")
    compile(script, "script", "exec")
    assert "import pipeline" not in script and "from pipeline" not in script
    narrow = pytest_script(found, RIGHT, "float32")
    assert script != narrow and "float32" in narrow


def test_a_task_that_is_not_there_is_refused() -> None:
    """By the name that was given."""
    with pytest.raises(UsageError, match="nowhere"):
        load_task_named("nowhere.yaml")
