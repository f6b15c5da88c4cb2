"""The streams that a round of the search starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from pipeline.synthesis.terms import Term
from pipeline.synthesis.value_blocks import SeenValues
from step_runtime.base.types import StreamType


@dataclass(frozen=True, eq=False)
class SeedStream:
    """A stream that a round starts from: `values` is one row, and `cost` 0 for an input and 1 for what is made."""

    type: StreamType
    values: Tensor
    term: Term
    cost: int


class SeedStreams:
    """Streams that differ in type or value, in the order of their addition."""

    def __init__(self, streams: Iterable[SeedStream] = ()) -> None:
        self._streams: list[SeedStream] = []
        self._seen: dict[StreamType, SeenValues] = {}
        for stream in streams:
            self.add(stream)

    def __iter__(self) -> Iterator[SeedStream]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: SeedStream) -> bool:
        """Adds a stream, unless there is one of its type and value; whether it was added."""
        new = bool(len(self._seen.setdefault(stream.type, SeenValues()).new(stream.values)))
        self._streams += [stream] if new else []
        return new
