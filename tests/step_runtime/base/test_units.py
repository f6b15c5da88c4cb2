"""Measures give elements and bits of streams, as numbers and as polynomials by one rule."""

import pytest
import sympy

from step_runtime.base.shapes import routed_dim
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, StreamType, STuple
from step_runtime.base.units import measure_at, symbolic_measure

D, M, N, L = sympy.symbols("D M N L")
F = Scalar("float")
SIZES = {"D": 16, "M": 5, "N": 7, "L": 3}


def bits_of_scalar(name: str) -> int:
    return {"float": 32}[name]


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (F, 32),
        (Buffer(F, [D]), 32 * D),
        (Buffer(F, [D, M]), 32 * D * M),
        (Multihot("float", L), L),
        (Buffer(Multihot("float", L), [M]), L * M),
        (STuple((F, Buffer(F, [D]), Multihot("float", L))), 32 + 32 * D + L),
    ],
)
def test_bits_of_an_element(dtype: DType, bits: sympy.Expr) -> None:
    """A number takes those of its type, a Multihot one for each place, a tuple those of its components."""
    assert sympy.expand(symbolic_measure(bits_of_scalar).bits(dtype) - bits) == 0
    assert measure_at(SIZES, bits_of_scalar).bits(dtype) == sympy.sympify(bits).subs(SIZES)


def test_elements_of_a_stream_are_the_product_of_its_dims() -> None:
    """A routed dim counts as its bound."""
    assert symbolic_measure(bits_of_scalar).elements(StreamType(F, (D, M, N))) == D * M * N
    routed = StreamType(F, (D, routed_dim(0)))
    assert measure_at({**SIZES, "routed.0": 4}, bits_of_scalar).elements(routed) == 64
