"""What a search observes of a task: its data of the seed that tells most, and what its reference computes on its way.

The latter is every tensor that the reference's operators make, and the steps within one call of PyTorch: a reference
that calls `softmax` never names the maximum, the exponentials or their sum; a program may make each, so they count.
Where one expression runs several times, in a loop, its tensors count together, too: a Scan emits them. A tensor that
operators have written into counts as it is when it is read next. Where tensors of different sizes were concatenated, as
a cache and what is new, the parts of later tensors along that dim count.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.synthesis.bottom_up import BatchExecutor
from pipeline.synthesis.rules import InputTerm, ProgramBuilder, SeedStream, Term, TermWriter
from pipeline.synthesis.value_blocks import RowLayout, close, digests, finite, sane
from step_runtime.base.errors import StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import simulate

_MOST_NUMBERS = 2**18
"""Numbers of a tensor that is recorded."""
_MOST_CALLS = 256
"""The calls of one expression that are recorded."""
_PASSES = (2, 3, 4)
"""Passes of an outer loop whose values are landmarks of their own."""
_MOST_ALONE = 8
"""The first calls of one expression that are landmarks of their own."""
_Site: TypeAlias = tuple[tuple[str, str, int, int], ...]
"""A chain of calls: file, function, instruction and line of each, the innermost first."""


class ReferenceRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what the operators of an author's code give, by the place in the code."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[tuple[_Site, str, int], list[Tensor]] = {}
        self._logits = (torch.empty(0), torch.empty(0))
        self._written: set[int] = set()
        self._joined: dict[int, list[int]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes a second, to keep it from compiling this class.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = _place()
        read = self._read(func._schema, args) if place else []
        result = func(*args, **(kwargs or {}))
        if not place:
            return result
        results = result if isinstance(result, tuple | list) else [result]
        steps = self._steps(str(func), results, args, kwargs or {})
        made = [*results, *steps, *read]
        parts = [part for tensor in made if isinstance(tensor, Tensor) for part in self._parts(tensor)]
        if str(func).startswith("aten.cat"):
            self._note_joined(*args, **(kwargs or {}))
        for number, tensor in enumerate([*made, *parts]):
            if isinstance(tensor, Tensor) and 0 < tensor.numel() <= _MOST_NUMBERS:
                calls = self.made.setdefault((place, str(func), number), [])
                if len(calls) < _MOST_CALLS:
                    calls.append(_recorded(tensor))
        return result

    def _note_joined(self, tensors: Sequence[Tensor], dim: int = 0) -> None:
        sizes = [tensor.shape[dim] for tensor in tensors if tensor.dim()]
        if len(set(sizes)) > 1:
            self._joined[sum(sizes)] = sizes

    def _parts(self, tensor: Tensor) -> Iterator[Tensor]:
        """The parts of a tensor along dims that are as long as what was concatenated."""
        for dim, size in enumerate(tensor.shape):
            if size in self._joined:
                yield from torch.split(tensor, self._joined[size], dim)

    def _read(self, schema: Any, args: Sequence[Any]) -> list[Tensor]:
        """What an operator is about to read and others have written into, which is the result of none as it is now."""
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if schema.is_mutable:
            operands = zip(schema.arguments, args, strict=False)
            written = [arg for spec, arg in operands if spec.is_write and isinstance(arg, Tensor)]
            self._written.update(map(_storage, written))
            return []
        views = any(returned.alias_info for returned in schema.returns)
        read = [] if views else [tensor for tensor in tensors if _storage(tensor) in self._written]
        self._written.difference_update(map(_storage, read))
        return [_recorded(tensor) for tensor in read]

    def _steps(self, operator: str, results: Sequence[Any], args: Any, kwargs: Any) -> Iterator[Tensor]:
        """An operator's steps; of a cross entropy the logits at the targets, too; and those on concatenated parts."""
        if operator.startswith("aten._log_softmax"):
            self._logits = results[0], args[0]
        if operator.startswith("aten.nll_loss") and self._logits[0].numel() == args[0].numel():
            # The loss may read a copy of them in another shape.
            logp, logits = (part.reshape(args[0].shape) for part in self._logits)
            if torch.equal(logp, args[0]):
                yield from steps_of(operator, results, (logits, *args[1:]), kwargs)
        yield from steps_of(operator, results, args, kwargs)
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        sizes = next((self._joined[size] for each in tensors for size in each.shape if size in self._joined), [])
        for part in range(len(sizes)):
            own = [self._part(arg, part) if isinstance(arg, Tensor) else arg for arg in args]
            yield from steps_of(operator, results, own, kwargs)

    def _part(self, tensor: Tensor, number: int) -> Tensor:
        """One of the parts of a tensor along the last dim that is as long as what was concatenated."""
        dims = [dim for dim, size in enumerate(tensor.shape) if size in self._joined]
        return torch.split(tensor, self._joined[tensor.shape[dims[-1]]], dims[-1])[number] if dims else tensor


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _recorded(tensor: Tensor) -> Tensor:
    """The flat numbers of a tensor as it is now: a later operator may write into it."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.detach().to(torch.float64).flatten().clone()


def _place() -> _Site:
    """The chain of calls in the author's code, which has file names such as `<task: global>`; empty outside it."""
    found = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if ": " in frame.f_code.co_filename:
            found.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


class ReferenceValue(NamedTuple):
    """A flat value that the reference computes, and the line of the task file that it does so in; empty if unknown."""

    line: str
    value: Tensor


def reference_values(instance: TaskInstance, seed: int) -> list[ReferenceValue]:
    """What the reference computes for one input: the outputs; single results; then those of a loop together.

    Raises:
        TaskCodeError: The reference fails.
    """
    instance.sample_inputs(seed)
    with ReferenceRecorder() as recorder:
        outputs = instance.reference()
    found = [ReferenceValue("", part.to(torch.float64).flatten()) for parts in outputs for part in parts]
    for (place, *_), calls in recorder.made.items():
        values = [calls[-1]]
        if len(calls) > 1:
            values += [torch.cat(calls), *calls[:_MOST_ALONE]]
            # A loop in a loop: what each pass of the outer one computes.
            for passes in (times for times in _PASSES if len(calls) % times == 0 and len(calls) > times):
                size = len(calls) // passes
                values += [torch.cat(calls[start : start + size]) for start in range(0, len(calls), size)]
        line = _line(instance.task, place)
        found += [ReferenceValue(line, value) for value in values]
    return found


def _line(task: Task, place: _Site) -> str:
    """The line of a data_transform that a chain of calls starts in, with its text."""
    file, _, _, number = place[-1]
    found = re.search(r"data_transform (\d+) of output (\w+)>$", file)
    for spec in task.outputs if found else ():
        if found and spec.name == found[2]:
            lines = spec.data_transform[int(found[1])].splitlines()
            if 0 < number <= len(lines):
                return f"output {spec.name}, line {number}: {lines[number - 1].strip()}"
    return ""


def steps_of(operator: str, results: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The intermediate values of an operator, such as `aten.sort.default`, that has these results; none if unknown."""
    steps = _STEPS.get(operator.rpartition(".")[0])
    try:
        return list(steps(results, *args, **kwargs)) if steps else []
    except (RuntimeError, TypeError, IndexError):  # called with arguments that the steps do not know
        return []


def _softmax(_: Sequence[Any], x: Tensor, dim: int | list[int], *__: Any) -> Iterator[Tensor]:
    """With and without the subtraction of the maximum."""
    top = x.amax(dim, keepdim=True)
    yield from (x.logsumexp(dim), x.exp(), x.exp().sum(dim), top, x - top, (x - top).exp(), (x - top).exp().sum(dim))


def _sort(results: Sequence[Any], x: Tensor, dim: int = -1, *_: Any, **kwargs: Any) -> Iterator[Tensor]:
    """The rank of each number."""
    yield results[1].argsort(kwargs.get("dim", dim)).to(torch.float64)


def _picked(_: Sequence[Any], x: Tensor, target: Tensor, *__: Any) -> Iterator[Tensor]:
    """Each row's number at its target."""
    dim = min(x.ndim - 1, 1)
    yield x.gather(dim, target.clamp(min=0).unsqueeze(dim))


def _centered(_: Sequence[Any], x: Tensor, dim: list[int] | None = None, *__: Any, **___: Any) -> Iterator[Tensor]:
    """Mean, distances from it, their squares and the sum of these."""
    dims = tuple(dim) if dim else tuple(range(x.ndim))
    mean = x.mean(dims, keepdim=True)
    square = (x - mean).square()
    yield from (mean, x - mean, square, square.sum(dims), square.mean(dims), square.mean(dims).sqrt(), x.square())


def _rsqrt(_: Sequence[Any], x: Tensor) -> Iterator[Tensor]:
    yield x.sqrt()


def _logistic(_: Sequence[Any], x: Tensor, *__: Any) -> Iterator[Tensor]:
    """Of a sigmoid, and of what multiplies by one."""
    yield from (x.sigmoid(), (-x).exp(), (-x).exp() + 1)


def _layer_norm(_: Sequence[Any], x: Tensor, shape: list[int], *__: Any) -> Iterator[Tensor]:
    yield from _centered(_, x, list(range(-len(shape), 0)))


def _group_norm(_: Sequence[Any], x: Tensor, __: Any, ___: Any, n: int, *sizes: Any) -> Iterator[Tensor]:
    yield from _centered(_, x.reshape(n, sizes[2], -1), [-1])


def _norm(_: Sequence[Any], x: Tensor, order: float = 2, dim: list[int] | None = None, *__: Any) -> Iterator[Tensor]:
    powers = x.abs() ** order
    yield from (powers, powers.sum(tuple(dim) if dim else tuple(range(x.ndim))))


def _attention(
    _: Sequence[Any], q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, causal: bool = False, **kwargs: Any
) -> Iterator[Tensor]:
    scores = q @ k.transpose(-1, -2) * (kwargs.get("scale") or q.shape[-1] ** -0.5)
    yield scores
    mask = kwargs.get("attn_mask")
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    yield from (scores, torch.softmax(scores, -1), *_softmax(_, scores, -1))


_STEPS: dict[str, Callable[..., Iterator[Tensor]]] = {
    "aten._softmax": _softmax,
    "aten._safe_softmax": _softmax,
    "aten._log_softmax": _softmax,
    "aten.logsumexp": _softmax,
    "aten.sort": _sort,
    "aten.nll_loss_forward": _picked,
    "aten.nll_loss2d_forward": _picked,
    "aten.rsqrt": _rsqrt,
    "aten.sigmoid": _logistic,
    "aten.silu": _logistic,
    "aten.std": _centered,
    "aten.var": _centered,
    "aten.native_layer_norm": _layer_norm,
    "aten.native_group_norm": _group_norm,
    "aten.linalg_vector_norm": _norm,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
}


MOST = 200
"""Landmarks of one task, the first to be computed."""
_DISTINCT = 3
"""Different numbers that a landmark has at least, if they are whole and in any order."""
_FEWEST_BITS = 8
"""Numbers that a landmark of fewer different ones has at least."""
_LOOSE = 1e-6
_HUGE = 1e20
"""Numbers from which on one counts as infinite."""
_FEWEST = 4
"""Numbers that a landmark has at least for its multiples to count."""
_MOST_ORDERS = 3
"""Streams of one type that count for a landmark, if they differ: its transpose has its numbers in another order."""
_MOST_TOGETHER = 2**20
"""Pairs of a row and a landmark that are compared at a time, by their sums and norms."""
_MOST_CHANCES = 16
"""Streams that are tried for the other input before a landmark no longer counts, for each of them."""

_Place: TypeAlias = tuple[int, int]
"""A landmark's size, and its number among those of this size."""
_Key: TypeAlias = tuple[object, int, int, bool]
"""A kind of streams, a landmark's size and number, and whether the stream has the landmark itself or a multiple."""


@dataclass(frozen=True)
class _Mark:
    """A landmark: its numbers, ascending unless they are `in_order` of the value, with their sum and norm.

    `other` is the same for another input, if that says enough.
    """

    numbers: Tensor
    in_order: bool
    total: float
    norm: float
    line: str
    other: _Mark | None

    @classmethod
    def of(cls, value: Tensor, line: str = "", other: Tensor | None = None) -> _Mark | None:
        """The landmark of a flat value, computed in a line; None if it says too little to be one."""
        ordered = _ordered(value)
        different = int((ordered.diff() != 0).sum()) + 1
        whole = bool((ordered == ordered.round()).all())
        in_order = whole and different < _DISTINCT
        if (different < 2 and whole) or (in_order and len(ordered) < _FEWEST_BITS):
            return None
        numbers = _plain(value) if in_order else ordered
        total, norm = float(numbers.sum()), float(numbers.square().sum().sqrt())
        return cls(numbers, in_order, total, norm, line, None if other is None else cls.of(other))

    def holds(self, value: Tensor, ratio: float) -> bool:
        """Whether a value of the other input has the landmark, too; or any multiple, if it had one other than 1."""
        found = self.other.ratio(value) if self.other else ratio
        return found == 1 if ratio == 1 else bool(found)

    def ratio(self, value: Tensor) -> float:
        """What a value is a multiple of the landmark by, 1 for the same; 0 if it is none."""
        if self.in_order:
            return float(_same(_plain(value), self.numbers))
        ordered = _ordered(value)
        if _same(ordered, self.numbers):
            return 1.0
        size = float(ordered.square().sum().sqrt()) / self.norm if self.norm else 0.0
        if len(self.numbers) >= _FEWEST and 0 < size < math.inf:
            for ratio, scaled in ((size, self.numbers * size), (-size, (self.numbers * -size).flip(0))):
                if _same(ordered, scaled):
                    return ratio
        return 0.0


class Landmarks:
    """The landmarks of a task that no stream has been found for yet.

    Args:
        values: What the reference computes for the observed input.
        others: The same for another input, in the same order; shorter or longer where the code took another way.
        known: Values that are no landmarks, flat.
    """

    def __init__(
        self, values: Sequence[ReferenceValue], others: Sequence[ReferenceValue], known: Iterable[Tensor]
    ) -> None:
        self._marks: dict[int, list[_Mark]] = {}
        seen: dict[int, list[_Mark]] = {}
        for value in known:
            if mark := _Mark.of(value):
                seen.setdefault(len(value), []).append(mark)
        alike = len(values) == len(others)
        for place, (line, value) in enumerate(values):
            other = others[place].value if alike else None
            if other is not None and torch.equal(value, other):
                continue
            mark, same = _Mark.of(value, line, other), seen.setdefault(len(value), [])
            if mark and self.count < MOST and not any(known.ratio(value) == 1 for known in same):
                same.append(mark)
                self._marks.setdefault(len(value), []).append(mark)
        self.finite = all(bool(torch.isfinite(value).all()) for _, value in values)
        self._found: dict[_Key, set[int]] = {}
        self._chances: Counter[_Key] = Counter()
        self._figures = {
            size: torch.tensor([(abs(mark.total), mark.norm) for mark in marks], dtype=torch.float64).T.unsqueeze(2)
            for size, marks in self._marks.items()
        }
        self._ratios: dict[tuple[int, int, int, int], float] = {}
        self._passed_on: dict[_Place, int] = {}
        self._exact: set[_Place] = set()

    @property
    def count(self) -> int:
        """The number of landmarks."""
        return sum(map(len, self._marks.values()))

    def missed(self) -> tuple[str, ...]:
        """The lines of the reference none of whose values a stream has had, in order."""
        lines: dict[str, bool] = {}
        for size, marks in self._marks.items():
            for number, mark in enumerate(marks):
                if mark.line:
                    lines[mark.line] = lines.get(mark.line, False) or (size, number) in self._passed_on
        return tuple(line for line, found in lines.items() if not found)

    def wanted(self, layout: RowLayout) -> bool:
        """Whether a component of such streams may have a landmark's value."""
        return any(prod(shape) in self._marks for shape in layout.shapes)

    def reached(
        self,
        kind: object,
        layout: RowLayout,
        values: Tensor,
        elsewhere: Callable[[int], Tensor | None] = lambda row: None,
    ) -> Iterator[int]:
        """The rows of a block that have a landmark, or a multiple of it, that few streams of this kind had before.

        A component of a tuple, and a stream that repeats numbers, count only for a landmark that no stream has had
        that repeats them as rarely: functions pass components on.
        `elsewhere` gives the value of a row for the other input, or None if there is none: what is a landmark by
        chance is none there.
        """
        for component, part in enumerate(layout.unpack(values)):
            flat = part.reshape(len(values), -1)
            for place, times, rows in self._near(flat, part_only=len(layout.shapes) > 1):
                mark = self._marks[place[0]][place[1]]
                near = flat[rows]
                for row, digest, own in zip(rows, digests(near).tolist(), near, strict=True):
                    # Most were here in another round. Digests do not tell small numbers apart beside a mask's.
                    judged = *place, times, hash(own.numpy().tobytes())
                    if judged not in self._ratios:
                        once = _once(own, times)
                        self._ratios[judged] = 0.0 if once is None else mark.ratio(once)
                    ratio = self._ratios[judged]
                    key = (kind, *place, ratio == 1)
                    if not ratio or not self._may_count(key, digest):
                        continue
                    self._chances[key] += 1
                    other = elsewhere(row)
                    other = None if other is None else _once(layout.unpack(other)[component].reshape(-1), times)
                    if other is None or mark.holds(other, ratio):
                        self._found.setdefault(key, set()).add(digest)
                        self._passed_on[place] = min(times, self._passed_on.get(place, times))
                        self._exact |= {place} if ratio == 1 else set()
                        yield row

    def _near(self, flat: Tensor, *, part_only: bool) -> Iterator[tuple[_Place, int, list[int]]]:
        """Landmarks, each with how often rows hold each of its numbers, and the rows that sums and norms allow."""
        if not (sizes := [own for own in self._marks if flat.shape[1] % own == 0]):
            return
        clean = _plain(flat)
        sums, norms, scale = clean.sum(1).abs(), clean.square().sum(1).sqrt(), clean.abs().sum(1)
        together = max(1, _MOST_TOGETHER // len(flat))
        for own in sizes:
            marks, times = self._marks[own], flat.shape[1] // own
            for start in range(0, len(marks), together):
                totals, own_norms = self._figures[own][:, start : start + together]
                # Of numbers that are repeated, the sum grows with the times, the norm with their root.
                gaps = (sums * own_norms - norms * totals * math.sqrt(times)).abs()
                near = gaps <= _LOOSE * scale * own_norms
                for number in near.any(1).nonzero().flatten().tolist():
                    place = own, start + number
                    fresh = (times == 1 and not part_only) or self._passed_on.get(place, times + 1) > times
                    if fresh and (times == 1 or not marks[place[1]].in_order):
                        yield place, times, near[number].nonzero().flatten().tolist()

    def _may_count(self, key: _Key, digest: int) -> bool:
        """Whether a value, or its multiple, may count: few do for each landmark and kind, no multiple after itself."""
        _, size, number, exact = key
        found = self._found.get(key, set())
        most = _MOST_ORDERS if exact else 1
        spent = len(found) == most or self._chances[key] >= most * _MOST_CHANCES
        return not spent and digest not in found and (exact or (size, number) not in self._exact)


def _once(value: Tensor, times: int) -> Tensor | None:
    """The numbers of a value that holds each of them so many times; None if it does not."""
    if times == 1:
        return value
    columns = _ordered(value).reshape(-1, times)
    return columns[:, 0] if _same(columns[:, 0], columns[:, -1]) else None


def _plain(values: Tensor) -> Tensor:
    """The values with fixed numbers in place of NaN, infinities and huge ones."""
    return finite(torch.where(values.abs() >= _HUGE, values.sign() * math.inf, values))


def _ordered(values: Tensor) -> Tensor:
    return _plain(values.flatten()).sort().values


def _same(one: Tensor, other: Tensor) -> bool:
    return bool(close(one.unsqueeze(0), other.unsqueeze(0)).all())


SEEDS = range(8)
"""Those whose data may be observed; the verifier has more."""


def telling_runs(instance: TaskInstance) -> list[tuple[int, list[ReferenceValue]]]:
    """Seeds with what the reference computes on their data, first where most values and inputs differ from each other.

    Where two of them agree by chance, so do different programs: a ReLU of positive numbers, a choice never made.

    Raises:
        TaskCodeError: The reference fails.
    """
    runs = [(seed, reference_values(instance, seed)) for seed in SEEDS]
    return sorted(runs, key=lambda run: -_distinct([*flat_inputs(instance, run[0]), *(value for _, value in run[1])]))


def _distinct(values: Sequence[Tensor]) -> int:
    return len({(len(value), *digests(finite(value).unsqueeze(0))) for value in values})


def flat_inputs(instance: TaskInstance, seed: int) -> list[Tensor]:
    """The numbers of every input."""
    return [part.to(torch.float64).flatten() for parts in instance.sample_inputs(seed).values() for part in parts]


def least_instance(task: Task) -> TaskInstance:
    """The task at the sizes at which its inputs hold the fewest numbers."""
    return min(instances(task), key=_numbers)


def _numbers(instance: TaskInstance) -> int:
    """Numbers in all inputs."""
    return sum(part.numel() for parts in instance.sample_inputs(SEEDS[0]).values() for part in parts)


class Observation:
    """A task's inputs, the values of its outputs, and its landmarks.

    Attributes:
        seed: The seed of the data.
        inputs: The streams of the inputs.
        wanted: The outputs' values, each one row.
        landmarks: Values that the reference computes.
        sane_only: Whether neither the outputs nor what the reference computes has infinite or huge numbers.

    Raises:
        TaskCodeError: The reference fails.
    """

    def __init__(self, instance: TaskInstance, executor: BatchExecutor) -> None:
        self._instance, self._executor = instance, executor
        self._applier = Applier(instance.dtype, Deadline.at(executor.clock))
        (self.seed, values), (self._other, others), *_ = telling_runs(instance)
        self.landmarks = Landmarks(values, others, flat_inputs(instance, self.seed))
        data, scope = instance.sample_inputs(self.seed), instance.scope
        self.wanted = [
            executor.layout(type_).pack(parts, 1)
            for type_, parts in zip(scope.outputs, instance.reference(), strict=True)
        ]
        self.inputs = [
            SeedStream(type_, executor.layout(type_).pack(parts, 1), InputTerm(place), 0)
            for place, (type_, parts) in enumerate(zip(scope.inputs.values(), data.values(), strict=True))
        ]
        self.sane_only = self.landmarks.finite and all(bool(sane(value).all()) for value in self.wanted)

    def has_landmark(self, stream: SeedStream) -> bool:
        """As `reached`, for one stream."""
        return bool(list(self.reached(stream.type, stream.values, lambda _: stream.term)))

    def reached(self, type_: StreamType, values: Tensor, term: Callable[[int], Term]) -> Iterator[int]:
        """The rows of a block of streams, made by these terms, that have landmarks for both seeds.

        The only output is not a landmark: nothing is left to search for behind it.
        """
        outputs = self._instance.scope.outputs
        for row in self.landmarks.reached(
            type_, self._executor.layout(type_), values, lambda row: self._elsewhere(type_, term(row))
        ):
            if outputs != (type_,) or not bool(close(values[row : row + 1], self.wanted[0])):
                yield row

    def _elsewhere(self, type_: StreamType, term: Term) -> Tensor | None:
        """The values of a stream for another input; None where it fails."""
        builder = ProgramBuilder(self._instance.scope)
        program = builder.program((TermWriter(builder).stream(term),))
        types = infer_types(program, self._instance.scope)[0]
        try:
            data = simulate(
                program, types, self._instance.sample_inputs(self._other), self._instance.sizes, self._applier
            )[0]
        except StepError:
            return None
        finally:
            self._instance.sample_inputs(self.seed)
        return self._executor.layout(type_).pack(data, 1)
