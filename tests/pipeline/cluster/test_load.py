"""How much a node may have: for each worker a quarter of a second of work; nothing while it owes an answer."""

from concurrent.futures import Future

from pipeline.cluster.load import AHEAD, MESSAGES, MOST_AHEAD, Call, CallPool, NodeLoad


def calls(pool: CallPool, count: int) -> list[Call]:
    return [Call(pool, number, b"", "", Future(), 0.0) for number in range(count)]


def test_a_node_has_as_many_calls_as_their_time_allows() -> None:
    """Two for each worker at first, one of long calls, and many of short ones, but not without end."""
    pool = CallPool("pool", b"")
    assert pool.window(4) == 8
    pool.learn(100 * AHEAD)
    assert pool.window(4) == 5
    pool.seconds = None
    pool.learn(AHEAD / 10)
    assert pool.window(4) == 44
    pool.seconds = None
    pool.learn(0.0)
    assert pool.window(4) == 4 * MOST_AHEAD


def test_a_node_without_room_gets_no_calls() -> None:
    """It has all that it may have, is reserved for one call, owes an answer, or has enough exchanges under way."""
    pool, other = CallPool("pool", b""), CallPool("other", b"")
    node = NodeLoad("node", 1)
    node.give(calls(pool, 2))
    assert (node.room(pool), node.room(other)) == (0, 2)
    node.take(0)
    assert node.room(pool) == 1
    for name, value in (("reserved", True), ("silent", 1.0)):
        busy = NodeLoad("node", 1)
        setattr(busy, name, value)
        assert busy.room(pool) == 0
    node.messages["pool"] = MESSAGES
    assert node.room(pool) == 0
    assert [call.number for call in node.take_all()] == [1]
    assert not node.calls


def test_a_node_is_asked_for_what_it_has() -> None:
    """And to start a pool; not twice at a time, and not while it is silent."""
    pool = CallPool("pool", b"")
    node = NodeLoad("node", 1)
    assert node.owes(pool)
    node.started.add("pool")
    assert not node.owes(pool)
    node.give(calls(pool, 1))
    assert node.owes(pool)
    node.messages["pool"] = 1
    assert not node.owes(pool)
    node.messages["pool"], node.silent = 0, 1.0
    assert not node.owes(pool)
