"""Drafts of one length are ranked by a network that computes with integers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong import draft_ranking
from pipeline.lms.embedded.strong.draft_properties import DraftProperties
from pipeline.lms.embedded.strong.draft_ranking import DraftRanking, Network, network
from pipeline.lms.embedded.strong.levels import Child, Levels, State
from pipeline.lms.embedded.strong.search_style import SearchStyle
from tests.support.beams import VIEW, beam_search

SMALL = Network.from_json(
    json.dumps(
        {"limits": [8, 8], "hidden": [[1, -1], [0, 2]], "bias": [0, -4], "outer": [3, 1], "direct": [0, 1], "unit": 2}
    )
)
"""Two properties, two hidden units."""


def found() -> tuple[DraftProperties, list[tuple[float, Child]]]:
    """The second moves of a search, best first."""
    search = beam_search()
    levels = Levels(search._pool, 0.0)
    search._continue([State(tuple(range(search._pool.first)), frozenset(), (0,) * len(VIEW.fns), 0.0)], levels, 1, 40)
    search._continue([child.state(search._pool) for child in levels.best(1, 12)], levels, 2, 40)
    growing = [child for child in levels.best(2, 40) if not all(child.applied)]
    scores = [child.promise(search._pool) for child in growing]
    return DraftProperties(VIEW, search._pool, SearchStyle()), list(zip(scores, growing, strict=True))


def test_a_network_adds_what_its_units_and_its_direct_connections_give() -> None:
    """Negative units give nothing, and a property counts up to its limit."""
    rows = np.array([[2, 3], [-2, 3], [100, 0]])
    assert SMALL.scores(rows) == [(6 + 0 + 3) / 2, (0 + 4 + 3) / 2, 24 / 2]


def test_the_network_that_comes_with_the_proposer_takes_all_properties() -> None:
    """Its weights are integers, and what it adds differs from draft to draft."""
    properties, pairs = found()
    added = network().scores(properties.matrix(2, pairs))
    assert network().hidden.dtype == np.int64 and len(set(added)) > 1


def test_the_best_drafts_are_those_of_score_and_network_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps what it was ranked by, against the draft to which most was added; a few are kept for their scores."""
    properties, pairs = found()
    scores = [score for score, _ in pairs]
    added = [100.0 * place for place in range(len(pairs))]
    monkeypatch.setattr(draft_ranking, "network", type("Fixed", (), {"scores": lambda self, rows: added}))
    best = DraftRanking(properties, StepLimit(10**6)).best(pairs, 2, 5)
    worst_first = [child for _, child in reversed(pairs)]
    assert [child.fresh for child in best] == [child.fresh for child in (*worst_first[:4], pairs[0][1])]
    assert [child.ranked for child in best] == [0.0, -100.0, -200.0, -300.0, -added[-1]]
    assert scores == sorted(scores, reverse=True) and len(pairs) > 5


def test_a_state_continues_with_what_it_was_ranked_by() -> None:
    """What it promises beside its score holds it, and its own children are compared by it until they are ranked."""
    properties, pairs = found()
    pool, (score, child) = properties.pool, pairs[0]
    state = child._replace(ranked=-3.0).state(pool)
    assert state.score + state.outlook == pytest.approx(score - 3.0) and state.ranked == -3.0
    assert child._replace(parent=state).promise(pool) - child._replace(parent=child.state(pool)).promise(
        pool
    ) == pytest.approx(-3.0)


def test_ranking_counts_as_steps() -> None:
    """A sample without steps left ranks nothing; no drafts need none."""
    properties, pairs = found()
    ranking = DraftRanking(properties, StepLimit(10))
    assert ranking.best([], 2, 5) == []
    with pytest.raises(StepsExhausted):
        ranking.best(pairs, 2, 5)
