"""Functions for the lines of a reference: on rows, or on the smallest block of dims on which a line's operator works.

What a function computes on a block of each operand is compared with the line's own result there. A catalogue's function
is taken if one has the same code; else the function is the line's operator itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pipeline.modules.symbols import coded
from step_runtime.tasks.templates import Template, named

_MOST_DIMS = 4
"""Of a block."""


@dataclass(eq=False)
class Value:
    """What a name of the reference holds, at each set of sizes.

    Attributes:
        code: Its name; of a constant, the code that makes it.
        tensors: At each set; numbers of a stream are float64, whatever the module has.
        shape: Its dims, outermost first.
        kind: `bool` and `int` are streams of numbers, too.
        constant: Whether it depends on sizes alone.
        weight: Whether it is a weight of the module.
        base: Of which it has the numbers, moved as no line does yet.
        index: Of these in `base`, at each set.
    """

    code: str
    tensors: Sequence[Tensor]
    shape: tuple[str, ...]
    kind: str = "float"
    constant: bool = False
    weight: bool = False
    base: Value | None = None
    index: Sequence[Tensor] = ()

    def places(self) -> Sequence[Tensor]:
        """The index of its numbers in its base, or in itself."""
        return self.index or [torch.arange(each.numel()).reshape(each.shape) for each in self.tensors]

    def read(self, code: str) -> str:
        """Code for it as what it is, from code for its numbers."""
        return f"({code} != 0)" if self.kind == "bool" else f"{code}.long()" if self.kind == "int" else code

    def block(self, rank: int) -> Tensor:
        """The last block of so many dims at the first sizes; a number where a row has one alone."""
        return self.tensors[0].reshape(-1)[-1] if self._is_number(rank) else _last(self.tensors[0], rank)

    def type(self, rank: int) -> str:
        """The type of a block in a task file."""
        return "fp32" if self._is_number(rank) else f"Buffer(fp32, [{', '.join(reversed(self.shape[-rank:]))}])"

    @property
    def dims(self) -> list[str | int]:
        """The dims of a stream of its numbers, as task files write them."""
        return [int(dim) if dim.isdigit() else dim for dim in reversed(self.shape)] or [1]

    def _is_number(self, rank: int) -> bool:
        return rank == 0 or not self.shape or (rank == 1 and self.shape[-1] == "1")


@dataclass
class Functions:
    """The functions of a task, as the entries of `fns`, each with the lines that it is for."""

    sizes: Mapping[str, int]
    catalogue: Mapping[str, Template]
    entries: dict[str, tuple[Any, set[str]]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def serve(self, name: str, code: str, operands: Sequence[Value], result: Value) -> None:
        """Adds a function that computes a line: the code with rows, or blocks, in the place of operands."""
        body = code.format(*(value.read(f"input[{at}]") for at, value in enumerate(operands)))
        body = f"({body}).double()" if result.kind != "float" else body.replace(", keepdim=True", "")
        scope = {"torch": torch, **{coded(dim): size for dim, size in self.sizes.items()}}
        for ranks in _ranks(operands, product="@" in code):
            blocks = [value.block(rank) for value, rank in zip(operands, ranks, strict=True)]
            try:
                found = eval(body, {**scope, "input": blocks})
            except Exception:  # the operator takes no such block
                continue
            wanted = result.block(1 if found.ndim == 0 and result.shape[-1:] == ("1",) else found.ndim)
            if found.shape == wanted.shape and torch.allclose(found, wanted, equal_nan=True):
                taken = [value.type(rank) for value, rank in zip(operands, ranks, strict=True)]
                return self._add(name, taken, result.type(found.ndim), body)
        self.missing.add(name)

    def keep(self, names: Collection[str]) -> None:
        """Leaves out what serves none of these lines."""
        self.entries = {key: entry for key, entry in self.entries.items() if entry[1] & {*names}}
        self.missing &= {*names}

    @property
    def fns(self) -> list[Any]:
        """The entries of `fns`."""
        return [entry for entry, _ in self.entries.values()]

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of those that the catalogue lacks."""
        return tuple(entry["func_name"] for entry in self.fns if isinstance(entry, dict))

    def _add(self, name: str, taken: Sequence[str], given: str, body: str) -> None:
        calls = (each.matching(taken, given, f"return [{body}]") for each in self.catalogue.values())
        entry: Any = next((call for call in calls if call is not None), None)
        if entry is None:
            label = re.sub(r"_\d+$", "", name)
            entry = {"name": label.title().replace("_", ""), "apply": f"return [{body}]\n"}
            entry |= {"input_dtype": taken[0] if len(taken) == 1 else [*taken], "output_dtype": given}
        key = repr(entry)
        if isinstance(entry, dict):
            dims = re.findall(r"\[(.*?)\]", taken[0])
            own = named(f"fn_{label}_{'_'.join(dims)}")
            number = sum(re.fullmatch(rf"{own}(_v\d+)?", each) is not None for each in self.derived)
            entry["func_name"] = f"{own}_v{number + 1}" if number else own
        self.entries.setdefault(key, (entry, set()))[1].add(name)


def _ranks(operands: Sequence[Value], *, product: bool) -> Iterator[list[int]]:
    """Dims of blocks to try; integers are taken one by one, weights as blocks like others, or whole."""
    if product:
        yield [1, 2]
    for dims in range(1, _MOST_DIMS + 1):
        for whole in (False, True):
            every = [each.tensors[0].ndim if whole and each.weight else dims for each in operands]
            yield [0 if whole and each.kind == "int" else rank for each, rank in zip(operands, every, strict=True)]


def _last(tensor: Tensor, rank: int) -> Tensor:
    while tensor.ndim > rank:
        tensor = tensor[-1]
    return tensor
