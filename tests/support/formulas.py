"""The fingerprints of pieces of PyTorch code."""

from __future__ import annotations

import numpy as np

from pipeline.lms.embedded.formulas.residues import Kind, Residues
from pipeline.lms.embedded.formulas.tape import Tape
from pipeline.lms.embedded.influence.arrays import as_array, nodes_of, unknown
from pipeline.lms.embedded.influence.reader import ArrayReader

SHAPES = {"x": (3, 4), "y": (3, 4), "w": (4, 2), "i": (3,), "m": (3, 4), "p": (3, 4), "h": (3, 4)}
"""What the code can name: numbers, weights, indices, a mask of zeros and ones, positive numbers, and fp16 numbers."""
_KINDS = {"m": Kind(ones=(-1, -1)), "p": Kind(positive=True), "h": Kind(format="float16")}


def fingerprints(code: str, world: int = 0, *, rounds: bool = False) -> Residues:
    """The first residue of each element of what a piece of code gives, of its shape; `rounds` is as in `Formats`."""
    data = {name: unknown(np.full(shape, 1 << place, np.uint64)) for place, (name, shape) in enumerate(SHAPES.items())}
    reader = ArrayReader(data, {})
    reader.kinds, reader.tape = _KINDS, Tape(0, rounds=rounds)
    names = "; ".join(f"{name} = input_data['{name}']" for name in SHAPES)
    array = as_array(reader.run(f"{names}\n{code}", {}))
    nodes = nodes_of(array, reader.tape)
    assert nodes is not None
    found: Residues = reader.tape.evaluated(world=world)[0][nodes, 0]
    return found


def same(one: str, other: str, world: int = 0) -> bool:
    """Whether two pieces of code give the same formulas in one of the worlds."""
    first, second = fingerprints(one, world), fingerprints(other, world)
    return first.shape == second.shape and bool((first == second).all())
