"""The beginning of a program, read into the values that its next line can use."""

import pytest

from pipeline.synthesis.next_lines import PartialProgram
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.primitives import Bufferize, Map
from step_runtime.tasks.scope import static_scope
from tests.support.benchmark_tasks import task_named
from tests.support.oracles import oracle

SCOPE = static_scope(task_named("etoe/0"))
BEGUN = "E1 = step.Bufferize(a=1).apply(E0)\nE2 = step.Map(fn=fn_gate).apply(E1)\n"


def read(text: str) -> PartialProgram:
    return PartialProgram.read(text, SCOPE, TypeSpace(SCOPE))


def test_values_are_inputs_and_what_functions_make() -> None:
    """Structural primitives in between are not, nor do they use a value."""
    program = read(BEGUN)
    assert [value.stream for value in program.values] == [0, 2]
    assert [value.stream for value in program.unused] == [2]
    assert [value.stream for value in read(BEGUN.partition("\n")[0]).unused] == [0]
    assert {fn.label: count for fn, count in program.times.items()} == {"fn_gate": 1}


def test_pieces_of_a_routing_are_no_values() -> None:
    """What merges them is; a whole program has returned its value, and Copies don't count."""
    program = read(oracle("etoe/0"))
    assert program.returned
    assert len(program.values) == 4
    assert not program.unused


def test_further_lines_share_streams_and_take_fresh_names() -> None:
    """An equal primitive is not written again, and no name is given twice."""
    lines = read(f"E5 = step.Identity().apply(E0)\n{BEGUN}").lines()
    made = lines.add(Map(SCOPE.fns["fn_gate"]), *lines.add(Bufferize(1), 0))
    assert not lines.nodes_added
    lines.add(Map(SCOPE.fns["fn_top1"]), *made)
    assert lines.text() == "E3 = step.Map(fn=fn_top1).apply(E2)"
    assert lines.returning(made) == f"{lines.text()}\nreturn E2"


def test_a_placeholder_is_flattened_when_its_value_is_used() -> None:
    """The value's type has none, though the stream that the lines so far end with does."""
    scope = static_scope(task_named("gemm/1"))
    text = "E3 = step.Promote(b=1).apply(E0)\nE4 = step.Scan(fn=fn_add, b=1).apply(E3)\n"
    program = PartialProgram.read(text, scope, TypeSpace(scope))
    lines = program.lines()
    lines.stream(program.values[-1])
    assert lines.text() == "E2 = step.Flatten(L=[1]).apply(E4)"


def test_a_text_that_is_no_beginning_is_refused() -> None:
    """With the checker's own words."""
    with pytest.raises(ValueError, match="fn_nobody"):
        read("E1 = step.Map(fn=fn_nobody).apply(E0)\n")
