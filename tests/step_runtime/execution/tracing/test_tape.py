"""Tapes: which operators lead from what is known to what is wanted, and the code that replays them."""

from typing import Any

import pytest
import torch

from step_runtime.execution.applier import Applier
from step_runtime.execution.modes import ElementFunction
from step_runtime.execution.tracing import Captures, Tape, trace
from step_runtime.execution.tracing.tape import Extent
from tests.support.element_functions import (
    MATRIX,
    SETTINGS,
    SIZES,
    TRACED,
    WEIGHTS,
    D,
    F,
    Given,
    STuple,
    V,
    drawn,
    one_by_one,
    same,
    way,
)


def taped(body: Any, takes: Any, gives: Any, *example: torch.Tensor) -> Tape:
    fn = Given(body, takes, gives)
    return trace(ElementFunction(fn, 0, SIZES, None, lambda: None), example, Captures(fn))


def test_a_tape_is_replayed_at_any_batch_size() -> None:
    """Sizes of the batch are arguments, not numbers of the recording."""
    tape = taped(lambda i: [i[0] * 2 + 1], F, F, torch.tensor(0.0))
    for size in (1, 6):
        data = torch.arange(float(size))
        assert torch.equal(tape.replay(size, data)[0], data * 2 + 1)
    assert str(Extent(3, (0, 1))) == "3*b0*b1"


def test_only_the_operators_that_are_needed_are_replayed() -> None:
    """Of two results, one asked for alone takes the operators that lead to it."""
    tape = taped(lambda i: [i[0].exp().sin(), i[1] * 3], STuple((F, F)), STuple((F, F)), *torch.zeros(2))
    second = tape.needed(tape.sources, tape.outputs[1:])
    assert second[-1].op is torch.ops.aten.mul.Tensor and not set(map(id, second)) & set(map(id, tape.nodes[:2]))
    assert tape.depending(tape.inputs[0]) == {tape.inputs[0], *tape.nodes[0].outputs, tape.outputs[0]}
    replay = tape.compiled(tape.inputs[1:], tape.outputs[1:])
    assert torch.equal(replay(2, torch.ones(2))[0], torch.full((2,), 3.0))


@pytest.mark.parametrize(
    ("body", "elementwise", "pointwise"),
    [
        (lambda i: [i[0].exp() + 1], True, True),
        (lambda i: [i[0].cumsum(0)], False, False),
        (lambda i: [i[0]], True, True),
    ],
    ids=["exp", "cumsum", "same"],
)
def test_elementwise_is_what_only_broadcasts_from_the_right(body: Any, elementwise: bool, pointwise: bool) -> None:
    """An operator over an element's own dims is neither elementwise nor pointwise."""
    tape = taped(body, V, V, torch.zeros(D))
    assert (tape.elementwise, tape.pointwise) == (elementwise, pointwise)


def test_a_product_has_two_factors_and_a_sum_none() -> None:
    """Only a last multiplication can be left to whoever sums it."""
    example, data = (torch.zeros(D), torch.zeros(D)), (torch.rand(3, D), torch.rand(3, D))
    pair = STuple((V, V))
    assert taped(lambda i: [i[0].unsqueeze(1) + i[1]], pair, MATRIX, *example).factors is None
    factors = taped(lambda i: [i[0].unsqueeze(1) * i[1]], pair, MATRIX, *example).factors
    assert factors is not None
    left, right = factors(3, *data)
    assert torch.equal((left * right).expand(3, D, D), data[0].unsqueeze(2) * data[1].unsqueeze(1))


def test_weights_are_those_of_now_unless_their_form_has_changed() -> None:
    """A weight of another shape needs another tape."""
    tape = taped(lambda i: [i[0] * WEIGHTS["w"]], V, V, torch.zeros(D))
    WEIGHTS["w"] = torch.ones(D)
    (now,) = tape.weights() or ()
    assert now is WEIGHTS["w"]
    WEIGHTS["w"] = torch.ones(1)
    assert tape.weights() is None


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
