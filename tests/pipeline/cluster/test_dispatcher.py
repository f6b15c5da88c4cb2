"""The dispatcher holds these, on nodes that live in this process:

- every call gets one result, its own, on whichever node, and a node that joins late gets its share;
- a lost node costs no call; one call that costs its nodes gets a `WorkerLost`, and its neighbors get their results;
- a node that gives no answer, but lives, costs a call nothing but time;
- `submit` waits while too many calls are unanswered; what has failed fails at once.
"""

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from pipeline.base.errors import ClusterUnavailable
from pipeline.cluster import dispatcher as module
from pipeline.cluster.dispatcher import Dispatcher
from pipeline.verification.pool import PoolSettings, WorkerLost
from tests.support import crashing
from tests.support.dask_processes import eventually
from tests.support.dying_nodes import DyingNodes, kill_node

PATIENCE = 120.0
SETTINGS = PoolSettings(60.0, 2**30)


@contextmanager
def dispatching(nodes: DyingNodes) -> Iterator[tuple[Dispatcher, str]]:
    """A dispatcher over nodes, and a pool of it."""
    dispatcher = Dispatcher(nodes, nodes.suspect)
    nodes.report = dispatcher.present
    dispatcher.present(nodes.present())
    try:
        yield dispatcher, dispatcher.pool(SETTINGS)
    finally:
        nodes.held.set()
        dispatcher.close()


def call(function: Any, *args: Any) -> bytes:
    return pickle.dumps((function, args, {}))


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(PATIENCE) for future in futures]


def test_every_call_gets_its_own_result() -> None:
    """From several nodes, which share the work; exceptions are raised."""
    nodes = DyingNodes(3)
    with dispatching(nodes) as (dispatcher, pool):
        nodes.held.clear()
        futures = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(300)]
        nodes.held.set()
        assert results(futures) == list(range(300))
        assert isinstance(dispatcher.submit(pool, call(crashing.fail, "x")).exception(PATIENCE), ValueError)
    assert set(nodes.done) == {"node-0", "node-1", "node-2"}


def test_a_lost_node_costs_no_call() -> None:
    """What it was doing is done by the others; its death is nobody's fault."""
    nodes = DyingNodes(3)
    with dispatching(nodes) as (dispatcher, pool):
        nodes.held.clear()
        futures = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(200)]
        nodes.alive.discard("node-1")
        dispatcher.present(nodes.present())
        nodes.held.set()
        assert results(futures) == list(range(200))


def test_a_call_that_kills_nodes_has_a_verdict_and_its_neighbors_have_theirs() -> None:
    """Two nodes die in company, and a third of that call alone; none of its neighbors is blamed."""
    nodes = DyingNodes(3, spare=3)
    with dispatching(nodes) as (dispatcher, pool):
        nodes.held.clear()
        before = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(40)]
        killer = dispatcher.submit(pool, call(kill_node))
        after = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(40)]
        nodes.held.set()
        assert results([*before, *after]) == [*range(40), *range(40)]
        error = killer.exception(PATIENCE)
        assert isinstance(error, WorkerLost)
        assert error.code == "crashed"
        assert "cost each of the 3 nodes" in str(error)
        assert len(nodes.dead) == 3


def test_a_node_that_gave_no_answer_but_lives_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls are done again as often as need be: more often than a call may cost a node, and none is blamed."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    nodes = DyingNodes(1, silent=5)
    with dispatching(nodes) as (dispatcher, pool):
        futures = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(5)]
        eventually(lambda: nodes.suspect() or all(future.done() for future in futures), "an answer to each")
        assert results(futures) == list(range(5))
    assert nodes.silent <= 0


def test_a_late_node_gets_its_share() -> None:
    """Without any there are no results; the first one to join does the work."""
    nodes = DyingNodes(0)
    with dispatching(nodes) as (dispatcher, pool):
        futures = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(10)]
        assert not any(future.done() for future in futures)
        dispatcher.present({"late": 2})
        nodes.alive.add("late")
        assert results(futures) == list(range(10))


def test_submit_waits_while_too_many_are_unanswered() -> None:
    """So that a million programs need no memory for a million futures."""
    nodes = DyingNodes(1)
    nodes.held.clear()
    with dispatching(nodes) as (dispatcher, pool):
        futures: list[Future[Any]] = []

        def submit_all() -> None:
            futures.extend(dispatcher.submit(pool, call(crashing.echo, number)) for number in range(1500))

        thread = threading.Thread(target=submit_all, daemon=True)
        thread.start()
        eventually(lambda: len(dispatcher._unanswered) == dispatcher.limit, "the limit")
        assert thread.is_alive()
        assert dispatcher.limit < 1500
        nodes.held.set()
        thread.join(PATIENCE)
        assert results(futures) == list(range(1500))


def test_a_lost_cluster_fails_every_call_with_its_reason() -> None:
    """Those that wait, those that run, and those to come."""
    nodes = DyingNodes(1)
    nodes.held.clear()
    with dispatching(nodes) as (dispatcher, pool):
        futures = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(100)]
        dispatcher.fail(ClusterUnavailable("gone"))
        for future in futures:
            with pytest.raises(ClusterUnavailable, match="gone"):
                future.result(PATIENCE)
        with pytest.raises(ClusterUnavailable, match="gone"):
            dispatcher.submit(pool, call(crashing.echo, 1))


def test_a_pool_that_ends_leaves_no_call_without_an_answer() -> None:
    """Those that wait are cancelled, those that run raise, its nodes end its workers, and no more are taken."""
    nodes = DyingNodes(1)
    nodes.held.clear()
    with dispatching(nodes) as (dispatcher, pool):
        futures = [dispatcher.submit(pool, call(crashing.echo, number)) for number in range(100)]
        dispatcher.end(pool)
        eventually(lambda: all(future.done() for future in futures), "an answer to each")
        assert any(future.cancelled() for future in futures)
        assert nodes.ended == [("node-0", pool)]
        with pytest.raises(RuntimeError, match="shut down"):
            dispatcher.submit(pool, call(crashing.echo, 1))
