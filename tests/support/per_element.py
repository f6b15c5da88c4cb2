"""The baseline of the simulator: Python loops over all indices, one element at a time (paper, Figure 22)."""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from random import Random
from typing import TypeAlias

import torch
from torch import Tensor

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.execution.applier import Applier, Data, StreamData
from step_runtime.primitives import Frame, Merge, Operand, Partition
from step_runtime.program.graph import Program
from step_runtime.verification.check import Types

Index: TypeAlias = tuple[int, ...]
Loop: TypeAlias = Callable[[Iterable[Index]], None]


class PerElement(Applier):
    """Applies functions and routes slices in loops. What only reshapes is as in the simulator, and takes no time.

    Args:
        part: elements of each call that run, chosen at random; None for all.

    Attributes: `seconds` of all loops so far, extrapolated from those that ran in part.
    """

    def __init__(self, part: int | None = None) -> None:
        super().__init__(torch.float64)
        self.seconds = 0.0
        self._part = part
        self._fast = Applier(torch.float64)
        self._random = Random(0)

    def simulate(self, program: Program, types: Types, inputs: Mapping[str, Data], sizes: Sizes) -> list[Data]:
        """The results' tensors: those of the loops, or of the simulator where the loops ran in part."""
        loops, fast = Frame(dict(sizes), self), Frame(dict(sizes), self._fast)
        loops.sizes = fast.sizes
        values: dict[int, StreamData] = {index: inputs[name] for index, name in enumerate(program.inputs)}
        for node in program.nodes:
            operands = [Operand(kind, values[i]) for i in node.inputs if (kind := types[i])]
            outputs = [kind for i in node.outputs if (kind := types[i])]
            results = node.op.run(operands, outputs, fast if isinstance(node.op, Merge) else loops)
            if isinstance(node.op, Partition):
                self._partition(operands, results)
            elif isinstance(node.op, Merge):
                results = (self._merge(node.op.fn, operands, results[0]),)
            values |= dict(zip(node.outputs, results, strict=True))
        return [tuple(values[stream]) for stream in program.results]

    def map(self, fn: Fn, data: StreamData, dims: int, sizes: Sizes) -> Data:
        """See `Applier`."""
        result = self._prepared(self._fast.map(fn, data, dims, sizes))

        def loop(indices: Iterable[Index]) -> None:
            for index in indices:
                _put(result, index, fn.apply([part[index] for part in data]))

        self._run(data[0].shape[:dims], 1, loop)
        return result

    def fold(self, fn: Fn, data: StreamData, dims: int, b: int, sizes: Sizes, *, scan: bool) -> Data:
        """See `Applier`."""
        shape = data[0].shape[:dims]
        result = self._prepared(self._fast.fold(fn, data, dims, b, sizes, scan=scan))
        steps = list(_indices(shape[dims - b :]))

        def loop(indices: Iterable[Index]) -> None:
            for index in indices:
                state = fn.getInit()
                for step in steps:
                    state = fn.apply(list(state), [part[index + step] for part in data])
                    if scan:
                        _put(result, index + step, state)
                if not scan:
                    _put(result, index, state)

        self._run(shape[: dims - b], len(steps), loop)
        return result

    def _partition(self, operands: Sequence[Operand], results: Sequence[StreamData]) -> None:
        """Takes the time only: the slices are those of `results`."""
        slices, bits = operands[0].data, operands[1].data[0]
        routed: list[list[list[Tensor]]] = [[] for _ in results]

        def loop(indices: Iterable[Index]) -> None:
            for index in indices:
                for number, stream in enumerate(routed):
                    if bits[index][number] != 0:
                        stream.append([part[index] for part in slices])
            for stream in routed:
                for column in zip(*stream, strict=True):
                    torch.stack(column)

        self._run(bits.shape[:-1], 1, loop)

    def _merge(self, fn: Fn, operands: Sequence[Operand], merged: StreamData) -> Data:
        *streams, index_stream = operands
        bits = index_stream.data[0]
        inner = list(_indices(streams[0].data[0].shape[1 : len(streams[0].type.shape)]))
        result = self._prepared(merged)
        heads = [itertools.count() for _ in streams]

        def loop(indices: Iterable[Index]) -> None:
            for index in indices:
                chosen = [number for number in range(len(streams)) if bits[index][number] != 0]
                slices = [[part[next_] for part in streams[n].data] for n in chosen for next_ in [next(heads[n])]]
                for place in inner:
                    state = fn.getInit()
                    for parts in slices:
                        state = fn.apply(list(state), [part[place] for part in parts])
                    _put(result, index + place, state)

        self._run(bits.shape[:-1], max(1, len(inner)), loop)
        return result

    def _prepared(self, whole: StreamData) -> Data:
        """Where the loops write: over nothing where all of them run."""
        return tuple(part.clone() if self._part else torch.full_like(part, torch.nan) for part in whole)

    def _run(self, shape: Sequence[int], each: int, loop: Loop) -> None:
        """Runs all of a loop, or as much as takes about `part` elements of `each` per index, and adds its time."""
        total = prod(shape)
        count = total if self._part is None else min(total, max(1, self._part // each))
        indices: Iterable[Index] = _indices(shape)
        if count < total:
            indices = [tuple(self._random.randrange(size) for size in shape) for _ in range(count)]
        start = time.perf_counter()
        loop(indices)
        if count:
            self.seconds += (time.perf_counter() - start) * total / count


def _put(result: Data, index: Index, values: Sequence[Tensor]) -> None:
    for target, value in zip(result, values, strict=True):
        target[index] = value


def _indices(shape: Sequence[int]) -> Iterable[Index]:
    return itertools.product(*map(range, shape))
