"""The properties of drafts add up move by move, and say what is taken and left over."""

from __future__ import annotations

from pipeline.lms.embedded.strong.draft_properties import UNIT, DraftProperties
from pipeline.lms.embedded.strong.levels import Child, Levels, State
from pipeline.lms.embedded.strong.search_style import SearchStyle
from tests.support.beams import VIEW, beam_search

_WHOLE = 25
"""The number of properties of a draft as a whole, which come last."""


def offered() -> tuple[DraftProperties, list[Child], list[Child]]:
    """The first moves of a search, and the second ones."""
    search = beam_search()
    levels = Levels(search._pool, 0.0)
    start = State(tuple(range(search._pool.first)), frozenset(), (0,) * len(VIEW.fns), 0.0)
    search._continue([start], levels, 1, 40)
    first = levels.best(1, 12)
    search._continue([child.state(search._pool) for child in first], levels, 2, 40)
    return DraftProperties(VIEW, search._pool, SearchStyle()), first, levels.best(2, 40)


def test_the_properties_of_moves_add_up() -> None:
    """Those of a draft are those of its parent and those of the newest move, in whatever order drafts are met."""
    properties, first, second = offered()
    child = next(child for child in second if not child.replayed)
    parent = next(one for one in first if one.state(properties.pool).streams == child.parent.streams)
    before = properties.matrix(1, [(0.0, parent)])[0, :-_WHOLE]
    after = properties.matrix(2, [(0.0, child)])[0, :-_WHOLE]
    alone = DraftProperties(VIEW, properties.pool, SearchStyle())
    newest = alone.matrix(2, [(0.0, child)])[0, :-_WHOLE]
    assert (after == before + newest).all() and newest.any()


def test_a_draft_is_described_beside_the_best_one() -> None:
    """Its score, how far it is behind, and its place are counted in parts of 1."""
    properties, _, second = offered()
    rows = properties.matrix(2, [(-1.5, second[0]), (-3.25, second[1])])[:, -_WHOLE:]
    assert rows[:, :3].tolist() == [[-1.5 * UNIT, 0, 0], [-3.25 * UNIT, 1.75 * UNIT, UNIT // 8]]
    left = [child.applied.count(0) for child in second[:2]]
    assert rows[:, 4].tolist() == [count * UNIT for count in left]
