"""The models of the structural IR.

Invariants: the types that a task's texts stand for are parsed once and follow its content; a task and its program come
apart and nothing else is lost.
"""

import pytest

from step_runtime import Task, dump_task, loads_task
from step_runtime.tasks import task as module
from step_runtime.tasks.task import SolvedTask
from tests.support.samples import MINIMAL

IMPL = "return step.Accum(fn=fn_sum, b=1).apply(E0)\n"


def test_sizes_are_zipped() -> None:
    """Lists of sizes give a set each, a single value holds in all, the defaults fill the rest."""
    assert loads_task(MINIMAL).size_sets() == [{"M": 5, "N": 7, "K": 9, "D": 16}, {"M": 6, "N": 4, "K": 10, "D": 8}]
    sets = loads_task(MINIMAL + "sizes: {M: [2, 3, 4], E: 3}\n").size_sets()
    assert [(s["M"], s["E"], s["D"]) for s in sets] == [(2, 3, 16), (3, 3, 8), (4, 3, 16)]


def test_types_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Element types and dims are read when they are first asked for, and stay with copies under other names."""
    task = loads_task(MINIMAL)
    found = task.input_types, task.parameter_types, task.output_types, task.fn_types
    assert [str(stream) for stream in (*task.input_types, *task.output_types)] == ["fp32 [M, N]", "fp32 [N]"]
    assert [[str(dtype) for dtype in pair] for pair in task.fn_types] == [["fp32", "fp32"]]
    monkeypatch.delattr(module, "parse_dtype")
    for other in (task, task.named("other"), task.without_impl()):
        assert (other.input_types, other.parameter_types, other.output_types, other.fn_types) == found


def test_a_copy_with_other_content_has_its_own_types_and_text() -> None:
    """What was parsed for the original is not taken over."""
    task = loads_task(MINIMAL)
    kept = task.input_types, task.statement
    other = task.model_copy(update={"inputs": [task.inputs[0].model_copy(update={"dims": ["K", "N"]})]})
    assert [str(stream) for stream in other.input_types] == ["fp32 [K, N]"]
    assert other.statement == dump_task(other) != task.statement
    assert (task.input_types, task.statement) == kept


def test_a_task_and_its_program_come_apart() -> None:
    """`solved` gives both, None where there is no program; the statement holds everything but the program."""
    task = loads_task(MINIMAL, "sum")
    solved = loads_task(MINIMAL + f"impl: |\n  {IMPL}", "sum")
    assert task.solved() is None and task.without_impl() is task
    assert solved.solved() == SolvedTask(task, IMPL)
    assert solved.without_impl().name == "sum"
    assert solved.statement == task.statement == dump_task(task)
    assert Task.model_validate(solved.model_dump()) == solved != task
    assert hash(task) == hash(loads_task(MINIMAL, "other"))
