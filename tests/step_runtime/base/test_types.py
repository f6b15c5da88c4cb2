"""Element types: read, written, compared by structure, laid out.

Invariant: `parse_dtype(str(dtype)) == dtype`.
"""

from math import inf
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from step_runtime import Buffer, Multihot, RuleError, Scalar, STuple
from step_runtime.base.formats import FORMATS, SCALARS, suggestion
from step_runtime.base.types import DType, components_of, layout, parse_dtype

M, N, D = sympy.symbols("M N D")

SYMBOLS = {"M": M, "N": N, "D": D}

F = Scalar("float")

WRITTEN = [
    ("fp32", F, [()]),
    ("Buffer(fp32, [D])", Buffer(F, [D]), [(D,)]),
    ("Buffer(fp32, [M, 3])", Buffer(F, [M, 3]), [(3, M)]),
    ("Multihot(fp32, 4)", Multihot("float", 4), [(4,)]),
    ("Multihot(fp32, M*N)", Multihot("float", N * M), [(M * N,)]),
    ("Buffer(Multihot(fp32, D), [M, N])", Buffer(Multihot("float", D), [M, N]), [(N, M, D)]),
    ("[fp32, Buffer(fp32, [D])]", STuple((F, Buffer(F, [D]))), [(), (D,)]),
    ("Buffer(fp32, [D//2])", Buffer(F, [D / 2]), [(D / 2,)]),
]

ALIKE: list[tuple[Any, str]] = [
    (["fp32", "Buffer(fp32, [D])"], "[fp32, Buffer(fp32, [D])]"),
    (["fp32", ["fp32", "fp32"]], "[fp32, fp32, fp32]"),
    (["fp32"], "fp32"),
    ("'fp32'", "fp32"),
    ('["fp32", "fp32"]', "[fp32, fp32]"),
    ("(fp32, fp32)", "[fp32, fp32]"),
    (" Buffer( fp32 ,[ D , M ] ) ", "Buffer(fp32, [D, M])"),
    ("Buffer(fp32, (D, M))", "Buffer(fp32, [D, M])"),
    ("Buffer(fp32, [D,])", "Buffer(fp32, [D])"),
    ("Buffer(Buffer(fp32, [D]), [M])", "Buffer(fp32, [D, M])"),
    ("Buffer(fp32, [M*1, N*M//N])", "Buffer(fp32, [M, M])"),
]

REFUSED = [
    "fp17", "float", "", "[]", "()", "Buffer(fp32)", "Buffer(fp32, [])", "Buffer(fp32, D)",
    "Buffer([fp32, fp32], [D])", "Multihot(fp32)", "Multihot(D, fp32)", "Multihot(Buffer(fp32, [D]), 3)",
    "Buffer(fp32, [Q])", "Buffer(fp32, [0])", "Buffer(fp32, [-1])", "Buffer(fp32, [D**2])", "Buffer(fp32, [D//0])",
    "Buffer(fp32, [1.5])", "Buffer(fp32, [True])", "__import__('os')", "fp32 fp32", "(" * 300, "fp32\0",
    "Buffer(fp32, [D.x])", "lambda: fp32",
]  # fmt: skip


@pytest.mark.parametrize(("text", "dtype", "layouts"), WRITTEN)
def test_types_are_read_written_and_laid_out(text: str, dtype: DType, layouts: list[tuple[Any, ...]]) -> None:
    """Each type has one text and, per component, a layout in torch order: outermost first."""
    assert parse_dtype(text, SYMBOLS) == dtype
    assert str(dtype) == text
    assert [layout(part) for part in components_of(dtype)] == layouts


@pytest.mark.parametrize(("written", "text"), ALIKE)
def test_other_spellings_are_the_same_type(written: Any, text: str) -> None:
    """Lists, quotes, spaces, nesting and equal dims do not make another type."""
    assert str(parse_dtype(written, SYMBOLS)) == text
    assert hash(parse_dtype(written, SYMBOLS)) == hash(parse_dtype(text, SYMBOLS))


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_a_type_is_refused(text: str) -> None:
    """Anything else is an error that says what a type looks like; nothing is executed."""
    with pytest.raises((ValueError, RuleError)):
        parse_dtype(text, SYMBOLS)


def test_types_compare_by_structure() -> None:
    """Equal structure is equality; another name, dim, order or length is not, nor is a size its symbol."""
    assert Buffer(F, [M, N]) == Buffer(Buffer(F, [M]), [N]) != Buffer(F, [N, M])
    assert STuple((F, STuple((F, F)))) == STuple((F, F, F)) != STuple((F, F))
    assert STuple((F,)) != F
    assert Buffer(F, [3]) != Buffer(F, [M]) != Multihot("float", M)
    assert len({Scalar("float"), F, Scalar()}) == 1


def test_types_refuse_what_they_cannot_hold() -> None:
    """A Buffer of tuples or of nothing, an empty tuple, and elements that are no types are errors."""
    for make in (
        lambda: Buffer(STuple((F, F)), [M]),
        lambda: Buffer(F, []),
        lambda: STuple(()),
        lambda: STuple((3,)),  # type: ignore[arg-type]
        lambda: Scalar("int"),
        lambda: Multihot("boolean", 3),
        lambda: Multihot("float", "3"),
        lambda: Buffer(F, [1.5]),
    ):
        with pytest.raises(RuleError):
            make()


elements = st.recursive(
    st.one_of(st.just(F), st.builds(Multihot, st.just("float"), st.sampled_from([M, N, 3]))),
    lambda inner: st.builds(Buffer, inner, st.lists(st.sampled_from([M, N * D, D / 2, 4]), min_size=1, max_size=3)),
    max_leaves=3,
)


@given(st.one_of(elements, st.builds(STuple, st.lists(elements, min_size=2, max_size=4))))
def test_every_type_reads_back_as_written(dtype: DType) -> None:
    """`parse_dtype(str(dtype)) == dtype`."""
    assert parse_dtype(str(dtype), SYMBOLS) == dtype


FLOATS = [format_ for format_ in FORMATS.values() if format_.kind == "float"]

INTEGERS = [format_ for format_ in FORMATS.values() if format_.kind == "int"]


def test_every_format_is_a_type_of_torch_with_its_bytes() -> None:
    """The name leads to a torch type of the stated size."""
    for format_ in FORMATS.values():
        assert getattr(torch, format_.torch).itemsize == format_.bytes
        assert FORMATS[SCALARS[format_.name]] is format_


@pytest.mark.parametrize("format_", FLOATS, ids=lambda format_: format_.name)
def test_the_range_of_floating_point_formats_is_that_of_torch(format_) -> None:  # type: ignore[no-untyped-def]
    """The largest finite number is torch's; whether infinities are held is what torch's `isinf` says."""
    dtype = getattr(torch, format_.torch)
    assert (format_.least, format_.most) == (torch.finfo(dtype).min, torch.finfo(dtype).max)
    held = torch.tensor([inf]).to(dtype).to(torch.float64).isinf().item()
    assert format_.infinite == held == format_.holds(-inf)


@pytest.mark.parametrize("format_", INTEGERS, ids=lambda format_: format_.name)
def test_the_range_of_integers_is_that_of_torch(format_) -> None:  # type: ignore[no-untyped-def]
    """Both ends are held, and neither a number beyond them, nor a fraction, nor an infinity."""
    info = torch.iinfo(getattr(torch, format_.torch))
    assert (format_.least, format_.most) == (info.min, info.max)
    assert format_.holds(info.min) and format_.holds(info.max)
    assert not any(map(format_.holds, (info.min - 1, info.max + 1, 0.5, inf)))


def test_truth_values_are_0_and_1() -> None:
    """Nothing else is an initial state of a bool."""
    assert [number for number in (-1, 0, 0.5, 1, 2) if FORMATS["bool"].holds(number)] == [0, 1]


def test_names_from_elsewhere_lead_to_formats() -> None:
    """Torch's names and common abbreviations are explained; a format's own name and a dim's are not."""
    for format_ in FORMATS.values():
        assert suggestion(format_.name) is None
        if format_.torch != format_.name:
            assert suggestion(format_.torch) == format_.name
    assert suggestion("fp8") == "fp8_e4m3 or fp8_e5m2"
    assert suggestion("M") is None
