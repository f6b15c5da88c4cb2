"""Batches give what running a function element by element gives, whatever way is taken; streams are never spoiled.

The way is the fastest that is seen to be right: traced where all that the function uses is known, vmapped where it
is not, single where the function branches on data or has side effects.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor

from step_runtime.base.errors import RunError, TaskCodeError
from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, STuple, components_of, layout
from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.modes import Traced
from step_runtime.execution.tracing import Untraceable, trace
from step_runtime.language.parser import evaluate, read
from step_runtime.program.limits import Limits
from step_runtime.tasks.reader import loads_task, task_name
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import instances
from step_runtime.verification.simulate import simulate
from tests.support.paths import PROJECT
from tests.support.per_element import PerElement

DATA = PROJECT / "data"
F = Scalar("float")
D = 4
V = Buffer(F, [D])
MATRIX = Buffer(F, [D, D])
SIZES: dict[str, int] = {}
WEIGHTS: dict[str, Tensor] = {}
LITERAL = torch.arange(D, dtype=torch.float64)
TWICE = [LITERAL * 2]
ALSO_TWICE = TWICE[0]
SETTINGS = {"scale": 3.0}
LOG: list[float] = []
COUNTER = itertools.count()
gelu = torch.nn.GELU()
linear = torch.nn.Linear(D, D, dtype=torch.float64)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Computes in float64, with weights and settings as at first."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    WEIGHTS.update(W=torch.randn(D, D), w=torch.randn(D))
    SETTINGS["scale"] = 3.0
    LOG.clear()
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)


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
OUTERS = [(1,), (5,), (2, 3), (2, 1, 3), (60,)]


@pytest.mark.parametrize("outer", OUTERS, ids=str)
@pytest.mark.parametrize("name", TRACED)
def test_a_traced_function_gives_what_its_elements_give(name: str, outer: tuple[int, ...]) -> None:
    """First use, replay, and replay on a batch of another shape; nothing is written into the stream."""
    fn, applier = TRACED[name], Applier(torch.float64)
    for shape in (outer, outer, (3, *outer[1:]), outer):
        data = drawn(fn.input, shape)
        before = [part.clone() for part in data]
        same(tuple(applier.map(fn, data, len(shape), SIZES)), one_by_one(fn, data, len(shape)))
        assert all(map(torch.equal, data, before))
    assert way(applier) == "Traced"


@pytest.mark.parametrize("name", TRACED)
def test_what_a_stream_repeats_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated dims, which take no memory, anywhere among the others, in batches that count as large."""
    monkeypatch.setattr("step_runtime.execution.modes._LARGE", 1)
    fn, applier = TRACED[name], Applier(torch.float64)
    outer = (4, 3, 5, 2)
    for repeated in ((1,), (0, 2), (3,), (0, 1, 2, 3)):
        data = tuple(
            part[tuple(slice(0, 1) if dim in repeated and not index else slice(None) for dim in range(4))].expand_as(
                part
            )
            for index, part in enumerate(drawn(fn.input, outer))
        )
        expected = one_by_one(fn, data, 4)
        for _ in range(2):
            same(tuple(applier.map(fn, data, 4, SIZES)), expected)
    assert way(applier) == "Traced"


@pytest.mark.parametrize("name", TRACED)
def test_no_element_gives_no_element(name: str) -> None:
    """A batch without elements has the declared layout, before and after a trial."""
    fn, applier = TRACED[name], Applier(torch.float64)
    for shape in ((0,), (3, 0), (2,), (0, 2)):
        found = applier.map(fn, drawn(fn.input, shape), len(shape), SIZES)
        expected = [(*shape, *[int(dim) for dim in layout(part)]) for part in components_of(fn.output)]
        assert [tuple(part.shape) for part in found] == expected


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
    "difference of products": Given(lambda s, i: [s[0] - i[1] * i[0]], STuple((V, F)), V, [5]),
    "alternating products": Given(lambda s, i: [i[0] * i[1] - s[0]], STuple((V, F)), V, [5]),
    "sums of two products": Given(lambda s, i: [s[0] + i[1] * i[0] + i[0] * i[2]], STuple((V, F, F)), V, [1]),
    "mean of products": Given(lambda s, i: [(s[0] * 0.5 + i[1] * i[0]) / (2 + i[2].abs())], STuple((V, F, F)), V, [1]),
    "products gated": Given(lambda s, i: [(s[0] + i[1] * i[0]) * torch.sigmoid(i[0])], STuple((V, F)), V, [1]),
    "sum of products for a matrix": Given(lambda s, i: [s[0] + i[1] * i[0]], STuple((V, F)), MATRIX, [0]),
    "sum of sums": Given(lambda s, i: [s[0] + (i[0] + i[1])], STuple((V, F)), V, [0]),
    "difference of quotients": Given(lambda s, i: [s[0] - i[0] / (2 + i[1].abs())], STuple((V, F)), V, [0]),
    "sum of weighted": Given(lambda s, i: [s[0] + i[0] * WEIGHTS["w"]], V, V, [0]),
    "sum of weights": Given(lambda s, i: [s[0] + WEIGHTS["W"] * WEIGHTS["w"]], V, MATRIX, [0]),
    "sum of images": Given(lambda s, i: [s[0] + i[0] @ WEIGHTS["W"]], V, V, [0]),
    "sum of broadcast": Given(lambda s, i: [s[0] + i[0]], F, V, [0]),
    "count": Given(lambda s, i: [s[0] + 1], V, F, [0]),
    "difference": Given(lambda s, i: [s[0] - i[0]], F, F, [5]),
    "alternating": Given(lambda s, i: [i[0] - s[0]], F, F, [5]),
    "product": Given(lambda s, i: [s[0] * i[0]], V, V, [1]),
    "quotient": Given(lambda s, i: [s[0] / (2 + i[0].abs())], F, F, [1]),
    "maximum": Given(lambda s, i: [torch.maximum(s[0], i[0])], V, V, [-INF]),
    "minimum": Given(lambda s, i: [torch.minimum(i[0] * 2, s[0])], F, F, [0]),
    "clipped": Given(lambda s, i: [torch.maximum(torch.maximum(s[0], i[0]), i[0] * 2)], F, F, [0]),
    "decay": Given(lambda s, i: [s[0] * 0.5 + i[0]], V, V, [0]),
    "gated": Given(lambda s, i: [s[0] * torch.sigmoid(i[1]) - i[0]], STuple((V, F)), V, [2]),
    "growth": Given(lambda s, i: [s[0] * (1 + i[0].abs()) + i[0]], F, F, [1]),
    "last": Given(lambda s, i: [i[0] * 2], V, V, [0]),
    "never": Given(lambda s, i: [s[0]], V, V, [3]),
    "before": Given(lambda s, i: [i[0], s[0]], F, STuple((F, F)), [7, 8]),
    "exp max diff": Given(_exp_max_diff, F, STuple((F, F, F)), [-INF, 0, 0]),
    "online softmax": Given(_max_sum, STuple((F, V)), STuple((F, F, V)), [-INF, 0, 0]),
}
IN_STEPS: dict[str, Given] = {
    "sine": Given(lambda s, i: [torch.sin(s[0]) + i[0] @ WEIGHTS["W"]], V, V, [0]),
    "square": Given(lambda s, i: [s[0] * s[0] * 0.1 + i[0]], F, F, [0]),
    "quotient of state": Given(lambda s, i: [i[0] / (s[0] + 9)], F, F, [1]),
    "fibonacci": Given(lambda s, i: [s[1], s[0] + s[1]], F, STuple((F, F)), [0, 1]),
    "mixed": Given(lambda s, i: [torch.maximum(s[0] * 0.5, i[0])], F, F, [0]),
    "own copy": Given(lambda s, i: [s[0].clone().add_(i[0])], V, V, [0]),
}
FOLDED = AT_ONCE | IN_STEPS
SHAPES = [((3, 1), 1), ((4, 5), 1), ((2, 3, 4), 2), ((3, 40), 1), ((1, 3, 2), 1)]


@pytest.mark.parametrize("scan", [False, True], ids=["accum", "scan"])
@pytest.mark.parametrize(("shape", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("name", FOLDED)
def test_a_traced_fold_gives_what_its_steps_give(name: str, shape: tuple[int, ...], b: int, scan: bool) -> None:
    """First use, replay, and replay with other numbers of folds and steps."""
    fn, applier = FOLDED[name], Applier(torch.float64)
    for outer in (shape, shape, (2, *shape[1:-1], shape[-1] + 1)):
        data = drawn(fn.input, outer)
        expected = step_by_step(fn, data, len(outer), b, scan=scan)
        same(applier.fold(fn, data, len(outer), b, SIZES, scan=scan), expected)
    assert way(applier) == "Traced"
    ((found, _),) = applier._modes.values()
    assert isinstance(found, Traced) and found._fold is not None
    assert (found._fold._stages is not None) == (name in AT_ONCE)


@pytest.mark.parametrize("name", FOLDED)
def test_a_fold_of_nothing_is_the_initial_state(name: str) -> None:
    """Folds without steps give their initial state; without folds there is no result."""
    fn, applier = FOLDED[name], Applier(torch.float64)
    for shape in ((3, 0), (0, 3), (2, 2), (3, 0)):
        found = applier.fold(fn, drawn(fn.input, shape), 2, 1, SIZES, scan=False)
        if shape[1] == 0:
            same(found, [part.expand(shape[0], *part.shape) for part in fn.getInit()])
        assert found[0].shape[0] == shape[0]
        assert applier.fold(fn, drawn(fn.input, shape), 2, 1, SIZES, scan=True)[0].shape[:2] == shape


@pytest.mark.parametrize("value", [float("nan"), INF, -INF, 0.0, 1e300], ids=str)
@pytest.mark.parametrize("name", FOLDED)
def test_special_values_are_folded_as_by_steps(name: str, value: float) -> None:
    """NaN, infinities, zeros and huge numbers end in the same places."""
    fn, applier = FOLDED[name], Applier(torch.float64)
    for place in (0, 7, 19):
        data = drawn(fn.input, (3, 20))
        data[0][1, place] = value
        for scan in (False, True):
            same(applier.fold(fn, data, 2, 1, SIZES, scan=scan), step_by_step(fn, data, 2, 1, scan=scan))


def test_repeated_dims_are_copied_where_they_cannot_be_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tape over several batch dims, the one over a single dim serves."""
    monkeypatch.setattr("step_runtime.execution.modes._LARGE", 1)

    def narrow(function: Any, example: Any, captures: Any, dims: int = 1) -> Any:
        if dims > 1:
            raise Untraceable
        return trace(function, example, captures)

    monkeypatch.setattr("step_runtime.execution.modes.trace", narrow)
    fn, applier = TRACED["product"], Applier(torch.float64)
    data = (torch.randn(3, 1).expand(3, 4), torch.randn(3, 4, D))
    for _ in range(2):
        same(tuple(applier.map(fn, data, 2, SIZES)), one_by_one(fn, data, 2))
    assert way(applier) == "Traced"


PRODUCTS: dict[str, tuple[Given, DType]] = {
    "matrix-vector": (TRACED["product"], V),
    "scalars": (TRACED["scalars"], F),
    "outer": (TRACED["outer"], MATRIX),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("b", [1, 2])
def test_products_are_summed_as_if_they_were_formed(name: str, b: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Map that multiplies what is repeated, then an Accum that sums: also where only one of both is repeated."""
    monkeypatch.setattr("step_runtime.execution.modes._LARGE", 1)
    fn, element = PRODUCTS[name]
    total = Given(lambda s, i: [s[0] + i[0]], element, element, [1])
    outer = (4, 5, 6)
    for repeated in ([(1,), ()], [(1,), (0,)], [(0, 2), (1,)], [(2,), (2,)], [(), ()]):
        applier = Applier(torch.float64)
        full = drawn(fn.input, outer)
        data = tuple(
            part[tuple(slice(0, 1) if dim in dims else slice(None) for dim in range(3))].expand_as(part)
            for dims, part in zip(repeated, full, strict=True)
        )
        (formed,) = one_by_one(fn, data, 3)
        expected = formed.sum(tuple(range(3 - b, 3))) + 1
        for _ in range(3):
            products = applier.map(fn, data, 3, SIZES)
            same(applier.fold(total, products, 3, b, SIZES, scan=False), [expected])
        same(tuple(products), [formed])


def test_weights_are_looked_up_at_every_replay() -> None:
    """A weight drawn anew, or changed in place, is seen; one of another shape starts a new trial."""
    fn, applier = TRACED["weights"], Applier(torch.float64)
    data = drawn(fn.input, (6,))
    for change in (
        lambda: None,
        lambda: WEIGHTS.update(W=torch.randn(D, D)),
        lambda: WEIGHTS["W"].mul_(2),
        lambda: WEIGHTS.update(W=torch.randn(D, D).t()),
        lambda: WEIGHTS.update(W=torch.randn(1, 1).expand(D, D)),
    ):
        change()
        same(tuple(applier.map(fn, data, 1, SIZES)), one_by_one(fn, data, 1))


def test_one_function_at_several_sizes() -> None:
    """A result's layout that only the sizes tell is not that of an earlier trial."""
    dim = sympy.Symbol("D")
    applier = Applier(torch.float64)
    fill = Given(lambda i: [i[0].expand(int(SETTINGS["D"]))], F, Buffer(F, [dim]))
    total = Given(lambda s, i: [s[0] + i[0]], F, Buffer(F, [dim]), [1])
    total.getInit = lambda: [torch.ones(int(SETTINGS["D"]))]  # type: ignore[method-assign]
    for size in (3, 5, 3):
        SETTINGS["D"] = size
        for fn in (fill, total):
            data = (torch.arange(6.0).reshape(2, 3),)
            if fn is fill:
                found = applier.map(fn, data, 2, {"D": size})
                same(tuple(found), [data[0].unsqueeze(-1).expand(2, 3, size)])
            else:
                found = applier.fold(fn, data, 2, 1, {"D": size}, scan=False)
                same(tuple(found), [(data[0].sum(1, keepdim=True) + 1).expand(2, size)])


def test_settings_that_change_are_seen() -> None:
    """A number that the function reads from outside is not baked into its trace."""
    fn, applier = Given(lambda i: [i[0] * SETTINGS["scale"]], F, F), Applier(torch.float64)
    data = drawn(F, (6,))
    for scale in (3.0, 5.0):
        SETTINGS["scale"] = scale
        same(tuple(applier.map(fn, data, 1, SIZES)), [data[0] * scale])
    fn.body = lambda i: [i[0] - 1]
    same(tuple(applier.map(fn, data, 1, SIZES)), [data[0] - 1])


VMAPPED: dict[str, Callable[..., Sequence[Any]]] = {
    "reads a weight into Python": lambda i: [i[0] * WEIGHTS["w"].tolist()[0]],
    "branches on a weight": lambda i: [i[0] if WEIGHTS["w"][0] > 0 else -i[0]],
    "a weight in two places": lambda i: [i[0] * TWICE[0][1] * ALSO_TWICE[1]],
}


@pytest.mark.parametrize("name", VMAPPED)
def test_what_a_trace_does_not_see_is_run_at_every_batch(name: str) -> None:
    """What Python reads of a weight is read anew."""
    fn, applier = Given(VMAPPED[name], F, F), Applier(torch.float64)
    data = drawn(F, (6,))
    for sign in (1, -1):
        WEIGHTS["w"] = torch.tensor([2.0 * sign, 1, 1, 1])
        same(tuple(applier.map(fn, data, 1, SIZES)), one_by_one(fn, data, 1))
    assert way(applier) == "Vmapped"


def _counts(element: Sequence[Tensor]) -> list[Tensor]:
    LOG.append(0.0)
    return [element[0] + len(LOG)]


def _counts_globally(element: Sequence[Tensor]) -> list[Tensor]:
    global CALLS  # noqa: PLW0603 - this is what the test is about
    CALLS = CALLS + 1
    return [element[0] + CALLS]


CALLS = 0


class Counting(Given):
    """Keeps count in an attribute."""

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        self.calls = getattr(self, "calls", 0) + 1
        return [args[-1][0] + self.calls]


def _late(element: Sequence[Tensor]) -> list[Tensor]:
    WEIGHTS["w"].add_(1)
    return [element[0] + WEIGHTS["w"][0]]


SIDE_EFFECTS: dict[str, Callable[[], Fn]] = {
    "list": lambda: Given(_counts, F, F),
    "global": lambda: Given(_counts_globally, F, F),
    "attribute": lambda: Counting(_counts, F, F),
    "iterator": lambda: Given(lambda i: [i[0] + next(COUNTER)], F, F),
    "random": lambda: Given(lambda i: [i[0] + random.random()], F, F),
    "torch.rand": lambda: Given(lambda i: [i[0] + torch.rand(())], F, F),
    "weight in place": lambda: Given(_late, F, F),
}


@pytest.mark.parametrize("name", SIDE_EFFECTS)
def test_side_effects_happen_once_per_element_in_stream_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element sees what its predecessors left, from the first one on."""
    results = []
    for run in (Applier(torch.float64).map, lambda fn, data, dims, _: one_by_one(fn, data, dims)):
        monkeypatch.setitem(globals(), "CALLS", 0)
        monkeypatch.setitem(globals(), "COUNTER", itertools.count())
        LOG.clear()
        WEIGHTS["w"] = torch.zeros(D)
        random.seed(1)
        torch.manual_seed(1)
        results.append(tuple(run(SIDE_EFFECTS[name](), (torch.zeros(3, 4),), 2, SIZES)))
    same(*results)


def test_side_effects_of_a_fold_happen_fold_after_fold() -> None:
    """The order is that of the stream, not step after step of all folds."""
    fn = Given(lambda s, i: [s[0] + _counts(i)[0]], F, F, [0])
    found = Applier(torch.float64).fold(fn, (torch.zeros(3, 4),), 2, 1, SIZES, scan=True)
    LOG.clear()
    same(found, step_by_step(fn, (torch.zeros(3, 4),), 2, 1, scan=True))


def _writes(element: Sequence[Tensor]) -> list[Tensor]:
    element[0].mul_(2)
    return [element[0]]


SINGLE: dict[str, Callable[..., Sequence[Any]]] = {
    "if": lambda i: [i[0] if i[0].sum() > 0 else -i[0]],
    "item": lambda i: [i[0] * i[0][0].item()],
    "python number": lambda i: [i[0] * float(i[0].max())],
    "writes into its input": _writes,
}


@pytest.mark.parametrize("name", SINGLE)
def test_what_no_batch_takes_is_right_and_spoils_no_stream(name: str) -> None:
    """Branches on data, and writes into the input, which no other reader of the stream sees."""
    fn, applier = Given(SINGLE[name], V, V), Applier(torch.float64)
    for _ in range(2):
        data = drawn(V, (3, 5))
        before = data[0].clone()
        found = tuple(applier.map(fn, data, 2, SIZES))
        assert torch.equal(data[0], before)
        same(found, one_by_one(fn, data, 2))
    assert way(applier) == ("Vmapped" if name == "writes into its input" else "Sequential")


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "shape": (lambda i: [i[0][:2]], "component 0 of apply has shape (2,); expected (4,)"),
    "broadcast": (lambda i: [i[0].sum()], "component 0 of apply has shape (); expected (4,)"),
    "count": (lambda i: [i[0], i[0]], "returned 2 components; expected 1"),
    "tensor": (lambda i: i[0], "returned Tensor; expected a list"),
    "kind": (lambda i: ["x"], "component 0 of apply is a str"),
    "fails": (lambda i: [i[0] @ torch.ones(3)], "raised RuntimeError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_function_is_reported_by_name_component_and_shapes(name: str) -> None:
    """What a function returns is held to its declaration; no silent broadcast."""
    body, quoted = WRONG[name]
    with pytest.raises(TaskCodeError) as caught:
        Applier(torch.float64).map(Given(body, V, V), drawn(V, (5,)), 1, SIZES)
    assert "function given" in str(caught.value) and quoted in str(caught.value)


@pytest.mark.parametrize("body", [IN_STEPS["square"].body, lambda s, i: [s[0] + i[0].item()]], ids=["steps", "single"])
def test_the_time_limit_is_held_between_steps(body: Callable[..., Sequence[Any]]) -> None:
    """A fold of many steps ends soon after its time is up."""
    applier = Applier(torch.float64)
    fn = Given(body, F, F, [0])
    applier.fold(fn, (torch.zeros(1, 70),), 2, 1, SIZES, scan=False)
    applier.deadline = time.monotonic() + 0.05
    start = time.process_time()
    with pytest.raises(RunError, match="time-limit"):
        applier.fold(fn, (torch.zeros(1, 1_000_000),), 2, 1, SIZES, scan=False)
    assert time.process_time() - start < 2


def _tasks() -> list[Task]:
    paths = sorted((DATA / "tasks").glob("*/*.yaml"))
    return [loads_task(path.read_text(encoding="utf-8"), task_name(path)) for path in paths]


@pytest.mark.parametrize("task", _tasks(), ids=lambda task: task.name)
def test_every_oracle_gives_what_loops_give_and_all_its_functions_are_traced(task: Task) -> None:
    """The simulator against per-element loops, at the second draw, where nothing is in trial any more."""
    instance = instances(task)[0]
    text = (DATA / "oracles" / f"{task.name}.step").read_text(encoding="utf-8")
    program, _ = evaluate(read(text, Limits()), instance.scope, Limits())
    types, _ = infer_types(program, instance.scope)
    applier, loops = Applier(torch.float64), PerElement()
    for seed in (0, 1):
        inputs = instance.sample_inputs(seed)
        found = simulate(program, types, inputs, instance.sizes, applier)
    expected = loops.simulate(program, types, inputs, instance.sizes)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    assert {type(found[0]).__name__ for found in applier._modes.values()} == {"Traced"}
