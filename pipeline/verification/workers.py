"""Where calls run: killable worker processes of this machine or, through the same interface, of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from pipeline.base.machine import cores
from pipeline.verification.isolation.confinement import Sandbox
from pipeline.verification.pool import WorkerPool


@dataclass(frozen=True)
class PoolSettings:
    """The settings of a pool of workers; see `WorkerPool`.

    Attributes:
        seconds: Processor time of one call.
        memory: Bytes that calls may hold in a worker.
        initializer: A module's function, called in every worker before its first call.
        preload: Modules that workers find imported.
        group: A module's function, called with a call's arguments: only calls of one group share a process.
        reads: Likewise: the files that a process of its group may read.
        sandbox: What these processes are confined to; None for what applies where they are.
        patience: The limit of a call by the clock, as a multiple of its processor time; None for the pool's own.
    """

    seconds: float
    memory: int
    initializer: Callable[[], Callable[[], bool] | None] | None = None
    preload: tuple[str, ...] = ()
    group: Callable[..., str] | None = None
    reads: Callable[..., tuple[str, ...]] | None = None
    sandbox: Sandbox | None = None
    patience: int | None = None

    def start(self, workers: int) -> WorkerPool:
        """A pool of this machine's processes."""
        return WorkerPool(workers, **vars(self))


class KillableExecutor(Executor, ABC):
    """An executor whose running calls can be ended; a call that costs its worker raises `WorkerLost`."""

    @abstractmethod
    def kill_workers(self) -> None:
        """Takes no more calls, cancels those that wait, and ends those that run."""


class Workers(Protocol):
    """Workers on one machine or many."""

    @property
    def count(self) -> int:
        """How many calls can run at a time, now."""

    def pool(self, settings: PoolSettings, most: int | None = None) -> WorkerPool | KillableExecutor:
        """An executor whose calls have these limits, and which gets `most` calls, if that is known."""


class LocalWorkers:
    """Workers of this machine: in each pool so many, or one per core."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()

    def pool(self, settings: PoolSettings, most: int | None = None) -> WorkerPool:
        """A pool of processes that start at once."""
        return settings.start(self.count if most is None else max(1, min(self.count, most)))
