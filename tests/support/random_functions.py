"""Random types and data of them; random functions between any two, deterministic and one element at a time.

Among them are those that a simulator likes to get wrong: folds that are nearly sums, branches on the data,
`.item()`, writing into the input, returning it, results that do not depend on the input, NaN and infinity.
"""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import sympy
import torch
from torch import Tensor

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim, Sizes, evaluate, torch_shape
from step_runtime.base.types import Buffer, DType, Element, Multihot, Scalar, StreamType, STuple, components_of, layout
from tests.support.tokens import Value

FLOAT = torch.float64
Parts: TypeAlias = Sequence[Tensor]
Rule: TypeAlias = Callable[..., Parts]


class PlainFn(Fn):
    """A function without state."""

    def __init__(self, name: str, dtypes: tuple[DType, DType], rule: Rule) -> None:
        super().__init__(name, *dtypes)
        self._rule = rule

    def apply(self, *args: Parts) -> Parts:
        """The rule on one element."""
        return self._rule(*args)


class FoldFn(PlainFn):
    """A function with state."""

    def __init__(self, name: str, dtypes: tuple[DType, DType], rule: Rule, init: Parts) -> None:
        super().__init__(name, dtypes, rule)
        self._init = init

    def getInit(self) -> Parts:
        """The same tensors every time, as an author may do it."""
        return self._init


def random_plain(rng: Random, name: str, source: DType, target: DType, sizes: Sizes) -> PlainFn:
    """A function without state from `source` to `target`."""
    blend = _blend(rng, source, target, sizes)
    kinds = {
        "blend": 8,
        "branch": 1,
        "item": 1,
        "in place": 1,
        "root": 1,
        "constant": 1,
        "same": 2 * (source == target),
    }
    kind = _weighted(rng, kinds)
    return PlainFn(name, (source, target), _plain_rule(kind, blend, _shapes(target, sizes)))


def _plain_rule(kind: str, blend: Rule, shapes: list[tuple[int, ...]]) -> Rule:
    def branch(value: Parts) -> Parts:
        return blend(value) if value[0].sum() > 0 else blend([0.25 - part for part in value])

    def item(value: Parts) -> Parts:
        whole = math.floor(value[-1].nan_to_num(0.0, 1.0, -1.0).sum().item())
        return blend([part + whole for part in value])

    def in_place(value: Parts) -> Parts:
        for part in value:
            part.mul_(0.5)
        return blend(value)

    def root(value: Parts) -> Parts:
        return blend([part.sqrt() for part in value])

    def constant(value: Parts) -> Parts:
        return [torch.ones(shape) if shape else 0.5 for shape in shapes]  # type: ignore[misc]

    def same(value: Parts) -> Parts:
        return value

    rules = {"branch": branch, "item": item, "in place": in_place, "root": root, "constant": constant, "same": same}
    return rules.get(kind, blend)


def random_fold(rng: Random, name: str, source: DType, target: DType, sizes: Sizes) -> FoldFn:
    """A function with state: it takes elements of `source`, and its state is of `target`."""
    shapes = _shapes(target, sizes)
    numbers = not any(_bits(element) for element in components_of(target))
    if source == target and numbers and rng.random() > 0.3:
        start, rule = _folds()[rng.choice(list(_folds()))]
        init = start if rng.random() < 0.7 else rng.choice((0.0, 1.0, 3.0, -1.0))
        return FoldFn(name, (source, target), rule, [torch.full(shape, init, dtype=FLOAT) for shape in shapes])
    if numbers and rng.random() > 0.6:
        init = rng.choice((0.0, -1.0))
        return FoldFn(
            name, (source, target), _sum_of(target, sizes), [torch.full(s, init, dtype=FLOAT) for s in shapes]
        )
    blend = _blend(rng, STuple((target, source)), target, sizes)
    rule = _fold_rule(_weighted(rng, {"blend": 6, "branch": 1, "in place": 1, "state": 1}), blend)
    init = rng.choice((0.0, 1.0, -math.inf)) if numbers else float(rng.random() < 0.5)
    return FoldFn(name, (source, target), rule, [torch.full(shape, init, dtype=FLOAT) for shape in shapes])


def _fold_rule(kind: str, blend: Rule) -> Rule:
    def plain(state: Parts, value: Parts) -> Parts:
        return blend([*state, *value])

    def branch(state: Parts, value: Parts) -> Parts:
        return blend([*state, *value]) if value[0].sum() > state[0].sum() else state

    def in_place(state: Parts, value: Parts) -> Parts:
        for part in state:
            part.nan_to_num_(0.0, 1.0, -1.0)
        return blend([*state, *value])

    def unchanged(state: Parts, value: Parts) -> Parts:
        return state

    return {"branch": branch, "in place": in_place, "state": unchanged}.get(kind, plain)


def _folds() -> dict[str, tuple[float, Rule]]:
    """Folds whose state has the type of their elements, each with the start that suits it."""
    each: dict[str, tuple[float, Callable[[Tensor, Tensor], Tensor]]] = {
        "sum": (0.0, lambda s, x: s + x),
        "sum, swapped": (0.0, lambda s, x: x + s),
        "product": (1.0, lambda s, x: s * x),
        "maximum": (-math.inf, torch.maximum),
        "minimum": (math.inf, torch.minimum),
        "difference": (0.0, lambda s, x: s - x),
        "difference, swapped": (0.0, lambda s, x: x - s),
        "sum of twice": (0.0, lambda s, x: s + 2 * x),
        "sum of squares": (0.0, lambda s, x: s + x * x),
        "decay": (0.0, lambda s, x: 0.5 * s + x),
        "maximum of negated": (-math.inf, lambda s, x: torch.maximum(s, -x)),
        "last": (0.0, lambda s, x: x),
        "count": (0.0, lambda s, x: s + 1),
        "clamped sum": (0.0, lambda s, x: (s + x).clamp(-1.0, 1.0)),
    }
    return {name: (start, _componentwise(rule)) for name, (start, rule) in each.items()}


def _componentwise(rule: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    return lambda state, value: [rule(s, x) for s, x in zip(state, value, strict=True)]


def _sum_of(target: DType, sizes: Sizes) -> Rule:
    """Adds up the first component, summed or spread to the state's layout where the two differ."""
    shapes = _shapes(target, sizes)

    def rule(state: Parts, value: Parts) -> Parts:
        return [
            s + (value[0] if value[0].shape == shape else value[0].sum())
            for s, shape in zip(state, shapes, strict=True)
        ]

    return rule


def _blend(rng: Random, source: DType, target: DType, sizes: Sizes) -> Rule:
    """Every output number from all inputs, each place weighted otherwise, so that no exchange goes unseen."""
    elements = components_of(target)
    shapes = _shapes(target, sizes)
    inputs = len(components_of(source))
    weights = [[rng.uniform(-2.0, 2.0) for _ in range(inputs + 1)] for _ in elements]

    def rule(value: Parts) -> Parts:
        return [
            _blended(value, shape, own, bits=_bits(element))
            for element, shape, own in zip(elements, shapes, weights, strict=True)
        ]

    return rule


def _blended(value: Parts, shape: tuple[int, ...], weights: list[float], *, bits: bool) -> Tensor:
    total = torch.full(shape, weights[-1], dtype=FLOAT)
    for part, weight in zip(value, weights, strict=False):
        total = total + weight * (part if part.shape == shape else (part * _ramp(part.shape)).sum())
    total = total * _ramp(shape)
    return (total > 0).to(FLOAT) if bits else total / (1.0 + total.abs())


def _ramp(shape: Sequence[int]) -> Tensor:
    return torch.linspace(0.5, 1.5, math.prod(shape), dtype=FLOAT).reshape(tuple(shape))


def _bits(element: Element) -> bool:
    return isinstance(element, Multihot) or (isinstance(element, Buffer) and not isinstance(element.elem, Scalar))


def _shapes(dtype: DType, sizes: Sizes) -> list[tuple[int, ...]]:
    return [tuple(evaluate(dim, sizes) for dim in layout(element)) for element in components_of(dtype)]


def _weighted(rng: Random, kinds: dict[str, int]) -> str:
    return rng.choice([kind for kind, weight in kinds.items() for _ in range(weight)])


class Draws:
    """Random choices for one program: its symbols with their sizes, and what is declared by them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.symbols: dict[str, Dim] = {name: sympy.Symbol(name) for name in "MNKDE"}
        self.sizes = {name: rng.choice((1, 2, 2, 3, 4)) for name in "MNKD"} | {"E": rng.choice((1, 2, 3))}
        self._numbers = torch.Generator().manual_seed(rng.randrange(2**32))

    def chance(self, probability: float) -> bool:
        """True as often as said; a shrinking search, which draws 0, gets False."""
        return self.rng.random() > 1 - probability

    def dim(self) -> Dim:
        """A symbol, a product or a sum, or a small int."""
        one, other = self.rng.choices(list(self.symbols.values()), k=2)
        kinds = (one, one, one, one * other, one + 1, sympy.Integer(self.rng.randint(1, 3)))
        return self.rng.choice(kinds)

    def element(self) -> Element:
        """Any element type but a tuple."""
        scalar, hot = Scalar("float"), Multihot("float", self.rng.choice((self.symbols["E"], sympy.Integer(2))))
        dims = [self.dim() for _ in range(self.rng.choice((1, 1, 2)))]
        buffer = Buffer(scalar, dims)
        return self.rng.choice((scalar, scalar, scalar, buffer, buffer, hot, Buffer(hot, dims)))

    def dtype(self) -> DType:
        """Any element type."""
        count = self.rng.choice((1, 1, 1, 1, 2, 3))
        return self.element() if count == 1 else STuple([self.element() for _ in range(count)])

    def stream(self) -> StreamType:
        """Any stream of rank 0 to 3."""
        return StreamType(self.dtype(), tuple(self.dim() for _ in range(self.rng.choice((1, 2, 2, 3, 3, 4)))))

    def data(self, stream: StreamType) -> Value:
        """Numbers for a stream; multihots hold bits."""
        return tuple(self._tensor(stream, element) for element in components_of(stream.dtype))

    def _tensor(self, stream: StreamType, element: Element) -> torch.Tensor:
        shape = torch_shape((*reversed(layout(element)), *stream.shape), self.sizes)
        if isinstance(element, Scalar) or (isinstance(element, Buffer) and isinstance(element.elem, Scalar)):
            return torch.randn(shape, dtype=FLOAT, generator=self._numbers)
        return self._bits(shape)

    def _bits(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Any bits, none, all, exactly one in each multihot, or one bit never set: its stream gets nothing."""
        length, kind = shape[-1], self.rng.choice(("any", "any", "any", "none", "all", "one", "skip"))
        bits = torch.rand(shape, generator=self._numbers) < self.rng.choice((0.2, 0.5, 0.8))
        if kind == "one":
            places = torch.randint(length, shape[:-1], generator=self._numbers)
            bits = torch.nn.functional.one_hot(places, length)
        elif kind == "skip":
            bits[..., self.rng.randrange(length)] = False
        elif kind != "any":
            bits = torch.full(shape, kind == "all")
        return bits.to(FLOAT)
