"""Streams that drafts share exist once, with their score."""

from __future__ import annotations

from contextlib import suppress
from operator import ge

import pytest

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.types.coercions import Coercion
from step_runtime.primitives import Repeat
from tests.support.beams import VIEW, beam_search

AS_IS = Coercion((), 0.0)
FIRST = next(fn for fn in VIEW.fns if fn.label == "fn_first")
X = VIEW.table.inputs[0]


def pool(trust: float) -> StreamPool:
    steps = StepLimit(10**6)
    return StreamPool(VIEW.table, VIEW.dependences, DimGuide(VIEW.influence, steps), steps, trust)


def test_one_move_makes_one_stream() -> None:
    """Another coercion makes another."""
    shared = pool(1.0)
    dim = VIEW.table.types[X].shape[0]
    moves = [Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), Move((FIRST,), (0, 1), (AS_IS, Coercion((Repeat(dim),), 2)), X)]
    first, second = (shared.add(move, -1.0) for move in moves)
    assert (first, second) == (3, 4) and shared.add(moves[0], -5.0) == first
    assert shared.move(first) == moves[0] and shared.type_of(first) == X


def test_a_stream_that_the_reference_lacks_scores_less_the_more_it_is_trusted() -> None:
    """Without trust the score is that of the types alone."""
    move = Move((FIRST,), (1, 2), (AS_IS, AS_IS), VIEW.table.inputs[1])
    scores = [(shared := pool(trust)).scores[shared.add(move, -1.0)] for trust in (0.0, 0.5, 1.0)]
    assert scores[0] == -1.0 and scores == sorted(scores, reverse=True)


def test_items_come_best_first_and_the_others_are_not_looked_into() -> None:
    """The order is that of all scores settled; what cannot be better is not settled."""
    searches = [beam_search(steps=150_000), beam_search(steps=150_000)]
    for search in searches:
        with suppress(StepsExhausted):
            search.run()
        search._steps.most = 10**9
    shared, settled = (search._pool for search in searches)
    streams = range(shared.first, len(shared.scores))
    bounds = list(shared.scores)
    for stream in streams:
        settled.settle(stream)
    wanted = sorted((settled.scores[stream] for stream in streams), reverse=True)
    found = shared.best_first(streams, shared.scores.__getitem__, lambda stream: (stream,))
    assert next(found)[0] == wanted[0] and shared.scores != settled.scores
    assert [score for score, _ in found] == wanted[1:] and shared.scores == settled.scores
    assert all(map(ge, bounds, shared.scores)) and bounds != shared.scores


def test_some_of_its_streams_make_a_draft() -> None:
    """Their dependences follow them under their new numbers."""
    shared = pool(1.0)
    shared.add(Move((FIRST,), (1, 2), (AS_IS, AS_IS), VIEW.table.inputs[1]), 0.0)
    kept = shared.add(Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), 0.0)
    draft = Draft.start(VIEW.table.inputs)
    draft.add(shared.move(kept))
    guide = shared.numbered(draft, {0: 0, 1: 1, 2: 2, kept: 3})
    assert guide.matches(3, 0) == shared.guide.matches(kept, 0)


def test_a_stream_that_the_reference_does_not_compute_on_its_way_scores_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: what is made of it does not score less again."""
    beside = Move((FIRST,), (0, 1), (AS_IS, AS_IS), X)
    after = Move((FIRST,), (3, 1), (AS_IS, AS_IS), X)
    scores = []
    for passed in (1.0, 0.5, 0.0):
        monkeypatch.setattr(DimGuide, "passes", lambda *_, passed=passed: passed)
        shared = pool(1.0)
        streams = [shared.add(move, 0.0) for move in (beside, after)]
        shared.settle(streams[-1])
        scores.append([shared.scores[stream] for stream in streams])
    assert scores[0][0] > scores[1][0] > scores[2][0]
    assert len({after for _, after in scores}) == 1


def test_a_stream_scores_less_if_no_value_of_the_reference_depends_on_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Less so where its operands have such ones already, and once only where it resembles one."""
    moves = [Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), Move((FIRST,), (3, 1), (AS_IS, AS_IS), X)]
    scores = []
    for passed, resembles in ((1.0, 1.0), (0.0, 0.0), (0.0, 1.0)):
        monkeypatch.setattr(DependenceGuide, "passes", lambda *_, passed=passed: passed)
        monkeypatch.setattr(DependenceGuide, "resembles", lambda *_, resembles=resembles: resembles)
        shared = pool(1.0)
        scores.append([shared.scores[shared.add(move, 0.0)] for move in moves])
    (alike, alike_again), *others = scores
    (lost, lost_again), (doubted, doubted_again) = ((alike - one, alike_again - other) for one, other in others)
    assert lost > lost_again > 0.0 and lost > doubted > 0.0 == doubted_again


def test_a_stream_that_is_made_again_is_judged_as_the_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no score of its own, and what is made of it is compared with what the other one has."""
    monkeypatch.setattr(DimGuide, "passes", lambda *_: 0.5)
    shared = pool(1.0)
    dim = VIEW.table.types[X].shape[0]
    stream = shared.add(Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), -1.0)
    larger = Move((FIRST,), (0, 1), (AS_IS, Coercion((Repeat(dim),), 2)), X)
    again = shared.again(larger, stream)
    for each in (again, stream):
        shared.settle(each)
    assert shared.scores[again] == 0.0 > shared.scores[stream] and shared.reached[again] == 0
    assert shared._passes[again] == shared._passes[stream] and shared._fits[again] == shared._fits[stream]
    assert shared.again(larger, stream) == again == shared.add(larger, -7.0)


def test_a_stream_that_loses_all_that_it_is_made_of_scores_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its elements get nothing from an input, as a mask leaves nothing."""
    scores = []
    for loses in (False, True):
        monkeypatch.setattr(DimGuide, "loses", lambda *_, loses=loses: loses)
        shared = pool(1.0)
        stream = shared.add(Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), 0.0)
        shared.settle(stream)
        scores.append(shared.scores[stream])
    assert scores[1] < scores[0] - 5.0


def test_what_an_input_has_too_much_is_not_held_against_its_first_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference may leave some of its elements out, as the decay of a state that is still zero."""
    scores = []
    for inputs in (1.0, 0.5):
        monkeypatch.setattr(
            DimGuide, "fit", lambda self, number, _, inputs=inputs: inputs if number in self.inputs else 0.5
        )
        shared = pool(1.0)
        stream = shared.add(Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), 0.0)
        shared.settle(stream)
        scores.append(shared.scores[stream])
        monkeypatch.undo()
    assert scores[0] < scores[1] - 5.0


def test_a_scan_that_counts_varies_along_what_is_only_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other fold over a dim along which nothing varies scores less."""
    scores = []
    for counts in (False, True):
        monkeypatch.setattr(DependenceGuide, "counts", lambda *_, counts=counts: counts)
        monkeypatch.setattr("pipeline.lms.embedded.strong.stream_pool.after", lambda *_: (frozenset(), 1))
        shared = pool(1.0)
        scores.append(shared.scores[shared.add(Move((FIRST,), (0, 1), (AS_IS, AS_IS), X), 0.0)])
    assert scores[0] < scores[1]
