"""The best drafts of a length are continued; what they promise is found out as far as it matters."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.strong.levels import Child, Levels, State
from tests.support.beams import VIEW, beam_search

NONE = (0,) * len(VIEW.fns)


def levels_and_children(rival: float) -> tuple[Levels, list[Child]]:
    """What a search offers as its second move."""
    search = beam_search()
    levels = Levels(search._pool, rival)
    start = State(tuple(range(search._pool.first)), frozenset(), NONE, 0.0)
    search._continue([start], levels, 1, 40)
    search._continue([child.state(search._pool) for child in levels.best(1, 12)], levels, 2, 40)
    return levels, list(levels._levels[2])


def test_the_best_are_those_with_all_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same where nothing was settled before, and some that cannot be among them stay unsettled."""
    lazy, children = levels_and_children(0.0)
    eager, others = levels_and_children(0.0)
    monkeypatch.setattr("pipeline.lms.embedded.strong.levels.COMPLETE", 4)
    for child in others:
        for stream in child.fresh:
            eager._pool.settle(stream)
    length = 2
    found = lazy.best(length, 4)
    assert [child.fresh for child in found] == [child.fresh for child in eager.best(length, 4)]
    assert len(found) < len(children) and not all(lazy._pool._settled(child.fresh) for child in children)
    for complete in (False, True):
        promises = [child.promise(lazy._pool) for child in found if all(child.applied) == complete]
        assert promises == sorted(promises, reverse=True) and len(promises) == 4
    assert lazy.best(length, 4) == []


def test_drafts_that_apply_the_same_are_rivals() -> None:
    """With a high price for rivals, each function comes once before any comes twice."""
    levels, offered = levels_and_children(-1000.0)
    children = [child._replace(applied=(1 + number % 3, 0)) for number, child in enumerate(offered)]
    for child in children:
        levels.offer(1, child)
    found = levels.best(1, 12)
    kinds = {child.applied for child in children}
    assert {child.applied for child in found[: len(kinds)]} == kinds and len(found) > len(kinds) > 1


def test_of_one_set_of_streams_the_better_draft_is_kept() -> None:
    """Its state has the streams, what they are made of, and the score."""
    levels, children = levels_and_children(0.0)
    pool, child = levels._pool, next(child for child in children if not child.replayed)
    again = Levels(pool, 0.0)
    for own in (-3.0, 2.0, -1.0):
        again.offer(1, child._replace(own=own))
    (kept,) = again.best(1, 12)
    state, (stream,) = kept.state(pool), child.fresh
    assert kept.own == 2.0 and state.streams == (*child.parent.streams, stream)
    assert state.used == child.parent.used.union(pool.move(stream).sources)
    assert state.score == child.parent.score + 2.0 + pool.scores[stream]


def test_drafts_that_apply_all_functions_leave_room_for_others() -> None:
    """However much better they are, those that grow are continued beside them."""
    levels, children = levels_and_children(0.0)
    again = Levels(levels._pool, 0.0)
    every = (1,) * len(VIEW.fns)
    for number, child in enumerate(children):
        again.offer(1, child._replace(applied=every, own=100.0) if number else child._replace(applied=NONE))
    found = again.best(1, 12)
    assert found[0].applied == NONE and len(found) > 12 and {child.applied for child in found[1:]} == {every}


def test_what_is_made_again_counts_as_used() -> None:
    """The streams in place of which others are taken need no other use."""
    levels, (child, *_) = levels_and_children(0.0)
    loose = next(s for s in child.parent.streams if s not in child.state(levels._pool).used)
    assert loose in child._replace(replaced=(loose,)).state(levels._pool).used
