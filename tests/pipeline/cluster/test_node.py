"""A node's mailbox: results of all calls, early ones first; workers end with it, and with a client that is gone."""

import asyncio
import pickle
import platform
import shutil
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.cluster import node
from pipeline.cluster.node import Answer, Mailbox
from pipeline.verification.pool import PoolSettings, WorkerLost
from tests.support import crashing
from tests.support.paths import PROJECT

PATIENCE = 120.0
SETTINGS = PoolSettings(PATIENCE, 2**29)


def call(function: Any, *args: Any) -> bytes:
    return pickle.dumps((function, args, {}))


def settled(answer: Answer) -> Future[Any]:
    future: Future[Any] = Future()
    answer.settle(future)
    return future


def test_a_call_that_takes_long_delays_one_other_at_most() -> None:
    """The results of the others are there while it runs; one call waits for the same worker."""

    async def taken() -> tuple[list[Any], list[Answer]]:
        box = Mailbox(SETTINGS, 2)
        box.put([(0, "", call(crashing.nap, 10 * PATIENCE)), *((n, "", call(crashing.echo, n)) for n in range(1, 20))])
        found: list[Answer] = []
        while len(found) < 18:
            found += await box.take(PATIENCE)
        nothing = await box.take(0.01) if len(found) == 19 else []
        await asyncio.to_thread(box.close)
        return [settled(answer).result() for answer in found], nothing

    results, nothing = asyncio.run(taken())
    assert len({*results} & {*range(1, 20)}) >= 18
    assert not nothing


def test_a_call_s_exception_and_its_loss_arrive() -> None:
    """A loss with all that is known of it; what can't be pickled in words."""

    async def taken() -> list[Answer]:
        box = Mailbox(SETTINGS, 1)
        calls = [call(crashing.fail, "x"), call(crashing.fail_pickily), call(crashing.note_and, "a", crashing.segfault)]
        box.put([(number, "", each) for number, each in enumerate(calls)])
        found: list[Answer] = []
        while len(found) < 3:
            found += await box.take(PATIENCE)
        await asyncio.to_thread(box.close)
        return sorted(found, key=lambda answer: answer.number)

    value, picky, lost = [settled(pickle.loads(pickle.dumps(each))).exception() for each in asyncio.run(taken())]
    assert isinstance(value, ValueError)
    assert str(picky) == "PickyError: one two"
    assert isinstance(lost, WorkerLost)
    assert (lost.code, lost.at, str(lost)) == ("crashed", "a", "crashed: SIGSEGV")


def test_an_exchange_brings_calls_and_takes_results() -> None:
    """The first one starts the workers; the client's leaving ends them, and other clients' stay."""

    async def exchanged() -> tuple[Any, set[tuple[str, str]]]:
        settings = pickle.dumps(SETTINGS)
        mine, other = ("mine", "pool-0"), ("other", "pool-0")
        await node.exchange(other, settings, 1, [], 0)
        answers = pickle.loads(await node.exchange(mine, settings, 1, [(7, "", call(crashing.echo, "x"))], PATIENCE))
        await node.end("mine")
        left = set(node._MAILBOXES)
        await node.end("other")
        return [(each.number, settled(each).result()) for each in answers], left

    assert asyncio.run(exchanged()) == ([(7, "x")], {("other", "pool-0")})


def test_a_client_that_is_gone_leaves_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mailbox is closed when nobody has asked for a while."""
    monkeypatch.setattr(node, "LEASE", 0.05)

    async def abandoned() -> bool:
        await node.exchange(("gone", "pool-0"), pickle.dumps(SETTINGS), 1, [(1, "", call(crashing.nap, 600.0))], 0.01)
        while ("gone", "pool-0") in node._MAILBOXES:
            await asyncio.sleep(0.01)
        return True

    assert asyncio.run(asyncio.wait_for(abandoned(), PATIENCE))


def test_the_versions_are_those_of_this_process() -> None:
    """Found without importing PyTorch, which a node's Dask process does not need."""
    here = node.installed()
    assert here.torch.partition("+")[0] == torch.__version__.partition("+")[0]
    assert here.python == platform.python_version()
    assert here.differences(here) == ""


def test_a_difference_is_named_with_both_versions() -> None:
    """All that differ, and no other."""
    here = node.installed()
    there = replace(here, torch="1.0", code="0" * 12)
    assert here.differences(there) == f"code {here.code} here, {'0' * 12} there, torch {here.torch} here, 1.0 there"


def test_any_change_of_the_sources_changes_the_digest(tmp_path: Path) -> None:
    """A line, a new file, a new name; files that are no sources do not."""
    shutil.copytree(PROJECT / "signatures", tmp_path / "signatures")
    digests = [node._digest(tmp_path)]
    (tmp_path / "signatures" / "notes.txt").write_text("x")
    assert node._digest(tmp_path) == digests[0]
    for name, text in (("added.py", ""), ("added.py", "x = 1\n"), ("other.py", "x = 1\n")):
        (tmp_path / "signatures" / "added.py").unlink(missing_ok=True)
        (tmp_path / "signatures" / name).write_text(text)
        digests.append(node._digest(tmp_path))
    assert len(set(digests)) == len(digests)
