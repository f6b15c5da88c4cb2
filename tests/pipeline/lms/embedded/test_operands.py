"""Which streams can be the operands of a function."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.operands import find_operands
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.task_view import TaskView
from tests.support.samples import general

VIEW = TaskView(general())
SCALE, MUL = (next(c for c in VIEW.callees if c.fn.label == f"fn_{name}") for name in ("scale", "mul"))
INPUTS = VIEW.table.inputs


def found(callee: object, newest: int) -> list[tuple[int, ...]]:
    steps = StepLimit(1000)
    return [each.sources for each in find_operands(INPUTS, range(4), callee, newest, steps)]  # type: ignore[arg-type]


def test_each_component_is_served_by_a_stream_of_its_type() -> None:
    """E0 and E3 are scalars, E1 holds buffers; the index E2 serves nothing."""
    assert (3, 1) in found(SCALE, 1) and (0, 1) in found(SCALE, 1)
    assert all(2 not in sources for sources in found(MUL, 0))


def test_the_newest_stream_is_always_among_them() -> None:
    """What could be had without it was found before."""
    assert found(MUL, 3) and all(3 in sources for sources in found(MUL, 3))


def test_all_that_include_the_newest_stream_are_found() -> None:
    """They are those of any choice of streams that serve the components in order."""
    pairs = [(one, other) for one in (0, 1, 3) for other in (0, 1, 3)]
    fitting = [pair for pair in pairs if all(MUL.fit(INPUTS[stream], place)[0] for place, stream in enumerate(pair))]
    for newest in (0, 3):
        assert set(found(MUL, newest)) == {pair for pair in fitting if newest in pair}


def test_a_stream_may_serve_only_once() -> None:
    """Then the same pairs are found but those of one stream with itself."""
    pairs = [each.sources for each in find_operands(INPUTS, range(4), MUL, 3, StepLimit(1000), once=True)]
    assert (3, 3) in found(MUL, 3) and pairs == [pair for pair in found(MUL, 3) if pair != (3, 3)]


def test_a_stream_serves_components_from_a_place_on() -> None:
    """The type that it serves is one component, or a tuple of several."""
    assert SCALE.fit(INPUTS[0], 0)[0] == 1 and SCALE.fit(INPUTS[2], 0)[0] == 0
    assert [str(each) for each in SCALE.operand_types((1, 1))] == ["fp32", "Buffer(fp32, [D])"]
    assert [str(each) for each in SCALE.operand_types((2,))] == ["[fp32, Buffer(fp32, [D])]"]


def test_the_search_spends_steps() -> None:
    """A sample that has used all of them ends."""
    with pytest.raises(StepsExhausted):
        list(find_operands(INPUTS, range(4), MUL, 0, StepLimit(1)))
