"""Tapes: which operators lead from what is known to what is wanted, and the code that replays them."""

from typing import Any

import pytest
import torch

from step_runtime.execution.modes import ElementFunction
from step_runtime.execution.tracing import Captures, Tape, trace
from step_runtime.execution.tracing.tape import Extent
from tests.support.element_functions import MATRIX, SIZES, WEIGHTS, D, F, Given, STuple, V


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
