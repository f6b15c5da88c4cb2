"""Streams that a round starts from are kept once for each type and value."""

import sympy
import torch

from pipeline.synthesis.rules import InputTerm, SeedStream, SeedStreams
from step_runtime.base.types import Scalar, StreamType

N, M = sympy.symbols("N M")


def stream(values: list[float], dim: sympy.Symbol = N) -> SeedStream:
    return SeedStream(StreamType(Scalar("float"), (dim,)), torch.tensor([values]).double(), InputTerm(0), 1)


def test_a_stream_is_added_once() -> None:
    """Another type with the same numbers is another stream; so is another order, or a mask in another place."""
    given = SeedStreams([stream([1.0, 2.0])])
    assert not given.add(stream([1.0, 2.0]))
    assert given.add(stream([1.0, 2.0], M)) and given.add(stream([2.0, 1.0]))
    assert given.add(stream([1.0, -torch.inf])) and given.add(stream([-torch.inf, 1.0]))
    assert not given.add(stream([1.0, -torch.inf]))
    assert len(given) == len(list(given)) == 5
