"""Coercions: every coercion leads where it says by the primitives' own rules, and impossible ones are not planned."""

import pytest
import sympy

from pipeline.synthesis.type_space import factors, find_coercions
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


def test_what_all_summands_share_is_a_factor() -> None:
    """A large polynomial is not factored, as that may take forever."""
    a, b, *more = sympy.symbols("a:h", positive=True, integer=True)
    assert set(factors(a * b - b)) == {a - 1, b} and factors(a**2) == (a, a)
    assert factors(sum(one**3 * other**5 for one in more for other in (a, b)) + a + 1) == ()
