"""What verifies programs in worker processes; it imports the language alone, as they are to start fast."""

from __future__ import annotations

import functools

import torch

from pipeline.pool import WorkerPool
from step_runtime.errors import TaskError
from step_runtime.limits import Limits
from step_runtime.task import loads_task
from step_runtime.verify import Verdict, Verifier, refused_memory

SECONDS = 2 * Limits().seconds
"""Wall clock limit of one program, its task's compilation and references included."""

MEMORY = 4 * 2**30
"""Bytes of private data a worker; Limits.bytes of streams and what functions make of them fit in well."""


def verification_pool(workers: int, *, seconds: float = SECONDS, memory: int = MEMORY) -> WorkerPool:
    """Killable processes to verify in."""
    return WorkerPool(workers, seconds=seconds, memory=memory, initializer=_settle, preload=[__name__])


def judge(name: str, content: str, text: str) -> Verdict:
    """The verdict on a program text, for a task given by its name and its YAML.

    Raises:
        TaskError: the task cannot be used, or its reference failed.
        MemoryError: the worker was refused memory, and may hold too much to go on.
    """
    try:
        verdict = _verifier(name, content).verify(text)
    except TaskError as error:
        if refused_memory(error.__cause__):
            raise MemoryError(str(error)) from None
        raise
    if any(diagnostic.code == "memory-limit" for diagnostic in verdict.diagnostics):
        raise MemoryError(verdict.diagnostics[0].message)
    return verdict


@functools.lru_cache(maxsize=256)
def _verifier(name: str, content: str) -> Verifier:
    """One verifier a task and process, as its functions are compiled and its references computed once."""
    return Verifier(loads_task(content, name))


def _settle() -> None:
    # One process a core: more threads in each would only be in each other's way.
    torch.set_num_threads(1)
