"""Types of streams and of their elements, compared by structure.

Scalar("float")              fp32                      torch layout ()
Scalar("bf16")               bf16                      as every format of `formats`
Buffer(e, [d0, d1])          Buffer(fp32, [d0, d1])    (d1, d0) + layout of e: the list is innermost first
Multihot("float", L)         Multihot(fp32, L)         (L,), zeros and ones
STuple((t0, t1))             [t0, t1]                  one tensor per component
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import sympy

from step_runtime.base.errors import RuleError
from step_runtime.base.formats import FORMATS, SCALARS, WIDE, Format, suggestion
from step_runtime.base.shapes import Dim, as_dim, as_shape, format_dim, format_shape
from step_runtime.base.syntax import parse_expression

MAX_COMPONENTS = 64
"""Components of a tuple; a Zip of two tuples adds theirs up, so that few lines could ask for any number."""
TOO_MANY_COMPONENTS = "components"


@dataclass(frozen=True)
class Scalar:
    """One number of a format: `float` for fp32, otherwise the format's own name."""

    name: str = WIDE

    def __post_init__(self) -> None:
        """Rejects element names that the language lacks."""
        if self.name not in FORMATS:
            known = suggestion(str(self.name))
            hint = None if known is None else f"{self.name} is {known} here"
            raise RuleError("dtype", f"unknown scalar {self.name!r}; expected one of {', '.join(FORMATS)}", hint=hint)

    @property
    def format(self) -> Format:
        """The format of the number."""
        return FORMATS[self.name]

    def __str__(self) -> str:
        return self.format.name


@dataclass(frozen=True)
class Multihot:
    """A vector of zeros and ones that routes: bit i set means stream i is chosen."""

    name: str
    length: Dim

    def __init__(self, name: str, length: Any) -> None:
        Scalar(name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "length", as_dim(length))

    @property
    def format(self) -> Format:
        """The format of its zeros and ones."""
        return FORMATS[self.name]

    def __str__(self) -> str:
        return f"Multihot({self.format.name}, {format_dim(self.length)})"


@dataclass(frozen=True)
class Buffer:
    """A tensor held on chip; `dims` innermost first. A buffer of a buffer is one buffer with the dims joined."""

    elem: Scalar | Multihot
    dims: tuple[Dim, ...]

    def __init__(self, elem: DType, dims: Iterable[Any]) -> None:
        own = as_shape(dims)
        if isinstance(elem, Buffer):
            own = elem.dims + own
            elem = elem.elem
        if not isinstance(elem, Scalar | Multihot):
            raise RuleError("dtype", f"a Buffer holds scalars or multihots, found {elem}")
        if not own:
            raise RuleError("dtype", "a Buffer needs at least one dim")
        object.__setattr__(self, "elem", elem)
        object.__setattr__(self, "dims", own)

    @property
    def format(self) -> Format:
        """The format of its numbers."""
        return self.elem.format

    def __str__(self) -> str:
        return f"Buffer({self.elem}, {format_shape(self.dims)})"


Element: TypeAlias = Scalar | Multihot | Buffer


@dataclass(frozen=True)
class STuple:
    """A flat tuple of element types: a tuple inside a tuple gives its components."""

    components: tuple[Element, ...]

    def __init__(self, components: Iterable[DType]) -> None:
        flat: list[Element] = []
        for component in components:
            flat += components_of(component)
            if len(flat) > MAX_COMPONENTS:
                message = f"a tuple of more than {MAX_COMPONENTS} components; that is the limit"
                raise RuleError(TOO_MANY_COMPONENTS, message, hint="zip less, or combine components earlier")
        if not flat:
            raise RuleError("dtype", "a tuple needs at least one component")
        object.__setattr__(self, "components", tuple(flat))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.components))}]"


DType: TypeAlias = Scalar | Multihot | Buffer | STuple


@dataclass(frozen=True)
class StreamType:
    """The static type of a stream: element type, and dims innermost first."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """The highest stop-token level inside the stream: one less than its number of dims."""
        return len(self.shape) - 1

    def __str__(self) -> str:
        return f"{self.dtype} {format_shape(self.shape)}"


def components_of(dtype: DType) -> tuple[Element, ...]:
    """The components of a tuple, or the type itself as the only one.

    Raises:
        RuleError: `dtype` is not an element type.
    """
    if isinstance(dtype, STuple):
        return dtype.components
    if isinstance(dtype, Scalar | Multihot | Buffer):
        return (dtype,)
    raise RuleError("dtype", f"expected an element type, found {dtype!r}")


def is_wide(*dtypes: DType) -> bool:
    """Whether all numbers of these types are fp32."""
    return all(component.format.wide for dtype in dtypes for component in components_of(dtype))


def without_format(dtype: DType) -> DType:
    """The type with every format replaced by fp32; equal for types that differ only in formats."""
    if isinstance(dtype, STuple):
        return STuple(map(without_format, dtype.components))
    if isinstance(dtype, Buffer):
        return Buffer(without_format(dtype.elem), dtype.dims)
    return Multihot(WIDE, dtype.length) if isinstance(dtype, Multihot) else Scalar()


def layout(element: Element) -> tuple[Dim, ...]:
    """The dims of one element in torch order (outermost first)."""
    if isinstance(element, Scalar):
        return ()
    if isinstance(element, Multihot):
        return (element.length,)
    return (*reversed(element.dims), *layout(element.elem))


_expression = lru_cache(maxsize=1024)(parse_expression)
"""A task has few dtypes and dims, which are read many times."""


def parse_dtype(source: str | Sequence[Any], symbols: Mapping[str, Dim]) -> DType:
    """Reads an element type as task files write it: a string, or a list of strings for a tuple.

    Raises:
        ValueError: The text is not an element type, or names a dim that `symbols` lacks.
    """
    if isinstance(source, str):
        try:
            tree = _expression(source.strip())
        except SyntaxError:
            raise ValueError(_expected(source)) from None
        return _dtype_of(tree, symbols, source)
    parts = [parse_dtype(part, symbols) for part in source]
    return parts[0] if len(parts) == 1 else STuple(parts)


def _dtype_of(tree: ast.expr, symbols: Mapping[str, Dim], source: str) -> DType:
    match tree:
        case ast.Name(id=name) if name in SCALARS:
            return Scalar(SCALARS[name])
        case ast.List(elts=parts) | ast.Tuple(elts=parts) if parts:
            return STuple(_dtype_of(part, symbols, source) for part in parts)
        case ast.Constant(value=str(text)):
            return parse_dtype(text, symbols)
        case ast.Call(func=ast.Name(id="Buffer"), args=[elem, ast.List(elts=dims) | ast.Tuple(elts=dims)]) if dims:
            return Buffer(_dtype_of(elem, symbols, source), [_dim_of(dim, symbols, source) for dim in dims])
        case ast.Call(func=ast.Name(id="Multihot"), args=[ast.Name(id=name), length]) if name in SCALARS:
            return Multihot(SCALARS[name], _dim_of(length, symbols, source))
    raise ValueError(_expected(source))


def _expected(source: str) -> str:
    message = f"unknown dtype {source!r}; expected fp32, Buffer(fp32, [dims]), Multihot(fp32, L) or a list of these"
    words = {word: suggestion(word) for word in re.findall(r"\w+", source)}
    known = [f"{word} is {name} here" for word, name in words.items() if name is not None]
    return "; ".join([message, *known, f"the formats are {', '.join(SCALARS)}"])


def parse_dim(source: str | int, symbols: Mapping[str, Dim]) -> Dim:
    """Reads a dim: an int, a symbol, or an expression such as `M*N`, `D//2`.

    Raises:
        ValueError: The text is not a dim, or names a symbol that `symbols` lacks.
    """
    try:
        return _dim_of(_expression(str(source).strip()), symbols, str(source))
    except SyntaxError:
        raise ValueError(f"expected a dim such as 4, M or M*N, found {source!r}") from None


def _dim_of(tree: ast.expr, symbols: Mapping[str, Dim], source: str) -> Dim:
    match tree:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            if number < 1:
                raise ValueError(f"a dim must be 1 or more, found {number} in {source!r}")
            return sympy.Integer(number)
        case ast.Name(id=name) if name in symbols:
            return symbols[name]
        case ast.Name(id=name):
            raise ValueError(
                f"dim {name} has no size; expected one of {', '.join(symbols)}, or a size for it in `sizes`"
            )
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _dim_of(left, symbols, source), _dim_of(right, symbols, source)
            return combine(a, op, b, source)
    raise ValueError(f"expected a dim such as 4, M or M*N, found {source!r}")


def combine(left: Dim, op: ast.operator, right: Dim, source: str) -> Dim:
    """`left op right` for `+ - * // /`, the divisions exact.

    Raises:
        ValueError: Another operator, or a division by zero.
    """
    match op:
        case ast.Add():
            return as_dim(left + right)
        case ast.Sub():
            return as_dim(left - right)
        case ast.Mult():
            return as_dim(left * right)
        case ast.FloorDiv() | ast.Div() if right != 0:
            return as_dim(left / right)
    raise ValueError(f"dims know + - * and exact //, found {source!r}")
