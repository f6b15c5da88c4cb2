"""What a program computes, stream by stream: a table of types, and the first values that the reference does not have.

A stream is known if the reference, its inputs included, computes a tensor of the same distinct values, in whatever
order and however often each is repeated. A right program may compute what its reference does not; hence a stream of
which a known stream is made is taken for right, and the first of the others is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.invocation import default_dtype
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.printer import label
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import Types, infer_types
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate


class Explained(NamedTuple):
    """A program's graph with the type of every stream, as far as known."""

    program: Program
    types: Types

    def table(self) -> str:
        """One line a stream, or for all copies of one: names, type, the primitive that makes it, and its operands."""
        program = self.program
        rows = [([index], "input") for index in range(len(program.inputs))]
        copies: dict[StreamId, list[StreamId]] = {}
        for node in program.nodes:
            if isinstance(node.op, Copy) and (row := copies.pop(node.inputs[0], None)):
                at = row.index(node.inputs[0])
                row[at : at + 1] = node.outputs
            else:
                made = f"{label(node.op)} of {', '.join(program.name(stream) for stream in node.inputs)}"
                made += f" (line {node.span.line})" if node.span else ""
                row = [*node.outputs]
                rows += [(row, made)] if isinstance(node.op, Copy) else [([stream], made) for stream in row]
            copies |= dict.fromkeys(node.outputs, row) if isinstance(node.op, Copy) else {}
        names = [", ".join(program.name(stream) for stream in row) for row, _ in rows]
        types = [str(self.types[row[0]] or "unknown") for row, _ in rows]
        width = [max(map(len, column)) for column in (names, types)]
        lines = [
            f"{name:<{width[0]}}  {kind:<{width[1]}}  {made}"
            for name, kind, (_, made) in zip(names, types, rows, strict=True)
        ]
        results = ", ".join(program.name(stream) for stream in program.results)
        return "\n".join([*lines, f"returns {results or 'nothing'}"])


def explain(text: str, scope: Scope) -> Explained:
    """The graph of a program text with all types that can be inferred, even if other parts are wrong."""
    program, _ = parse(text, scope)
    types, _ = infer_types(program, scope)
    return Explained(program, types)


_MOST = 2_000
"""Tensors of a reference that are kept."""
_LARGEST = 2**20
"""Numbers of a tensor that is compared."""
_SHOWN = 64
"""Numbers of a tensor that is printed whole."""


@dataclass(frozen=True)
class _Known:
    """A tensor of the reference: what computed it, and its distinct values."""

    name: str
    distinct: Tensor


class _Recorder(TorchDispatchMode):
    """Keeps what torch's operators return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: list[_Known] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which replaces functions of torch: the verdict would be discarded.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the operator."""
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, list | tuple) else (result,):
            if isinstance(part, Tensor) and len(self.known) < _MOST and 0 < part.numel() <= _LARGEST:
                name = func.overloadpacket.__name__ if hasattr(func, "overloadpacket") else str(func)
                self.known.append(_Known(f"torch.{name.strip('_')}", _distinct(part)))
        return result


def explain_values(program: Program, types: Types, instance: TaskInstance, seed: int, where: str) -> str:
    """A line for each stream up to the first that the reference has nothing like, and that stream's values.

    The program runs to its end on the inputs of a seed; `where` gives the sizes in words.
    """
    inputs = instance.sample_inputs(seed)
    known = [_Known(f"input {name}", _distinct(part)) for name, data in inputs.items() for part in data]
    recorder = _Recorder()
    with recorder:
        outputs = instance.reference()
    for spec, output in zip(instance.task.outputs, outputs, strict=True):
        known += [_Known(f"output {spec.name}", _distinct(part)) for part in output]
    known += recorder.known
    count = len(types)
    every = replace(program, results=tuple(range(count)))
    with default_dtype(instance.dtype), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        streams = simulate(every, types, inputs, instance.sizes, Applier(instance.dtype))
    found = [_names(data, known) for data in streams]
    doubtful = _first_unknown(program, found)
    heading = f"values {where}, seed {seed}, beside values that the reference computes:"
    lines = [heading, *_rows(program, types, found, doubtful)]
    if doubtful is None:
        return "\n".join([*lines, "every stream is like something in the reference, but the results are not"])
    return "\n".join([*lines, *_printed(program.name(doubtful), streams[doubtful])])


def _first_unknown(program: Program, found: Sequence[str | None]) -> StreamId | None:
    """The first stream that is not known, and from which no known stream is made."""
    justified = {stream for stream, name in enumerate(found) if name is not None}
    for node in reversed(program.nodes):
        if justified.intersection(node.outputs):
            justified.update(node.inputs)
    return next((stream for stream in range(len(found)) if stream not in justified), None)


def _rows(program: Program, types: Types, found: Sequence[str | None], last: StreamId | None) -> Iterator[str]:
    for node in program.nodes:
        for stream in node.outputs:
            if last is not None and stream > last:
                return
            place = f" (line {node.span.line})" if node.span else ""
            name = found[stream]
            verdict = (
                f"as {name}" if name else "not in the reference" + (", used for what is" if stream != last else "")
            )
            yield f"  {program.name(stream)}: {types[stream]} = {label(node.op)}{place}: {verdict}"


def _names(data: Data, known: Sequence[_Known]) -> str | None:
    """What in the reference a stream is like; None if one of its components is like nothing there."""
    names = [_like(part, known) for part in data]
    return None if None in names else ", ".join(dict.fromkeys(name for name in names if name))


def _like(part: Tensor, known: Sequence[_Known]) -> str | None:
    if not 0 < part.numel() <= _LARGEST:
        return "nothing to compare"
    distinct = _distinct(part)
    return next((other.name for other in known if _same(distinct, other.distinct)), None)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=True)


def _distinct(part: Tensor) -> Tensor:
    """The distinct values of a tensor, to nine digits, in ascending order."""
    values = part.detach().to(torch.float64).flatten()
    scale = torch.ones(())
    if values.isfinite().all():
        scale = 10.0 ** (9 - values.abs().max().clamp(min=1e-300).log10().ceil())
        values = (values * scale).round()
    distinct: Tensor = values.unique()  # type: ignore[no-untyped-call]
    return distinct / scale


def _printed(name: str, data: Data) -> Iterator[str]:
    """The tensors of a stream: small ones whole, of large ones the beginning."""
    for number, part in enumerate(data):
        component = f", component {number}" if len(data) > 1 else ""
        whole = part.numel() <= _SHOWN
        yield f"{name}{component}, torch shape {tuple(part.shape)}{'' if whole else f', the first {_SHOWN} numbers'}:"
        shown = part if whole else part.flatten()[:_SHOWN]
        text = str([f"{float(number):.6g}" for number in shown]) if not whole else _rows_of(shown)
        yield "\n".join(f"  {line}" for line in text.replace("'", "").splitlines())


def _rows_of(part: Tensor) -> str:
    """A small tensor as nested lists, a row a line."""
    if part.dim() <= 1:
        values = part.reshape(-1).tolist()
        return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"
    return "\n".join(f"{index}: {line}" for index, row in enumerate(part) for line in _rows_of(row).splitlines())
