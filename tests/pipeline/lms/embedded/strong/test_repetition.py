"""Functions are repeated for what is like their earlier operands, and in rounds."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.strong.repetition import analogy, in_rounds, meets_itself
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import Coercion
from step_runtime.primitives import Repeat
from tests.support.samples import general

VIEW = TaskView(general())
TABLE = VIEW.table
FNS = {fn.label: fn for fn in VIEW.fns}
AS_IS = Coercion((), 0.0)


def move(name: str, *sources: int, result: int = 0) -> Move:
    return Move((FNS[name],), sources, (AS_IS,) * len(sources), result)


def test_a_round_begins_with_what_the_last_one_made() -> None:
    """Only where a loop runs so often, and not where a function merely takes its own result."""
    draft = Draft.start(TABLE.inputs)
    draft.add(move("fn_square", 0))
    own = analogy(TABLE, draft, move("fn_square", len(TABLE.inputs)), 3)
    draft.add(move("fn_sum", len(TABLE.inputs)))
    again = move("fn_square", len(TABLE.inputs) + 1)
    assert analogy(TABLE, draft, again, 3) > analogy(TABLE, draft, again, 1) == own > 0
    assert analogy(TABLE, draft, again, 1) > analogy(TABLE, draft, move("fn_square", 0), 1) == 0


def test_a_stream_may_meet_itself_along_a_dim() -> None:
    """Each element meets only itself where both operands are coerced in the same way."""
    across = Coercion((Repeat(VIEW.scope.dims["M"]),), 2.0)
    twice = move("fn_mul", 0, 0)
    assert meets_itself(twice)
    assert not meets_itself(Move(twice.fns, (0, 0), (AS_IS, across), 0))
    assert not meets_itself(move("fn_mul", 0, 3))


def test_a_draft_in_rounds_applies_a_function_as_often_as_a_loop_runs() -> None:
    """Neither less often nor more often."""
    draft = Draft.start(TABLE.inputs)
    found = []
    for _ in range(4):
        draft.add(move("fn_square", len(draft.streams) - 1))
        found.append(in_rounds(draft, (3,)))
    assert found == [False, False, True, False]
