"""Numbers that truth values decide: sums, products, choices and comparisons of them, followed exactly.

The residues of every number are those of a rational function of free symbols that is the number wherever the symbols
are what they stand for. Of a function of truth values, they are those of its multilinear extension: the sum over all
outcomes of the function's number there times, for each truth value b, b or 1 - b. Where all truth values are 0 or 1,
which they are wherever symbols are what they stand for, one term is left, and it is the function's number. So equal
residues mean equal numbers for all inputs, whatever the truth values depend on: where some exclude each other, or one
follows from others, two extensions may differ although the numbers never do, and then nothing is proved. One truth
value, known by its fingerprint, is one atom, also where both factors of a product have it, as b * b = b; b and 1 - b
have one atom. Extensions of sums are the sums of extensions, and so are products of functions that share no atom.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import facts
from step_runtime.verification.exact.constants import simplest
from step_runtime.verification.exact.diagrams import Diagrams, Operation
from step_runtime.verification.exact.residues import Word, fingerprint, moduli
from step_runtime.verification.exact.value import Value

_ELEMENTS = 4096
"""Numbers of a tensor that are followed, at most."""
_LARGEST = 1 << 20
"""The size of constants that are followed, at most."""
Node = int | None
"""A function of truth values, of what is followed."""


def followed(*values: Value) -> bool:
    """Whether all are functions of truth values or constants, and not all constants."""
    if not any(value.bits or value.counted for value in values):
        return False
    constant = [value.constant() is not None for value in values]
    kinds = zip(values, constant, strict=True)
    return not all(constant) and all(value.bits or value.counted or own for value, own in kinds)


def combined(operation: Operation, found: Value, one: Value, other: Value | None = None) -> Value:
    """The result of an operation on one or two as a function of truth values, where they are."""
    if not followed(one, *([] if other is None else [other])):
        return found
    shape = found.data.shape[1:]
    ones = nodes(one, shape)
    others = [facts.diagrams().number(0)] * len(ones) if other is None else nodes(other, shape)
    return kept(found, _each(operation, ones, others), new=operation != "+")


def along(operation: Operation, found: Value, value: Value, dims: Sequence[int]) -> Value:
    """A sum or an extreme over some dims of a tensor as a function of truth values."""
    count = math.prod(value.shape[dim] for dim in dims)
    if not count or value.data[0].numel() > _ELEMENTS or not followed(value):
        return found
    own = value.data.shape[1:]
    places = torch.arange(math.prod(own)).reshape(own)
    rest = [dim for dim in range(len(own)) if dim - 1 not in dims]
    rows = places.permute(*(dim + 1 for dim in dims), *rest).reshape(count, -1).tolist()
    terms = nodes(value, own)
    total = [terms[place] for place in rows[0]]
    for row in rows[1:]:
        total = _each(operation, total, [terms[place] for place in row])
    return kept(found, total, new=operation != "+")


def chosen(found: Value, test: Value, one: Value, other: Value) -> Value:
    """One of two by a truth value."""
    if not followed(test, one, other):
        return found
    shape = found.data.shape[1:]
    tests, ones, others = (nodes(value, shape) for value in (test, one, other))
    minus = facts.diagrams().number(-1)
    gaps = _each("+", ones, _each("*", [minus] * len(others), others))
    return kept(found, _each("+", others, _each("*", tests, gaps)), new=True)


def compared(operation: Operation, found: Value, one: Value, other: Value | None = None) -> tuple[Value, Tensor]:
    """Whether numbers are above others or 0, or equal; which answers, `(1, ...)`, are functions of truth values."""
    shape = found.data.shape[1:]
    if not followed(one, *([] if other is None else [other])):
        return found, torch.zeros(1, *shape, dtype=torch.bool)
    own = [nodes(value, shape) for value in (one, other) if value is not None]
    there = torch.tensor([None not in pair for pair in zip(*own, strict=True)]).reshape(1, *shape)
    return combined(operation, found, one, other), there


def gap(one: Value, other: Value) -> tuple[Value, Value]:
    """Two numbers whose difference is not followed, as their comparison is."""
    return replace(one, bits=False, counted=False), replace(other, bits=False, counted=False)


def ranked(rows: Value, count: int, *, largest: bool) -> list[tuple[list[Node], list[Node]]]:
    """Of each of the first ranks along the last dim, the numbers and their places, of equal numbers the first first."""
    diagrams, size = facts.diagrams(), rows.shape[-1]
    own = nodes(rows, rows.data.shape[1:])
    zero, one, minus = (diagrams.number(value) for value in (0, 1, -1))
    found: list[tuple[list[Node], list[Node]]] = [([], []) for _ in range(count)]
    for start in range(0, len(own), size):
        row = own[start : start + size]
        ranks: list[Node] = [zero] * size
        for first, second in itertools.combinations(range(size), 2):
            pair = (row[second], row[first]) if largest else (row[first], row[second])
            turned = diagrams.apply(">", *pair)
            ranks[first] = diagrams.apply("+", ranks[first], turned)
            kept_ = diagrams.apply("+", one, diagrams.apply("*", minus, turned))
            ranks[second] = diagrams.apply("+", ranks[second], kept_)
        for rank, columns in enumerate(found):
            here = [diagrams.apply("==", own_rank, diagrams.number(rank)) for own_rank in ranks]
            numbers: list[Node] = [*map(diagrams.number, range(size))]
            for column, terms in zip(columns, (row, numbers), strict=True):
                total: Node = zero
                for term in _each("*", here, terms):
                    total = diagrams.apply("+", total, term)
                column.append(total)
    return found


def nodes(value: Value, shape: Sequence[int]) -> list[Node]:
    """The function of truth values that each number is, broadcast to a shape; None of others.

    A truth value that is not known as a function of others is an atom from then on.
    """
    own, diagrams = value.data.shape[1:], facts.diagrams()
    if math.prod(shape) > _ELEMENTS:
        return [None] * math.prod(shape)
    words, floats = _words(value.data), value.known.expand(1, *own).flatten().tolist()
    found = [
        diagrams.of(word) if math.isnan(number) else _constant(diagrams, number)
        for word, number in zip(words, floats, strict=True)
    ]
    missing = [place for place, node in enumerate(found) if node is None and math.isnan(floats[place])]
    if missing:
        numbers = value.data.flatten(1)[:, missing]
        inverted = [_words((base - numbers) % moduli(numbers)) for base in (0, 1)]
        for column, place in enumerate(missing):
            found[place] = node = _inverse(diagrams, inverted[0][column], inverted[1][column])
            if node is None and value.bits and not value.degree[1]:
                found[place] = node = diagrams.atom(numbers[:, column], value.degree[0])
            if node is not None:
                diagrams.keep(words[place], node)
    if own == shape:
        return found
    return [found[place] for place in torch.arange(len(found)).reshape(own).expand(*shape).flatten().tolist()]


def _constant(diagrams: Diagrams, number: float) -> Node:
    if abs(number) > _LARGEST:
        return None
    ratio = simplest(number)
    return diagrams.number(ratio) if ratio.denominator <= _LARGEST else None


def _inverse(diagrams: Diagrams, opposite: Word, other: Word) -> Node:
    """The function that is 0 or 1 minus the function of a number."""
    for base, word in ((0, opposite), (1, other)):
        if (node := diagrams.of(word)) is not None:
            minus = diagrams.apply("*", node, diagrams.number(-1))
            return diagrams.apply("+", diagrams.number(base), minus)
    return None


def _each(operation: Operation, ones: Sequence[Node], others: Sequence[Node]) -> list[Node]:
    diagrams = facts.diagrams()
    return [diagrams.apply(operation, one, other) for one, other in zip(ones, others, strict=True)]


def kept(found: Value, own: Sequence[Node], *, new: bool = False) -> Value:
    """A value some of whose numbers are functions, which is kept; with `new`, its residues are theirs."""
    diagrams, shape = facts.diagrams(), found.data.shape[1:]
    here = [place for place, node in enumerate(own) if node is not None]
    if not here:
        return found
    some = [node for node in own if node is not None]
    data, known = found.data.flatten(1), found.known.expand(1, *shape).flatten().clone()
    if new:
        data = data.clone()
        data[:, here] = diagrams.residues(some)
        degree = (max(found.degree[0], *map(diagrams.degree, {*some})), found.degree[1])
        found = replace(found, degree=degree)
    for place, word, node in zip(here, _words(data[:, here]), some, strict=True):
        diagrams.keep(word, node)
        least, most = diagrams.ends(node)
        if least == most:
            known[place] = float(least)
    ends = itertools.chain(*map(diagrams.ends, some))
    bits = found.bits or (len(some) == len(own) and all(end in (0, 1) for end in ends))
    data, known = data.reshape(-1, *shape), known.reshape(1, *shape)
    return replace(found, data=data, known=known, bits=bits, counted=True)


def _words(numbers: Tensor) -> list[Word]:
    return [(one, other) for one, other in fingerprint(numbers).reshape(2, -1).T.tolist()]
