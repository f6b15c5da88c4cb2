"""A sample has a bound that is counted in its own steps, whatever the task."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lms.embedded.small import small_proposer
from pipeline.lms.embedded.small.small_proposer import SmallProposer
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong import strong_proposer
from pipeline.lms.embedded.strong.strong_proposer import Effort, StrongProposer
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task

HERE = Path(__file__).parent / "data"
LARGEST_CHARGE = 10_000
"""More than what is counted at once."""


def function(name: str, components: int, apply: str) -> str:
    """A function on `components` numbers, as a task file writes it."""
    dtype = "fp32" if components == 1 else f"[{', '.join(['fp32'] * components)}]"
    return (
        f"- name: {name}\n  apply: |\n    return [{apply}]\n  input_dtype: {dtype}\n  output_dtype: fp32\n"
        f"  func_name: fn_{name}\n"
    )


def made_up(inputs: int, functions: list[str], reference: str) -> Task:
    """A task with so many inputs of one type."""
    streams = "".join(f"- {{name: X{i}, dtype: fp32, dims: [N], data_gen: torch.randn}}\n" for i in range(inputs))
    output = f"outputs:\n- name: O\n  dtype: fp32\n  dims: [N]\n  data_transform:\n  - {reference}\n"
    return loads_task(f"inputs:\n{streams}fns:\n{''.join(functions)}{output}sizes: {{N: [4, 7]}}\n", "made_up")


def worst_cases() -> dict[str, Task]:
    eight = " + ".join(f"input[{i}] ** {i + 1}" for i in range(8))
    return {
        "alibi_attention": loads_task((HERE / "alibi_attention.yaml").read_text(), "alibi_attention"),
        "thirty functions of one signature": made_up(
            2,
            [function(f"f{i}", 2, f"input[0] * {i + 2} + input[1]") for i in range(30)],
            "input_data['X0'] * 17 + input_data['X1']",
        ),
        "twelve inputs": made_up(
            12,
            [
                function("pair", 2, "input[0] * input[1]"),
                function("four", 4, "input[0] + input[1] * input[2] / input[3]"),
            ],
            "input_data['X0'] * input_data['X1']",
        ),
        "tuples of eight": made_up(
            9, [function("eight", 8, eight), function("one", 1, "input[0] + 1")], "input_data['X0'] + 1"
        ),
    }


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    """The worst cases by name."""
    return worst_cases()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[StepLimit]:
    """The limits of all samples that are taken."""
    made: list[StepLimit] = []

    class Recorded(StepLimit):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            made.append(self)

    monkeypatch.setattr(strong_proposer, "StepLimit", Recorded)
    monkeypatch.setattr(small_proposer, "StepLimit", Recorded)
    return made


def sampled(proposer: StrongProposer | SmallProposer, task: Task, seed: int) -> str | None:
    """One sample without examples, on a view of its own."""
    return proposer.propose(TaskView(task), ((), ()), seed, 0.7)


@pytest.mark.parametrize("name", list(worst_cases()))
@pytest.mark.parametrize("proposer", [StrongProposer(), SmallProposer()], ids=["strong", "small"])
def test_no_sample_takes_more_than_its_steps(
    proposer: StrongProposer | SmallProposer, name: str, tasks: dict[str, Task], limits: list[StepLimit]
) -> None:
    """A sample of any task ends within its steps, with a program that parses or none."""
    program = sampled(proposer, tasks[name], 0)
    (limit,) = limits
    assert 0 < limit.used <= limit.most + LARGEST_CHARGE
    if program is not None:
        assert parse(program, TaskView(tasks[name]).scope)[1] == []


@pytest.mark.parametrize("proposer", [StrongProposer(Effort(steps=20_000)), SmallProposer(20_000)])
def test_the_count_does_not_depend_on_earlier_samples(
    proposer: StrongProposer | SmallProposer, tasks: dict[str, Task], limits: list[StepLimit]
) -> None:
    """A sample counts the same steps and gives the same answer whether caches are empty or full."""
    view = TaskView(tasks["alibi_attention"])
    first = [proposer.propose(view, ((), ()), seed, 0.7) for seed in (0, 1, 0)]
    used = [limit.used for limit in limits]
    assert (first[0], used[0]) == (first[2], used[2])


def test_without_steps_there_is_no_program(tasks: dict[str, Task]) -> None:
    """A sample that ends before its first draft is none."""
    assert sampled(StrongProposer(Effort(steps=10)), tasks["alibi_attention"], 0) is None
    assert sampled(SmallProposer(10), tasks["alibi_attention"], 0) is None


def test_repeated_work_counts_once() -> None:
    """The same piece of work counts in full the first time only, and the limit itself may be reached."""
    limit = StepLimit(11)
    limit.spend_once("work", 9)
    limit.spend_once("work", 9)
    limit.spend()
    assert limit.used == 11
    with pytest.raises(StepsExhausted):
        limit.spend()


@pytest.mark.parametrize("proposer", [StrongProposer(), SmallProposer()], ids=["strong", "small"])
def test_an_index_is_a_stream_of_its_own(proposer: StrongProposer | SmallProposer) -> None:
    """A stream of tuples that hold data and index can't route: no sample breaks a rule of Partition."""
    task = loads_task((HERE / "capacity_moe.yaml").read_text(), "capacity_moe")
    view = TaskView(task)
    found = [proposer.propose(view, ((), ()), seed, 0.7) for seed in range(8)]
    assert all(parse(program, view.scope)[1] == [] for program in found if program is not None)
