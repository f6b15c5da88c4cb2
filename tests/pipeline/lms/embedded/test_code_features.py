"""What code mentions is read from its text."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.code_features import constant_indices, crosses, in_order, loop_sizes, sizes_in


@pytest.mark.parametrize(
    "code",
    [
        "x.cumsum(1)",
        "x.sort(stable=True).indices",
        "torch.arange(4) < y",
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "for t in range(T_value):\n    h = h + x[:, t]\nh",
    ],
)
def test_code_treats_elements_by_their_order(code: str) -> None:
    """By the name of a call, by positions, or in a loop over elements."""
    assert in_order(code)


@pytest.mark.parametrize("code", ["x.sum(1)", "for _ in range(3):\n    x = x / x.sum()\nx", "torch.softmax(x, -1) @ y"])
def test_other_code_does_not(code: str) -> None:
    """A loop that only counts says nothing about elements."""
    assert not in_order(code)


def test_pairs_indices_and_sizes_are_found() -> None:
    """A value meets itself along two dims; constants select; sizes are mentioned."""
    assert crosses("x.unsqueeze(1) > x.unsqueeze(2)") and not crosses("x + y")
    assert crosses("torch.searchsorted(x, y)")
    assert constant_indices("return [input[0] * input_data['W'][2]]") == {2}
    assert sizes_in("return [input[0] / N_value]") == {"N"}


def test_loops_say_how_often_they_run() -> None:
    """By the size of a dim, in a statement or a comprehension; other uses of a size are not loops."""
    code = "for _ in range(S_value):\n    x = x + 1\ny = [x for k in range(1, K_value + 1)]\nx / N_value"
    assert loop_sizes(code) == {"S", "K"}
