"""Which nodes are used: those heard from lately, with equal versions; a lost scheduler is one error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.cluster import membership as module
from pipeline.cluster.membership import Membership
from pipeline.cluster.node import NodeFacts, installed
from tests.support.dask_processes import eventually

GOOD = NodeFacts(installed(), 4, False, 1)


class Scheduler:
    """A scheduler with nodes; `lost` makes it answer no more."""

    address = "tcp://host:8786"

    def __init__(self, **nodes: NodeFacts | Exception) -> None:
        self.nodes, self.ages, self.lost = dict(nodes), dict.fromkeys(nodes, 0.0), False
        self.ids: dict[str, str] = {}

    @property
    def connected(self) -> bool:
        return not self.lost

    def heard(self, seconds: float) -> dict[str, tuple[float, str]]:
        if self.lost:
            raise OSError("connection closed")
        return {address: (age, self.ids.get(address, "first")) for address, age in self.ages.items()}

    def call(self, address: str, function: Callable[..., Any], *args: object, seconds: float) -> Future[Any]:
        future: Future[Any] = Future()
        facts = self.nodes[address]
        if isinstance(facts, Exception):
            future.set_exception(facts)
        else:
            future.set_result(facts)
        return future


class Seen:
    """What the watcher reported."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.nodes: Mapping[str, int] = {}
        self.looks: list[Mapping[str, int]] = []
        self.errors: list[Exception] = []
        self.warnings: list[str] = []
        self.membership = Membership(scheduler, self._present, self.errors.append, self.warnings.append, silence=5.0)

    def _present(self, nodes: Mapping[str, int]) -> None:
        self.nodes = nodes
        self.looks.append(nodes)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL", 0.01)


def test_nodes_come_and_go() -> None:
    """One that is not heard from is lost, until it is heard from again."""
    scheduler = Scheduler(a=GOOD, b=replace(GOOD, workers=2))
    seen = Seen(scheduler)
    assert seen.membership.join() == 6
    scheduler.ages["b"] = 6.0
    eventually(lambda: seen.nodes == {"a": 4}, "the loss of b")
    scheduler.nodes["c"] = GOOD
    scheduler.ages |= {"b": 0.0, "c": 0.0}
    eventually(lambda: seen.nodes == {"a": 4, "b": 2, "c": 4}, "all three")
    seen.membership.close()
    assert not seen.errors


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (replace(GOOD, software=replace(GOOD.software, torch="1.0")), "torch .* here, 1.0 there"),
        (replace(GOOD, daemonic=True), "dask worker --no-nanny"),
        (ModuleNotFoundError("No module named 'pipeline'"), "No module named 'pipeline'"),
    ],
)
def test_a_node_that_can_not_be_used_is_refused(facts: NodeFacts | Exception, message: str) -> None:
    """At the start it ends the run; one that joins later is left out, with one warning."""
    with pytest.raises(UsageError, match=message):
        Seen(Scheduler(a=GOOD, b=facts)).membership.join()
    scheduler = Scheduler(a=GOOD)
    seen = Seen(scheduler)
    seen.membership.join()
    scheduler.nodes["b"], scheduler.ages["b"] = facts, 0.0
    eventually(lambda: bool(seen.warnings), "a warning")
    scheduler.nodes["c"], scheduler.ages["c"] = GOOD, 0.0
    eventually(lambda: seen.nodes == {"a": 4, "c": 4}, "c without b")
    seen.membership.close()
    assert len(seen.warnings) == 1


def test_a_lost_scheduler_is_one_error() -> None:
    """With its address; a cluster without nodes is another."""
    scheduler = Scheduler(a=GOOD)
    seen = Seen(scheduler)
    seen.membership.join()
    scheduler.lost = True
    eventually(lambda: bool(seen.errors), "an error")
    seen.membership.close()
    (error,) = seen.errors
    assert isinstance(error, ClusterUnavailable)
    assert str(error) == "the Dask scheduler at tcp://host:8786 is gone: connection closed"


def test_a_process_that_takes_another_one_s_place_is_a_loss() -> None:
    """At the same address, as with a fixed port: what the first one was doing is not forgotten."""
    scheduler = Scheduler(a=GOOD)
    seen = Seen(scheduler)
    seen.membership.join()
    scheduler.ids["a"] = "second"
    eventually(lambda: {} in seen.looks and seen.nodes == {"a": 4}, "a loss, and its return")
    seen.membership.close()


def test_a_cluster_that_stays_without_nodes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, and when all are lost."""
    monkeypatch.setattr(module, "JOIN_SECONDS", 0.05)
    monkeypatch.setattr(module, "EMPTY_SECONDS", 0.05)
    with pytest.raises(ClusterUnavailable, match="no node has joined"):
        Seen(Scheduler()).membership.join()
    scheduler = Scheduler(a=GOOD)
    seen = Seen(scheduler)
    seen.membership.join()
    scheduler.ages.clear()
    eventually(lambda: bool(seen.errors), "an error")
    seen.membership.close()
    assert "all nodes of tcp://host:8786 are lost" in str(seen.errors[0])
