"""The models of the structural IR.

Invariants: the types that a task's texts stand for are parsed once and follow its content; a task and its program come
apart and nothing else is lost.
"""

import ast
import pickle

import pytest

from step_runtime import Task, dump_task, loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.snippets import (
    FP32,
    NARROW,
    NOTHING,
    compile_value,
    widened,
    widening,
)
from step_runtime.tasks.task import SolvedTask
from step_runtime.verification.instance import TaskInstance
from tests.support.samples import MINIMAL, general

IMPL = "return step.Accum(fn=fn_sum, b=1).apply(E0)\n"


def test_sizes_are_zipped() -> None:
    """Lists of sizes give a set each, a single value holds in all, the defaults fill the rest."""
    assert loads_task(MINIMAL).size_sets() == [{"M": 5, "N": 7, "K": 9, "D": 16}, {"M": 6, "N": 4, "K": 10, "D": 8}]
    sets = loads_task(MINIMAL + "sizes: {M: [2, 3, 4], E: 3}\n").size_sets()
    assert [(s["M"], s["E"], s["D"]) for s in sets] == [(2, 3, 16), (3, 3, 8), (4, 3, 16)]


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


def test_the_scope_read_without_running_anything_is_that_of_the_instance() -> None:
    """Inputs, functions, dims, sizes and lists of functions are the same in the text and by the running task."""
    static, running = static_scope(general()), TaskInstance(general(), general().size_sets()[0]).scope
    assert static.inputs == running.inputs and static.outputs == running.outputs and static.sizes == running.sizes
    assert list(static.fns) == list(running.fns) and static.dims == running.dims
    assert {name: [fn.label for fn in fns] for name, fns in static.lists.items()} == {
        name: [fn.label for fn in fns] for name, fns in running.lists.items()
    }
    assert [fn.stateful for fn in static.fns.values()] == [fn.stateful for fn in running.fns.values()]


def test_dims_without_a_size_are_out_of_scope() -> None:
    """A dim that has no size cannot be named by a program."""
    task = loads_task(MINIMAL)
    assert "E" not in TaskInstance(task, task.size_sets()[0]).scope.dims


def test_a_scope_without_code_keeps_every_declaration_and_can_be_pickled() -> None:
    """Its functions have the names, types and kinds of the task's, and refuse to run."""
    running = TaskInstance(general(), general().size_sets()[0]).scope
    bare = pickle.loads(pickle.dumps(running.without_code()))
    assert [(fn.label, fn.input, fn.output, fn.stateful) for fn in bare.fns.values()] == [
        (fn.label, fn.input, fn.output, fn.stateful) for fn in running.fns.values()
    ]
    assert [fn.label for fn in bare.lists["experts"]] == ["fn_a", "fn_b", "fn_c"]
    with pytest.raises(TypeError, match="fn_a has no code"):
        bare.fns["fn_a"].apply([])


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("x.to(torch.float32)", "x.to(torch.float64)"),
        ("x.half() + x.float()", "x.double() + x.double()"),
        ("from torch import bfloat16", "from torch import float64 as bfloat16"),
        ("x.type('torch.FloatTensor')", "x.type('torch.DoubleTensor')"),
        ("torch.HalfTensor([1])", "torch.DoubleTensor([1])"),
        ("float(x).hex() + x.int()", "float(x).hex() + x.int()"),
    ],
)
def test_narrow_float_types_are_widened_and_nothing_else(narrow: str, wide: str) -> None:
    """Types, methods, imports and tensor names; Python's own `float` stays."""
    assert ast.unparse(widened(ast.parse(narrow), NARROW)) == wide


@pytest.mark.parametrize("source", ["", "for x in []:\n    pass"])
def test_code_that_ends_without_a_value_is_refused(source: str) -> None:
    """Nothing, or a statement, is not a reference."""
    with pytest.raises(ValueError, match="the last line has no value"):
        compile_value(source, "data_transform", "result", widen=NOTHING)


def test_formats_that_a_task_names_are_not_widened() -> None:
    """Where a task names formats, only float32 is read as float64; a run in float32 reads all as written."""
    code = "a = x.float() + x.half() + x.to(torch.float32) + x.to(torch.bfloat16) + torch.FloatTensor([1])"
    assert widening(float64=True, formats=True) == FP32
    assert widening(float64=True, formats=False) == NARROW
    assert widening(float64=False, formats=True) == widening(float64=False, formats=False) == NOTHING
    assert ast.unparse(widened(ast.parse(code), FP32)) == (
        "a = x.double() + x.half() + x.to(torch.float64) + x.to(torch.bfloat16) + torch.DoubleTensor([1])"
    )
    assert ast.unparse(widened(ast.parse(code), NOTHING)) == code
