"""A seed for every call of a sample, so that a program that asks the same again gets another answer.

Invariants: the first call has the sample's own seed; a call's seed depends on the sample's and on the call's number in
the sample, and not on timing: calls of the sample's own thread are numbered in their order, those of other threads
among the equal requests of these threads, which are interchangeable; a repeated sample starts over.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from typing import Any


def derive_seed(*parts: Any) -> int:
    """A seed in [0, 2**31), the range that every provider accepts: a hash of the parts' JSON."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class CallSeeds:
    """The seeds of the calls of one sample, from its own; made in the thread that runs the sample."""

    def __init__(self, seed: int) -> None:
        self._seed, self._thread, self._lock = seed, threading.get_ident(), threading.Lock()
        self._calls, self._elsewhere = 0, Counter[str]()

    def __deepcopy__(self, memo: dict[int, Any]) -> CallSeeds:
        return self  # a module that deep-copies its LM still counts here

    def next(self, request: Any) -> int:
        """The seed of the next call; `request` is its positional and keyword arguments."""
        if threading.get_ident() == self._thread:
            number, self._calls = self._calls, self._calls + 1
            return derive_seed("call", self._seed, number) if number else self._seed
        text = json.dumps(request, default=str, sort_keys=True)
        with self._lock:
            self._elsewhere[text] += 1
            return derive_seed("call", self._seed, text, self._elsewhere[text])
