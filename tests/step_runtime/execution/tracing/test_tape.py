"""Tapes: which operators lead from what is known to what is wanted, and the code that replays them."""

import pytest
import torch

from step_runtime.execution.applier import Applier
from tests.support.element_functions import (
    SETTINGS,
    SIZES,
    TRACED,
    WEIGHTS,
    D,
    F,
    Given,
    drawn,
    one_by_one,
    same,
    way,
)


def test_weights_are_looked_up_at_every_replay() -> None:
    """A weight drawn again, or changed in place, is seen; one of another shape starts a new trial."""
    fn, applier = TRACED["weights"], Applier(torch.float64)
    data = drawn(fn.input, (6,))
    for change in (
        lambda: None,
        lambda: WEIGHTS.update(W=torch.randn(D, D)),
        lambda: WEIGHTS["W"].mul_(2),
        lambda: WEIGHTS.update(W=torch.randn(D, D).t()),
        lambda: WEIGHTS.update(W=torch.randn(1, 1).expand(D, D)),
    ):
        change()
        same(tuple(applier.map(fn, data, 1, SIZES)), one_by_one(fn, data, 1))


def test_settings_that_change_are_seen() -> None:
    """A number that the function reads from outside is not baked into its trace."""
    fn, applier = Given(lambda i: [i[0] * SETTINGS["scale"]], F, F), Applier(torch.float64)
    data = drawn(F, (6,))
    for scale in (3.0, 5.0):
        SETTINGS["scale"] = scale
        same(tuple(applier.map(fn, data, 1, SIZES)), [data[0] * scale])
    fn.body = lambda i: [i[0] - 1]
    same(tuple(applier.map(fn, data, 1, SIZES)), [data[0] - 1])


OUTERS = [(1,), (5,), (2, 3), (2, 1, 3), (60,)]


@pytest.mark.parametrize("outer", OUTERS, ids=str)
@pytest.mark.parametrize("name", TRACED)
def test_a_traced_function_gives_what_its_elements_give(name: str, outer: tuple[int, ...]) -> None:
    """First use, replay, and replay on a batch of another shape; nothing is written into the stream."""
    fn, applier = TRACED[name], Applier(torch.float64)
    for shape in (outer, outer, (3, *outer[1:]), outer):
        data = drawn(fn.input, shape)
        before = [part.clone() for part in data]
        same(tuple(applier.map(fn, data, len(shape), SIZES)), one_by_one(fn, data, len(shape)))
        assert all(map(torch.equal, data, before))
    assert way(applier) == "Traced"
