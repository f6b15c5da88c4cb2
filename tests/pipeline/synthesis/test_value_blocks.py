"""Values hold these.

- Rows that agree up to rounding have one digest and are close; rows that differ in the eighth digit differ in both.
- An index finds every row that agrees, and none other.
"""

import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.synthesis.value_blocks import ValueIndex, close, digests, sane


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_a_digest_tells_values_apart_but_not_roundings() -> None:
    """Of 500 rows, nearly all keep their digest through a rounding, and none does through a change of 1e-6."""
    values = rows(500)
    own = digests(values)
    assert len(set(own.tolist())) == 500
    assert (digests(values / 3 * 3) == own).mean() > 0.99
    assert not (digests(values * (1 + 1e-6)) == own).any()


@given(st.floats(1e-6, 1e6), st.integers(0, 11))
def test_close_looks_at_every_number(scale: float, place: int) -> None:
    """At any scale, one number that differs in the seventh digit makes a row another."""
    values = rows(3) * scale
    other = values.clone()
    other[1, place] *= 1 + 1e-7
    assert close(values * (1 + 1e-12), values).tolist() == [True, True, True]
    assert close(other, values).tolist() == [True, False, True]


def test_an_index_finds_what_was_added_and_nothing_else() -> None:
    """Over several blocks: the row asked for, the block and the row there."""
    index = ValueIndex()
    blocks = [rows(40, 1), rows(30, 2)]
    assert index.find(blocks[0]) == []
    for block in blocks:
        index.add(block)
    asked = torch.stack([blocks[1][7] * (1 + 1e-13), rows(1, 3)[0], blocks[0][0]])
    assert sorted(index.find(asked)) == [(0, 1, 7), (2, 0, 0)]


def test_only_finite_values_of_usual_size_are_sane() -> None:
    """Nothing infinite, huge or no more than rounding; zero is a value."""
    values = torch.tensor([[1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [1e12, 1.0], [1e-16, 0.0]])
    assert sane(values.double()).tolist() == [True, True, False, False, False, False]
