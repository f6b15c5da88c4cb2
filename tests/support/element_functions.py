"""Functions on elements, random data for them, and what loops over the elements give."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, STuple, components_of, layout
from step_runtime.execution.applier import Applier, Data
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
F = Scalar("float")
D = 4
V = Buffer(F, [D])
MATRIX = Buffer(F, [D, D])
SIZES: dict[str, int] = {}
WEIGHTS: dict[str, Tensor] = {}
LITERAL = torch.arange(D, dtype=torch.float64)
SETTINGS = {"scale": 3.0}
LOG: list[float] = []
gelu = torch.nn.GELU()
linear = torch.nn.Linear(D, D, dtype=torch.float64)


class Given(Fn):
    """A function from a lambda."""

    def __init__(
        self, body: Callable[..., Sequence[Any]], takes: DType, gives: DType, init: Sequence[float] = ()
    ) -> None:
        super().__init__("given", takes, gives)
        self.body = body
        self.init = tuple(init)

    @property
    def stateful(self) -> bool:
        return bool(self.init)

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        return self.body(*args)

    def getInit(self) -> Sequence[Tensor]:
        shapes = [[int(dim) for dim in layout(part)] for part in components_of(self.output)]
        return [torch.full(shape, float(value)) for shape, value in zip(shapes, self.init, strict=True)]


def drawn(dtype: DType, outer: Sequence[int]) -> Data:
    """Random data of a stream."""
    return tuple(torch.randn(*outer, *[int(dim) for dim in layout(part)]) for part in components_of(dtype))


def one_by_one(fn: Fn, data: Data, dims: int) -> Data:
    """The function on each element, in a loop."""
    outer = data[0].shape[:dims]
    rows = [fn.apply([part[index].clone() for part in data]) for index in itertools.product(*map(range, outer))]
    return _stacked(rows, outer)


def step_by_step(fn: Fn, data: Data, dims: int, b: int, *, scan: bool) -> Data:
    """The function folded, in a loop."""
    outer, inner = data[0].shape[: dims - b], data[0].shape[dims - b : dims]
    rows: list[Sequence[Tensor]] = []
    for index in itertools.product(*map(range, outer)):
        state = fn.getInit()
        for step in itertools.product(*map(range, inner)):
            state = fn.apply([s.clone() for s in state], [part[index + step].clone() for part in data])
            if scan:
                rows.append(state)
        if not scan:
            rows.append(state)
    return _stacked(rows, (*outer, *inner) if scan else outer)


def _stacked(rows: list[Sequence[Any]], outer: Sequence[int]) -> Data:
    columns = [
        torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in c]) for c in zip(*rows, strict=True)
    ]
    return tuple(column.reshape(*outer, *column.shape[1:]) for column in columns)


def same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Fails where tensors differ beyond rounding."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def way(applier: Applier) -> str:
    """The name of the only way that was found."""
    (found,) = applier._modes.values()
    return type(found[0]).__name__


def _rope(element: Sequence[Tensor]) -> list[Tensor]:
    position, x = element
    frequency = 10.0 ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    cos, sin = torch.cos(position * frequency), torch.sin(position * frequency)
    first, second = x[: D // 2], x[D // 2 :]
    return [torch.cat((first * cos - second * sin, second * cos + first * sin))]


def _in_place(element: Sequence[Tensor]) -> list[Tensor]:
    result = element[0].clone()
    result[0] = 1.0
    result += 2
    return [result]


TRACED: dict[str, Given] = {
    "product": Given(lambda i: [i[0] * i[1]], STuple((F, V)), V),
    "scalars": Given(lambda i: [i[0] * i[1]], STuple((F, F)), F),
    "outer": Given(lambda i: [i[0].unsqueeze(1) * i[1]], STuple((V, V)), MATRIX),
    "two results": Given(lambda i: [i[0] / 3, i[1].exp()], STuple((F, V)), STuple((F, V))),
    "same": Given(lambda i: [i[0]], STuple((V, F)), V),
    "weights": Given(lambda i: [i[1] * gelu(i[0] @ WEIGHTS["W"]) @ WEIGHTS["W"]], STuple((V, F)), V),
    "vector weight": Given(lambda i: [torch.sigmoid(i[0] @ WEIGHTS["w"])], V, F),
    "module": Given(lambda i: [linear(i[0])], V, V),
    "top": Given(lambda i: [torch.zeros_like(i[0]).scatter(0, i[0].topk(2).indices, 1.0)], V, Multihot("float", D)),
    "stack": Given(lambda i: [torch.stack((i[0], 1 - i[0]))], F, Multihot("float", 2)),
    "mean": Given(lambda i: [i[0].mean(-1, keepdim=True).expand_as(i[0])], V, V),
    "softmax": Given(lambda i: [torch.softmax(i[0] @ i[1], -1)], STuple((V, MATRIX)), V),
    "transposed": Given(lambda i: [i[0].transpose(0, 1)], MATRIX, MATRIX),
    "choice": Given(lambda i: [(i[0] > 0.5).to(i[0].dtype)], F, F),
    "bool": Given(lambda i: [i[0] > 0.5], F, F),
    "rope": Given(_rope, STuple((F, V)), V),
    "interleaved": Given(lambda i: [torch.stack((i[0][0::2], i[0][1::2]), -1).flatten()], V, V),
    "literal": Given(lambda i: [i[0] * torch.tensor([1.0, 2.0, 3.0, 4.0]) + LITERAL], V, V),
    "constant": Given(lambda i: [torch.ones(D) * 2], F, V),
    "captured": Given(lambda i: [LITERAL], F, V),
    "own copy": Given(_in_place, V, V),
}


def _max_sum(state: Sequence[Tensor], element: Sequence[Tensor]) -> list[Tensor]:
    (top, total, mean), (score, value) = state, element
    new_top = torch.maximum(top, score)
    kept, added = total * torch.exp(top - new_top), torch.exp(score - new_top)
    return [new_top, kept + added, (kept * mean + added * value) / (kept + added)]


def _exp_max_diff(state: Sequence[Tensor], element: Sequence[Tensor]) -> list[Tensor]:
    top = torch.maximum(state[0], element[0])
    return [top, torch.exp(element[0] - top), torch.exp(state[0] - top)]


INF = float("inf")
AT_ONCE: dict[str, Given] = {
    "sum": Given(lambda s, i: [s[0] + i[0]], F, F, [0]),
    "positions": Given(lambda s, i: [i[0] + s[0]], F, F, [-1]),
    "sum of buffers": Given(lambda s, i: [s[0] + i[0]], V, V, [1]),
    "sum of products": Given(lambda s, i: [s[0] + i[0] * i[1]], STuple((V, F)), V, [0]),
    "sum of weighted": Given(lambda s, i: [s[0] + i[0] * WEIGHTS["w"]], V, V, [0]),
    "sum of images": Given(lambda s, i: [s[0] + i[0] @ WEIGHTS["W"]], V, V, [0]),
    "sum and maximum": Given(lambda s, i: [s[0] + i[0], torch.maximum(s[1], i[0])], F, STuple((F, F)), [0, -INF]),
    "maximum": Given(lambda s, i: [torch.maximum(s[0], i[0])], V, V, [-INF]),
    "minimum": Given(lambda s, i: [torch.minimum(i[0] * 2, s[0])], F, F, [0]),
}


IN_STEPS: dict[str, Given] = {
    "sum of weights": Given(lambda s, i: [s[0] + WEIGHTS["W"] * WEIGHTS["w"]], V, MATRIX, [0]),
    "sum of broadcast": Given(lambda s, i: [s[0] + i[0]], F, V, [0]),
    "count": Given(lambda s, i: [s[0] + 1], V, F, [0]),
    "doubled": Given(lambda s, i: [s[0] + s[0]], F, F, [1]),
    "alternating": Given(lambda s, i: [i[0] - s[0]], F, F, [5]),
    "product": Given(lambda s, i: [s[0] * i[0]], V, V, [1]),
    "decay": Given(lambda s, i: [s[0] * 0.5 + i[0]], V, V, [0]),
    "gated": Given(lambda s, i: [s[0] * torch.sigmoid(i[1]) - i[0]], STuple((V, F)), V, [2]),
    "last": Given(lambda s, i: [i[0] * 2], V, V, [0]),
    "never": Given(lambda s, i: [s[0]], V, V, [3]),
    "before": Given(lambda s, i: [i[0], s[0]], F, STuple((F, F)), [7, 8]),
    "exp max diff": Given(_exp_max_diff, F, STuple((F, F, F)), [-INF, 0, 0]),
    "online softmax": Given(_max_sum, STuple((F, V)), STuple((F, F, V)), [-INF, 0, 0]),
    "square": Given(lambda s, i: [s[0] * s[0] * 0.1 + i[0]], F, F, [0]),
    "sine": Given(lambda s, i: [torch.sin(s[0]) + i[0] @ WEIGHTS["W"]], V, V, [0]),
    "fibonacci": Given(lambda s, i: [s[1], s[0] + s[1]], F, STuple((F, F)), [0, 1]),
    "own copy": Given(lambda s, i: [s[0].clone().add_(i[0])], V, V, [0]),
}


FOLDED = AT_ONCE | IN_STEPS
