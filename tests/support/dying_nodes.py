"""Nodes that live in this process, for tests of how calls are spread; some calls kill their node."""

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from pipeline.cluster.node import Answer, Numbered, run_pickled


def kill_node() -> None:
    """The node that runs this call dies, with all its calls."""


class DyingNodes:
    """Carries calls to nodes.

    A node that dies is reported, and another takes its place if `spare` nodes are left. The first `silent` exchanges
    with calls have no answer, though their nodes live.
    """

    def __init__(self, nodes: int, workers: int = 1, spare: int = 0, silent: int = 0) -> None:
        self.workers, self._spare, self._number, self.silent = workers, spare, nodes, silent
        self.alive = {f"node-{number}" for number in range(nodes)}
        self.dead: list[str] = []
        self.done: dict[str, list[int]] = {}
        self.ended: list[tuple[str, str]] = []
        self.held = threading.Event()
        self.held.set()
        self._lock = threading.Lock()
        self.report: Callable[[Mapping[str, int]], None] = lambda nodes: None

    def suspect(self) -> None:
        self.report(self.present())

    def present(self) -> dict[str, int]:
        with self._lock:
            return dict.fromkeys(sorted(self.alive), self.workers)

    def exchange(
        self, address: str, pool: str, settings: bytes, workers: int, calls: Sequence[Numbered], patience: float
    ) -> Future[Sequence[Answer]]:
        future: Future[Sequence[Answer]] = Future()
        threading.Thread(target=self._serve, args=(address, calls, future), daemon=True).start()
        return future

    def end(self, address: str, pool: str) -> None:
        self.ended.append((address, pool))

    def _serve(self, address: str, calls: Sequence[Numbered], future: Future[Any]) -> None:
        self.held.wait()
        if calls and self.silent > 0:
            self.silent -= 1
            future.set_exception(OSError("no answer"))
            return
        answers = []
        for number, group, payload in calls:
            function = pickle.loads(payload)[0]
            if function is kill_node:
                self._die(address)
            if address not in self.alive:
                future.set_exception(OSError("no answer"))
                return
            seconds, result = run_pickled(group, payload)
            answers.append(Answer(number, seconds, result))
            self.done.setdefault(address, []).append(number)
        future.set_result(answers)

    def _die(self, address: str) -> None:
        with self._lock:
            self.alive.discard(address)
            self.dead.append(address)
            if self._spare:
                self._spare -= 1
                self.alive.add(f"node-{self._number}")
                self._number += 1
