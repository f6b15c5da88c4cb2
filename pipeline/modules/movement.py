"""Reshapes and transposes in one: where a value's numbers are in the one that was computed last.

However a graph moves numbers, the way from that value is one reshape, one permutation and one reshape, or less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

from pipeline.modules.rows import Value
from pipeline.modules.symbols import Symbols

Move = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Atom:
    """A dim, or a factor of one, along which a value's numbers are evenly apart in the base, at each set of sizes."""

    axis: int
    dim: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def moved(value: Value, moves: Sequence[Move], symbols: Symbols) -> Value | None:
    """A value with its numbers moved, a move for each set; None where the way from its base is none of such steps."""
    base = value.base or value
    index = [move(each) for move, each in zip(moves, value.places(), strict=True)]
    shape = symbols.shape([each.shape for each in index])
    tensors = [each.reshape(-1)[places] for each, places in zip(base.tensors, index, strict=True)]
    made = Value(base.code, tensors, shape, value.kind, base=base, index=index)
    if _is_in_order(made):
        return base if shape == base.shape and made.kind == base.kind else made
    return made if _atoms(made, symbols) else None


def steps(value: Value, symbols: Symbols) -> tuple[list[str], list[int]]:
    """The dims that the base is reshaped to, and the order in which the value has them."""
    if _is_in_order(value):
        return [*value.shape], [*range(len(value.shape))]
    atoms = [each for each in _atoms(value, symbols) if max(each.sizes) > 1]
    inner = sorted(atoms, key=lambda atom: -atom.strides[0])
    return [atom.dim for atom in inner], [inner.index(atom) for atom in atoms]


def natural(value: Value, symbols: Symbols) -> tuple[Value, list[Move]]:
    """A value with its rows in the order of its base, and what moves each of them back, at each set."""
    outer = [[*each.shape[:-1]] for each in value.tensors]
    back: list[Move] = [lambda each, to=to: each.reshape([*to, each.shape[-1]]) for to in outer]  # type: ignore[misc]
    if value.base is None or (value.base.shape[-1:] == value.shape[-1:] and _is_in_order(value)):
        return value.base or value, back
    atoms = [atom for atom in _atoms(value, symbols) if atom.axis < len(value.shape) - 1]
    order = sorted(range(len(atoms)), key=lambda place: -atoms[place].strides[0])
    if order == [*range(len(atoms))] and len(atoms) == len(value.shape) - 1:
        return value, back
    front: list[Move] = []
    inverse = [*sorted(range(len(order)), key=order.__getitem__), len(order)]
    for at, to in enumerate(outer):
        sizes = [atom.sizes[at] for atom in atoms]
        front.append(lambda each, own=sizes: each.reshape([*own, each.shape[-1]]).permute([*order, len(own)]))  # type: ignore[misc]
        back[at] = lambda each, to=to: each.permute(inverse).reshape([*to, each.shape[-1]])  # type: ignore[misc]
    return moved(value, front, symbols) or value, back


def has_rows(value: Value) -> bool:
    """Whether its rows are rows of its base."""
    return all(int(line[1] - line[0]) == 1 for line in (_along(each, -1) for each in value.places()) if len(line) > 1)


def places_in(rows: Tensor, index: Tensor) -> Tensor | None:
    """Where numbers are in rows; None if these have others."""
    order = rows.reshape(-1).argsort()
    own = rows.reshape(-1)[order]
    return (
        order[torch.searchsorted(own, index.contiguous())]
        if torch.equal(own, index.reshape(-1).sort().values)
        else None
    )


def _is_in_order(value: Value) -> bool:
    return all(torch.equal(each.reshape(-1), torch.arange(each.numel())) for each in value.places())


def _atoms(value: Value, symbols: Symbols) -> list[_Atom]:
    """The dims of a value, or their factors; empty where its numbers are not evenly apart, or not alike at all sets."""
    found = list[_Atom]()
    for axis, dim in enumerate(value.shape):
        lines = [_along(each, axis) for each in value.index]
        every = (_evenly(lines, axis, parts, symbols) for parts in _factors(dim))
        own = next((each for each in every if each), [])
        if not own:
            return []
        found += own
    for at, index in enumerate(value.index):
        if not torch.equal(_even(index.reshape(-1)[0], found, at), index.reshape(-1)):
            return []
    orders = {tuple(sorted(found, key=lambda atom: -atom.strides[at])) for at in range(len(value.index))}
    return found if len(orders) == 1 else []


def _factors(dim: str) -> Iterator[Sequence[str]]:
    """The ways to take a product of dims apart, with few parts first."""
    yield [dim]
    for parts in permutations(dim.split("*")) if re.fullmatch(r"[\w*]+", dim) else ():
        yield from (("*".join(parts[:place]), "*".join(parts[place:])) for place in range(1, len(parts)))
        yield parts


def _along(index: Tensor, axis: int) -> Tensor:
    return index.movedim(axis, -1).reshape(-1, index.shape[axis])[0]


def _even(first: Tensor, atoms: Sequence[_Atom], at: int) -> Tensor:
    for atom in atoms:
        first = first.unsqueeze(-1) + torch.arange(atom.sizes[at]) * atom.strides[at]
    return first.reshape(-1)


def _evenly(lines: Sequence[Tensor], axis: int, parts: Sequence[str], symbols: Symbols) -> list[_Atom]:
    """An axis as dims of these names, along each of which numbers are evenly apart; empty if they are not."""
    sizes, strides = [], []
    for line, own in zip(lines, symbols.sets, strict=True):
        sizes.append([_size(part, own) for part in parts] if len(parts) > 1 else [len(line)])
        steps_ = [math.prod(sizes[-1][place + 1 :]) for place in range(len(parts))]
        strides.append([int(line[step] - line[0]) if n > 1 else 0 for step, n in zip(steps_, sizes[-1], strict=True)])
    columns = zip(parts, zip(*sizes, strict=True), zip(*strides, strict=True), strict=True)
    atoms = [_Atom(axis, *column) for column in columns]
    return atoms if all(torch.equal(_even(line[0], atoms, at), line) for at, line in enumerate(lines)) else []


def _size(product: str, sizes: Mapping[str, int]) -> int:
    return math.prod(int(name) if name.isdigit() else sizes[name] for name in product.split("*"))
