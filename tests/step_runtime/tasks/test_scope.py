"""The names that a program may use, read off a task's text alone."""

import pickle

import pytest

from step_runtime import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.instance import TaskInstance
from tests.support.samples import MINIMAL, general


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
