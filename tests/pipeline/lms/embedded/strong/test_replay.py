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


def repeated(
    rounds: tuple[int, ...], loose: list[int], draft: Draft | None = None, looped: bool | None = None
) -> list[list[tuple[int, ...]]]:
    """The sources of the moves that each repetition adds; only of those that a loop counts, or does not, if given."""
    draft = draft or filtered()
    found: list[list[tuple[int, ...]]] = []
    made: list[tuple[int, ...]] = []

    def rebuild(move: Move, sources: tuple[int, ...], wanted: TypeId) -> int:
        made.append(sources)
        draft.add(Move(move.fns, sources, move.coercions, wanted))
        return len(draft.streams) - 1

    streams = range(len(draft.streams))
    for _, counted in Replay(TABLE, draft, rounds).repeated(streams, loose, rebuild):
        if looped in (None, counted):
            found.append(made.copy())
        made.clear()
    return found


def test_an_input_that_is_left_begins_another_round() -> None:
    """The result of the first takes the place of what it was made of."""
    assert [(4, HIGH), (5,)] in repeated((), [HIGH])


def test_a_loop_of_the_reference_says_how_often() -> None:
    """Without an input that is left, a section is made as often as a loop runs, once less."""
    assert repeated((3,), [], looped=True) == [[(4, LOW), (5,), (6, LOW), (7,)]]
    assert repeated((3,), [], looped=False) == []


def test_without_a_loop_or_another_input_nothing_chains() -> None:
    """Only exchanges of inputs of one kind are left."""
    assert repeated((), []) == []


def test_a_section_is_made_for_all_inputs_of_a_kind_at_once() -> None:
    """For one of them alone as well."""
    draft = Draft.start(TABLE.inputs * 2)
    draft.add(Move((FIRST,), (LOW, X), (AS_IS, AS_IS), TABLE.inputs[LOW]))
    replay = Replay(TABLE, draft, ())
    replay._first = len(draft.streams) - 1
    newest, others = len(draft.streams) - 1, [HIGH, LOW + 3, HIGH + 3]
    found = [[change for change in section.rounds if LOW in change] for section in replay._parallels(newest, others)]
    assert [{LOW: other} for other in others] in found and [{LOW: HIGH}] in found


def test_a_move_is_made_for_what_another_one_takes_beside_its_operand() -> None:
    """Both are operands of one kind."""
    draft = Draft.start(TABLE.inputs)
    draft.add(Move((FIRST,), (LOW, HIGH), (AS_IS, AS_IS), TABLE.inputs[LOW]))
    draft.add(Move((DECAY,), (LOW,), (AS_IS,), TABLE.inputs[X]))
    assert [(HIGH,)] in repeated((), [], draft)


def changes(draft: Draft, inputs: int, unused: list[int]) -> list[list[dict[int, int]]]:
    """What is exchanged in the sections for other inputs, of which there are so many."""
    replay = Replay(TABLE, draft, ())
    replay._first = inputs
    return [[*map(dict, section.rounds)] for section in replay._parallels(len(draft.streams) - 1, unused)]


def test_several_inputs_are_exchanged_at_once() -> None:
    """Each for one of its type, as they are listed, as often as there are others."""
    draft = Draft.start(TABLE.inputs[:2] * 3)
    draft.add(Move((DECAY,), (X, LOW), (AS_IS, AS_IS), PAIR))
    assert [{0: 2, 1: 3}, {0: 4, 1: 5}] in changes(draft, 6, [2, 3, 4, 5])


def test_inputs_are_exchanged_for_those_that_are_as_far_in_the_list() -> None:
    """Where a section takes the first input of one group and the second of another, and others are left."""
    draft = Draft.start([TABLE.inputs[LOW]] * 4)
    draft.add(Move((FIRST,), (0, 3), (AS_IS, AS_IS), TABLE.inputs[LOW]))
    assert [{0: 2, 3: 1}] in changes(draft, 4, [1, 2])


def test_what_enters_a_loop_may_keep_its_other_uses() -> None:
    """Another section exchanges only the first use: here of LOW, which the second function takes again."""
    draft = Draft.start(TABLE.inputs)
    draft.add(Move((DECAY,), (X, LOW), (AS_IS, AS_IS), PAIR))
    draft.add(Move((FIRST,), (3, LOW), (AS_IS, AS_IS), TABLE.inputs[LOW]))
    found = repeated((2,), [], draft, looped=True)
    assert [(X, 4), (5, 4)] in found and [(X, 4), (7, LOW)] in found


def test_a_loop_may_carry_several_values() -> None:
    """An input that the round changes as well is exchanged too."""
    draft = Draft.start(TABLE.inputs)
    draft.add(Move((FIRST,), (LOW, HIGH), (AS_IS, AS_IS), TABLE.inputs[LOW]))
    draft.add(Move((DECAY,), (HIGH, 3), (AS_IS, AS_IS), TABLE.inputs[HIGH]))
    assert [(3, 4), (4, 7)] in repeated((2,), [], draft, looped=True)
