"""Coercions: every coercion leads where it says by the primitives' own rules, and impossible ones are not planned."""

from __future__ import annotations

import pytest
import sympy

from pipeline.lms.embedded.types.coercions import factors, find_coercions, interleavings, remainder
from step_runtime.base.shapes import as_dim
from step_runtime.base.types import StreamType, parse_dim, parse_dtype
from step_runtime.primitives import Bufferize, Flatten, Promote, Repeat, Reshape, Rules, Streamify
from step_runtime.tasks.task import Task

SYMBOLS = Task.model_validate(
    {"inputs": [{"name": "E0", "dtype": "fp32", "dims": ["M"]}],
     "outputs": [{"name": "S0", "dtype": "fp32", "dims": ["M"], "data_transform": "0"}]}
).symbols()  # fmt: skip


def stream(dtype: str, *dims: str) -> StreamType:
    return StreamType(parse_dtype(dtype, SYMBOLS), tuple(parse_dim(dim, SYMBOLS) for dim in dims))


@pytest.mark.parametrize(
    ("source", "target", "kinds"),
    [
        (stream("fp32", "K", "N"), stream("Buffer(fp32, [K])", "N"), [Bufferize]),
        (stream("Buffer(fp32, [K])", "N"), stream("fp32", "K", "N"), [Streamify]),
        (stream("fp32", "N"), stream("fp32", "K", "N"), [Repeat]),
        (stream("fp32", "K", "N"), stream("fp32", "K", "M", "N"), [Bufferize, Repeat, Streamify]),
        (stream("fp32", "M"), stream("Buffer(fp32, [M])", "1"), [Promote, Bufferize]),
        (stream("Buffer(fp32, [M])", "1"), stream("fp32", "M"), [Streamify, Flatten]),
        (stream("fp32", "M", "N"), stream("fp32", "M*N"), [Flatten]),
        (stream("fp32", "2*M", "N"), stream("fp32", "2", "M", "N"), [Reshape]),
        (stream("fp32", "M", "M", "N"), stream("fp32", "M*M", "N"), [Flatten]),
        (stream("fp32", "2*M*N", "K"), stream("fp32", "2", "M", "N", "K"), [Reshape, Reshape]),
        (stream("fp32", "M", "N*K"), stream("fp32", "M*N", "K"), [Flatten, Reshape]),
        (stream("fp32", "N"), stream("fp32", "N", "M"), [Promote, Bufferize, Repeat, Flatten, Streamify]),
        (stream("[fp32, fp32]", "N"), stream("[fp32, fp32]", "K", "M", "N"), [Repeat, Repeat]),
        (stream("Multihot(fp32, E)", "M"), stream("Multihot(fp32, E)", "M"), []),
        (stream("fp32", "1"), stream("fp32", "M"), [Repeat, Flatten]),
        (stream("[fp32, fp32]", "1"), stream("[fp32, fp32]", "M", "N"), [Repeat, Repeat, Flatten]),
        (stream("Buffer(fp32, [M])", "1"), stream("Buffer(fp32, [M])", "N"), [Repeat, Flatten]),
    ],
)
def test_the_cheapest_plan_is_the_plain_one(source: StreamType, target: StreamType, kinds: list[type]) -> None:
    """Each coercion ends in its target, by the primitives that one would write."""
    coercion = find_coercions(source, target)[0]
    now = source
    for op in coercion.ops:
        now = op.infer((now,), Rules())[0]
    assert now == target
    assert [type(op) for op in coercion.ops] == kinds


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (stream("fp32", "M", "N"), stream("fp32", "N", "M")),
        (stream("fp32", "M"), stream("Multihot(fp32, E)", "M")),
        (stream("fp32", "M"), stream("fp32", "N")),
    ],
)
def test_what_structure_cannot_do_has_no_plan(source: StreamType, target: StreamType) -> None:
    """Dims are never swapped or lost, elements never changed."""
    assert find_coercions(source, target) == ()


def test_interleavings_hold_both_lists_in_order() -> None:
    """Shared dims coincide; the others come in every order; opposite orders cannot be joined."""
    k, m, n, d = (SYMBOLS[name] for name in "KMND")
    assert set(interleavings((k, n, m), (k, d, m))) == {(k, n, d, m), (k, d, n, m)}
    assert interleavings((k, n), (n, k)) == ()
    assert (m, k, d, n) in interleavings((m, k * d, n), (d, n))
    assert (k, d, m, n) in interleavings((k * d, n), (k, d, m))


def test_remainder_is_what_an_element_leaves() -> None:
    """Element dims are taken from inside; a dim that stands further out cannot be taken."""
    k, n, d = (SYMBOLS[name] for name in "KND")
    assert remainder((k, n), (k,)) == (n,)
    assert remainder((n,), (d,)) == (n,)
    assert remainder((n, d), (d,)) is None


def test_an_element_may_take_a_product_of_dims_in_a_row() -> None:
    """They are merged; where only some of them are there, or others are in between, none is taken."""
    k, n, d = (SYMBOLS[name] for name in "KND")
    assert remainder((k, d, n), (k * d,)) == (n,) == remainder((d, k, n), (k * d,))
    assert remainder((k, n), (k * d,)) == (k, n) and remainder((k, n, d), (k * d,)) == (k, n, d)
    ((merged,), *_) = (way.ops for way in find_coercions(stream("fp32", "K", "D"), stream("fp32", "D*K")))
    assert isinstance(merged, Flatten)


def test_the_factors_of_a_power_or_of_a_sum_are_dims_of_their_own() -> None:
    """What has a dim twice in a row serves an element that has its square; places of a window are a product, too."""
    m, n, k = (SYMBOLS[name] for name in "MNK")
    assert remainder((m, m, n), (m * m,)) == (n,)
    assert remainder((k, m * n), (k * m,)) == (n,)
    assert remainder((as_dim((m - k + 1) * n),), (n,)) == (m - k + 1,)


def test_what_a_coercion_does_is_counted() -> None:
    """Dims along which it repeats, changes of the list of dims, and of where it is cut."""
    coercion = find_coercions(stream("fp32", "M"), stream("fp32", "M", "N"))[0]
    assert coercion.repeats == (parse_dim("N", SYMBOLS),)
    assert coercion.recuts == sum(isinstance(op, Bufferize | Streamify) for op in coercion.ops) > 0
    assert coercion.reshapes == sum(isinstance(op, Reshape | Flatten) for op in coercion.ops)


def test_what_all_summands_share_is_a_factor() -> None:
    """A large polynomial is not factored, as that may take forever."""
    a, b, *more = sympy.symbols("a:h", positive=True, integer=True)
    assert set(factors(a * b - b)) == {a - 1, b} and factors(a**2) == (a, a)
    assert factors(sum(one**3 * other**5 for one in more for other in (a, b)) + a + 1) == ()
