"""Sections of a draft are made again: in rounds, and for other inputs."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.strong.replay import Replay
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import TypeId
from step_runtime.base.types import StreamType
from tests.support.beams import VIEW

TABLE = VIEW.table
X, LOW, HIGH = range(3)
DECAY, FIRST = VIEW.fns
AS_IS = Coercion((), 0.0)
PAIR = TABLE.intern(StreamType(DECAY.output, TABLE.types[TABLE.inputs[X]].shape))


def filtered() -> Draft:
    """X through one filter: streams 3 and 4."""
    draft = Draft.start(TABLE.inputs)
    draft.add(Move((DECAY,), (X, LOW), (AS_IS, AS_IS), PAIR))
    draft.add(Move((FIRST,), (3,), (AS_IS,), TABLE.inputs[X]))
    return draft


def repeated(rounds: tuple[int, ...], unused: list[int]) -> list[list[tuple[int, ...]]]:
    """The sources of the moves that each repetition adds."""
    draft = filtered()
    found: list[list[tuple[int, ...]]] = []
    made: list[tuple[int, ...]] = []

    def rebuild(move: Move, sources: tuple[int, ...], wanted: TypeId) -> int:
        made.append(sources)
        draft.add(Move(move.fns, sources, move.coercions, wanted))
        return len(draft.streams) - 1

    for _ in Replay(TABLE, draft, rounds).repeated(4, unused, rebuild):
        found.append(made.copy())
        made.clear()
    return found


def test_an_input_that_is_left_begins_another_round() -> None:
    """The result of the first takes the place of what it was made of."""
    assert [(4, HIGH), (5,)] in repeated((), [HIGH])


def test_a_loop_of_the_reference_says_how_often() -> None:
    """Without an input that is left, a section is made as often as a loop runs, once less."""
    (two, *_) = repeated((3,), [])
    assert two == [(4, LOW), (5,), (6, LOW), (7,)]


def test_without_a_loop_or_another_input_nothing_chains() -> None:
    """Only exchanges of inputs of one kind are left."""
    assert repeated((), []) == []
