"""Whether what is read of code holds all that its result depends on: one element of an input at a time changes."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.lms.embedded.influence.arrays import as_array, unknown
from pipeline.lms.embedded.influence.reader import ArrayReader

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of inputs; one named `i`, `j` or `m` holds integers below its first entry, which is not a dim."""
_STEPS = (1.3, -0.9)


def holds(code: str, shapes: Shapes) -> float:
    """The share of the sources read that change something, where every change is among them.

    Raises:
        AssertionError: A source is lost, or the result is of another shape.
    """
    arrays, spans, first = {}, {}, 0
    for name, shape in shapes.items():
        own = _dims(name, shape)
        spans[name] = range(first, first + int(np.prod(own)))
        bits = np.left_shift(np.uint64(1), np.arange(spans[name].start, spans[name].stop, dtype=np.uint64))
        arrays[name] = unknown(bits.reshape(own))
        first = spans[name].stop
    found = as_array(ArrayReader(arrays, {}).run(code, dict(arrays))).sources
    changes = _changes(code, shapes, spans)
    assert changes.shape == found.shape, (changes.shape, found.shape)
    assert not (changes & ~found).any(), f"lost: {changes & ~found}"
    return float(np.bitwise_count(changes).sum() / max(1, np.bitwise_count(found).sum()))


def _dims(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:] if name in "ijm" else shape


def _changes(code: str, shapes: Shapes, spans: Mapping[str, range]) -> NDArray[np.uint64]:
    """Which elements of the inputs change each element of the result, for two sets of data."""
    generator = np.random.default_rng(0)
    found: NDArray[np.uint64] | None = None
    for _ in range(2):
        data = {name: _random(name, shape, generator) for name, shape in shapes.items()}
        before = _result(code, data)
        found = np.zeros(tuple(before.shape), np.uint64) if found is None else found
        for name, span in spans.items():
            for place, number in enumerate(span):
                for step in range(len(_STEPS)):
                    other = {**data, name: _changed(name, shapes[name], data[name], place, step)}
                    differs = (_result(code, other) - before).abs() > 1e-7 * (1 + before.abs())
                    found |= np.where(differs.numpy(), np.uint64(1) << np.uint64(number), np.uint64(0))
    assert found is not None
    return found


def _random(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> torch.Tensor:
    if name in "ijm":
        return torch.as_tensor(generator.integers(0, shape[0], size=shape[1:]))
    return torch.as_tensor(generator.normal(size=shape))


def _changed(name: str, shape: tuple[int, ...], data: torch.Tensor, place: int, step: int) -> torch.Tensor:
    new = data.clone()
    flat = new.view(-1)
    flat[place] = (flat[place] + step + 1) % shape[0] if name in "ijm" else flat[place] + _STEPS[step]
    return new


def _result(code: str, data: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The value of the code's last line, as numbers that are not complex."""
    *body, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    env: dict[str, Any] = {
        "torch": torch, "F": torch.nn.functional, "nn": torch.nn, "math": math, "functools": functools,
        "input_data": data, **{name: value.clone() for name, value in data.items()},
    }  # fmt: skip
    exec(compile(ast.Module(body, []), "code", "exec"), env)
    value = torch.as_tensor(eval(compile(ast.Expression(last.value), "code", "eval"), env))
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj()).mul(torch.tensor([1.0, 0.7])).sum(-1)
    return value.double()
