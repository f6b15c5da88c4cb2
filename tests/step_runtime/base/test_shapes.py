"""Dims as expressions, and the conversion between stream order and torch order.

Invariants: equal expressions are equal dims however they are written; a symbol is never an int.
"""

import operator
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from step_runtime import RuleError, Stream
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import as_dim, evaluate, format_dim, torch_shape, try_evaluate
from step_runtime.base.types import Scalar, StreamType, parse_dim

M, N, K = sympy.symbols("M N K")

SYMBOLS = {"M": M, "N": N, "K": K}

SIZES = {"M": 5, "N": 7, "K": 10}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (M * 1, M), (M * N, N * M), (M + 0, M), ((M + N) * 2, 2 * N + 2 * M), (M * N / N, M), (M * (M + 1), M * M + M),
        ((M * M - N * N) / (M - N), M + N), (2 * M / 2, M), (M - M + 3, 3), (sympy.Integer(4), 4), (M / 2 + M / 2, M),
        (M * N // N, M),
    ],
)  # fmt: skip
def test_equal_expressions_are_equal_dims(one: Any, other: Any) -> None:
    """How a dim is written does not matter."""
    assert as_dim(one) == as_dim(other) and hash(as_dim(one)) == hash(as_dim(other))
    assert format_dim(as_dim(one)) == format_dim(as_dim(other))


def test_a_symbol_is_not_an_int() -> None:
    """Not even its own size."""
    assert as_dim(M) != as_dim(5) and as_dim(M) != as_dim(N) and as_dim(2 * M) != as_dim(10)


@pytest.mark.parametrize("value", [None, "M", 1.5, True, [M], sympy, 2**80, 10**30 * M, (M + N) ** 90, M**1000])
def test_what_is_not_a_dim_or_too_large_is_refused(value: Any) -> None:
    """Only ints and expressions of a size that is quick to compute with are dims."""
    with pytest.raises(RuleError):
        as_dim(value)


def test_expressions_too_large_are_refused_before_they_are_expanded() -> None:
    """A product of many sums costs no time."""
    with pytest.raises(RuleError, match="too large"):
        as_dim((M + N + K + 1) ** (10**9))


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (M, "M"), (as_dim(3), "3"), (M * N, "M*N"), (M / 2, "M//2"), (M * M, "M*M"), (M + 1, "M + 1"), (M - N, "M - N"),
        ((M + N) / 2, "(M + N)//2"), (M / (2 * N), "M//(2*N)"), (2 * M, "2*M"), (M * N / (K + 1), "(M*N)//(K + 1)"),
    ],
)  # fmt: skip
def test_dims_are_written_as_programs_write_them(dim: Any, text: str) -> None:
    """The text of a dim is one that the language reads."""
    assert format_dim(as_dim(dim)) == text
    assert parse_dim(text, SYMBOLS) == as_dim(dim)


OPERATORS = [operator.add, operator.mul, operator.truediv, operator.sub]

dims = st.recursive(
    st.one_of(st.sampled_from([M, N, K]), st.integers(1, 4).map(sympy.Integer)),
    lambda inner: st.builds(lambda op, a, b: op(a, b), st.sampled_from(OPERATORS), inner, inner),
    max_leaves=5,
)


@given(dims)
def test_every_dim_reads_back_as_written(dim: Any) -> None:
    """`parse_dim(format_dim(dim)) == dim`, and its size is that of the expression."""
    if dim.has(sympy.zoo, sympy.nan):
        return
    exact = dim.subs({symbol: SIZES[symbol.name] for symbol in dim.free_symbols})
    if not exact.is_Integer or exact < 1:
        return
    dim = as_dim(dim)
    assert parse_dim(format_dim(dim), SYMBOLS) == dim
    assert evaluate(dim, SIZES) == exact


def test_sizes_must_be_positive_ints() -> None:
    """A remainder, zero, or less than zero is refused with the sizes that held."""
    assert evaluate(as_dim(K / 2 + M), SIZES) == 10
    for dim, quoted in (
        (M / 2, "5/2 where M=5"),
        (M - N, "-2 where M=5, N=7"),
        (M - 5, "0 where M=5"),
        (as_dim(0), "0"),
    ):
        with pytest.raises(RuleError, match=quoted):
            evaluate(as_dim(dim), SIZES)
    with pytest.raises(KeyError):
        evaluate(sympy.Symbol("E"), SIZES)
    assert try_evaluate(sympy.Symbol("E"), SIZES) is None


def test_streams_list_dims_innermost_first_and_torch_outermost_first() -> None:
    """`[M, N]` holds a tensor of `(N, M)`; the rank is one less than the number of dims."""
    assert torch_shape((M, N, as_dim(2)), SIZES) == (2, 7, 5)
    assert StreamType(Scalar(), (M, N)).rank == 1
    assert str(StreamType(Scalar(), (M, N * M))) == "fp32 [M, M*N]"


@pytest.mark.parametrize(("rank", "shape"), [(0, [M, N]), (2, [M, N]), (-1, []), (1, [M])])
def test_a_streams_rank_fits_its_shape(rank: int, shape: list[Any]) -> None:
    """A stream declared with a rank of its own is refused."""
    with pytest.raises(RuleError, match="rank"):
        Stream("E0", Scalar(), rank, shape)


F = Scalar("float")


class Doubling(Fn):
    def apply(self, *args: Any) -> Any:
        return [2 * args[0][0]]


class Summing(Doubling):
    def getInit(self) -> Any:
        return [0]


def test_a_function_with_an_initial_state_is_stateful() -> None:
    """What runs decides, and is all that can be traced."""
    plain, folding = Doubling("d", F, F), Summing("s", F, F)
    assert (plain.stateful, folding.stateful) == (False, True)
    assert plain.sources() == (plain.apply,)
    assert folding.sources() == (folding.apply, folding.getInit)
    with pytest.raises(TypeError, match="function d carries no state"):
        plain.getInit()
