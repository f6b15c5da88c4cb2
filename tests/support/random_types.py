"""Random sizes, dims, element types, and data for them."""

from random import Random

import sympy
import torch

from step_runtime.base.shapes import Dim, torch_shape
from step_runtime.base.types import Buffer, DType, Element, Multihot, Scalar, StreamType, STuple, components_of, layout
from tests.support.random_functions import FLOAT
from tests.support.tokens import Value


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
