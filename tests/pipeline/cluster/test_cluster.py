"""A cluster holds these, on a real Dask scheduler:

- verdicts, tokens and results are those of one machine;
- a call that hangs, crashes or eats memory costs itself only;
- a node that is killed or hangs costs nothing, and a node that joins late is used;
- a scheduler that is lost is one clear error;
- nodes with other versions are refused, with both versions in the message;
- when the client leaves, nothing of it is left on the nodes.

One clear error where there is no Dask, no scheduler, or no certificate.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import dask
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline.base.config import ClusterConfig
from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.cluster.cluster import Cluster, open_cluster, open_workers
from pipeline.verification.isolation.confinement import Sandbox
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import verification_pool, verification_settings
from pipeline.verification.pool import LocalWorkers, PoolSettings, WorkerLost, cores
from tests.support import crashing
from tests.support.dask_processes import DaskProcesses, dask_processes, eventually, one_process_cluster
from tests.support.mutants import changed
from tests.support.oracles import solved
from tests.support.paths import PROJECT
from tests.support.processes import gone

PATIENCE = 240.0
SETTINGS = PoolSettings(PATIENCE, 2**29)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One node that shares this process, behind a real scheduler on the loopback interface."""
    with one_process_cluster(2) as local, open_cluster(local.scheduler_address, "test") as opened:
        yield opened


def test_calls_are_answered_as_by_a_pool_of_this_machine(cluster: Cluster) -> None:
    """Results in order, exceptions, and losses that cost the call alone."""
    assert (cluster.nodes, cluster.count) == (1, 2)
    with cluster.pool(SETTINGS) as pool:
        crash = pool.submit(crashing.note_and, "a", crashing.segfault)
        assert list(pool.map(crashing.echo, range(200))) == list(range(200))
        with pytest.raises(ValueError, match="on purpose"):
            pool.submit(crashing.fail, "on purpose").result(PATIENCE)
        error = crash.exception(PATIENCE)
        assert isinstance(error, WorkerLost)
        assert (error.code, error.at, str(error)) == ("crashed", "a", "crashed: SIGSEGV")
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(crashing.echo, 1)


def test_calls_of_two_groups_share_no_process(cluster: Cluster) -> None:
    """As on one machine, where the code of one task can't reach another one's."""
    with cluster.pool(PoolSettings(PATIENCE, 2**29, group=str)) as pool:
        one, other = [{*pool.map(crashing.process_id, [group] * 8)} for group in ("one", "other")]
    assert not one & other


def test_verdicts_are_those_of_one_machine(cluster: Cluster) -> None:
    """Of programs that pass, and of programs that fail in all stages."""
    calls = requests(["gemm/0"])
    with cluster.pool(verification_settings()) as there, verification_pool(1) as here:
        verdicts = [verdict_of(call, there.submit(judge, call)) for call in calls]
        assert [key(verdict) for verdict in verdicts] == [
            key(verdict_of(call, here.submit(judge, call))) for call in calls
        ]
    assert {verdict.passed for verdict in verdicts} == {True, False}


def test_leaving_with_an_exception_ends_what_runs(cluster: Cluster) -> None:
    """A call that would last for long ends at once, and its worker with it."""
    with pytest.raises(KeyboardInterrupt), cluster.pool(SETTINGS) as pool:
        worker = pool.submit(crashing.process_id).result(PATIENCE)
        pool.submit(crashing.nap, 10 * PATIENCE)
        raise KeyboardInterrupt
    assert gone(worker)


def requests(only: list[str], most: int = 12) -> list[Request]:
    """Solutions of tasks, and programs that differ from them by one edit."""
    found = []
    for task, text in solved(only):
        edits = [mutant.text for mutant in changed(task, text)][: most - 1]
        found += [Request(task=task.name, statement=task.statement, text=each) for each in (text, *edits)]
    return found


def key(verdict: Any) -> Any:
    """A verdict but for the time that it took."""
    return verdict.passed, verdict.stage, verdict.diagnostics


@pytest.mark.slow
def test_nodes_that_are_killed_hang_or_join_late_change_no_verdict(tmp_path: Path) -> None:
    """One of three nodes is killed, one is stopped for good, and another joins, all while programs are judged."""
    calls = requests(["gemm", "bmm", "index"])
    with verification_pool(2) as here:
        expected = [key(each.result()) for each in [here.submit(judge, call) for call in calls]]
    with (
        dask_processes(tmp_path, 3) as processes,
        open_cluster(processes.address, "test") as cluster,
        cluster.pool(verification_settings()) as pool,
    ):
        eventually(lambda: cluster.nodes == 3, "three nodes")
        futures = [pool.submit(judge, call) for call in calls]
        eventually(lambda: any(future.done() for future in futures), "a first verdict")
        processes.nodes[0].kill()
        processes.nodes[1].send_signal(signal.SIGSTOP)
        processes.add_node()
        again = [pool.submit(judge, call) for call in calls]
        assert [key(future.result()) for future in futures] == expected
        assert [key(future.result()) for future in again] == expected


@pytest.mark.slow
def test_a_program_that_kills_nodes_gets_a_verdict(tmp_path: Path) -> None:
    """The other calls get their results; nannies replace the nodes."""
    with DaskProcesses(tmp_path) as processes:
        os.environ["DASK_DISTRIBUTED__WORKER__DAEMON"] = "False"
        try:
            for _ in range(2):
                processes.add_node(PROJECT, "--nanny")
        finally:
            del os.environ["DASK_DISTRIBUTED__WORKER__DAEMON"]
        free = replace(SETTINGS, sandbox=Sandbox("off"))
        with open_cluster(processes.address, "test") as cluster, cluster.pool(free) as pool:
            futures = [pool.submit(crashing.echo, number) for number in range(40)]
            killer = pool.submit(crashing.kill_node)
            futures += [pool.submit(crashing.echo, number) for number in range(40, 80)]
            assert [future.result(PATIENCE) for future in futures] == list(range(80))
            error = killer.exception(PATIENCE)
            assert isinstance(error, WorkerLost)
            assert re.match("crashed all 4 nodes that ran it, the last at tcp://", str(error))


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_one_clear_error(tmp_path: Path) -> None:
    """For the calls under way and those to come; one that never was there is the same."""
    with dask_processes(tmp_path, 1) as processes:
        with open_cluster(processes.address, "test") as cluster, cluster.pool(SETTINGS) as pool:
            assert pool.submit(crashing.echo, 1).result(PATIENCE) == 1
            napping = pool.submit(crashing.nap, 10 * PATIENCE)
            processes.scheduler.kill()
            with pytest.raises(ClusterUnavailable, match=r"the Dask scheduler at tcp://127\.0\.0\.1:"):
                napping.result(PATIENCE)
            with pytest.raises(ClusterUnavailable):
                pool.submit(crashing.echo, 1)
        with pytest.raises(ClusterUnavailable, match="no Dask scheduler answers"), open_cluster(processes.address):
            pass


@pytest.mark.slow
def test_nodes_of_another_version_are_refused(tmp_path: Path) -> None:
    """The message names both versions; so is a node whose nanny allows no workers."""
    for package in ("optimizers", "pipeline", "signatures", "step_runtime"):
        shutil.copytree(PROJECT / package, tmp_path / "other" / package)
    (tmp_path / "other" / "step_runtime" / "added.py").touch()
    with DaskProcesses(tmp_path) as processes:
        processes.add_node(tmp_path / "other")
        versions = r"code [0-9a-f]{12} here, [0-9a-f]{12} there"
        with pytest.raises(UsageError, match=versions), open_cluster(processes.address, "test"):
            pass
        processes.nodes[0].kill()
        processes.add_node(PROJECT, "--nanny")
        eventually(lambda: refused(processes.address, "nanny allows no worker processes"), "the other refusal")


def refused(address: str, why: str) -> bool:
    try:
        with open_cluster(address, "test"):
            return False
    except UsageError as error:
        return why in str(error)


@pytest.mark.parametrize("address", [None, "none"])
def test_without_a_cluster_this_machine_s_cores_work(address: str | None) -> None:
    """`none` is what a resumed run is given that had a cluster before."""
    with open_workers(ClusterConfig(cluster=address), "test") as workers:
        assert isinstance(workers, LocalWorkers)
        assert workers.count == cores()


@pytest.mark.slow
def test_nodes_of_this_machine_start_and_end_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A message says how many there are; none of their processes is left."""
    config, settings = ClusterConfig(cluster="local:2"), PoolSettings(120.0, 2**29)
    with open_workers(config, "test") as workers, workers.pool(settings) as pool:
        processes = {*pool.map(crashing.process_id, range(50))}
        assert len(processes) == 2
    assert "test: cluster local:2: 2 nodes, 2 workers" in capsys.readouterr().err
    assert all(map(gone, processes))


def opened(address: str, seconds: float = 10.0) -> int:
    """The nodes of a cluster, which is left again."""
    with open_cluster(address, "test", seconds) as cluster:
        return cluster.nodes


def test_an_address_without_a_scheduler_is_an_error() -> None:
    """After a while, with the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(ClusterUnavailable, match=f"no Dask scheduler answers at {address}"):
        opened(address, 0.3)


@contextlib.contextmanager
def answering(words: bytes) -> Iterator[str]:
    """The address of a server that says this to whoever connects, and leaves the connection open."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            with contextlib.suppress(OSError):  # at the end
                while True:
                    stack.enter_context(server.accept()[0]).sendall(words)

        serving = threading.Thread(target=serve)
        serving.start()
        stack.callback(serving.join)
        stack.callback(server.shutdown, socket.SHUT_RDWR)
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 100,
        struct.pack("<QQ", 8, 2**50),
        struct.pack("<QQQ", 16, 1, 2**50),
        struct.pack("<QQQ", 16, 1, 3) + b"\xc1\xc1\xc1",
    ],
    ids=["silence", "web server", "2^50 frames", "2^50 bytes", "no message"],
)
def test_what_answers_but_is_no_scheduler_is_an_error_within_the_limit(words: bytes) -> None:
    """Whatever it says, and if it says nothing."""
    why = "(within 0.5 s|:)"
    with answering(words) as address, pytest.raises(ClusterUnavailable, match=f"answers at {address} ?{why}"):
        opened(address, 0.5)


@pytest.fixture
def certificates(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Dask's configuration of TLS, for all roles, with a certificate that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, private = tmp_path / "node.pem", tmp_path / "node.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    settings = {"distributed.comm.require-encryption": True, "distributed.comm.tls.ca-file": str(pem)}
    for role in ("client", "scheduler", "worker"):
        settings |= {f"distributed.comm.tls.{role}.cert": str(pem), f"distributed.comm.tls.{role}.key": str(private)}
    with dask.config.set(settings):
        yield settings


def test_tls_takes_the_certificates_of_dasks_configuration(certificates: dict[str, str], tmp_path: Path) -> None:
    """A client without one, with a damaged one, and one that does not encrypt are refused at once, in one line."""
    with one_process_cluster(1, "tls") as local:
        address = local.scheduler_address
        assert address.startswith("tls://")
        assert opened(address) == 1
        with pytest.raises(ClusterUnavailable, match="no Dask scheduler answers at tcp://"):
            opened(address.replace("tls:", "tcp:"))
        client = "distributed.comm.tls.client"
        with dask.config.set({f"{client}.cert": None}), pytest.raises(UsageError, match=r"TLS__CLIENT__CERT.* name"):
            opened(address)
        (tmp_path / "damaged").write_text("x")
        for path in (tmp_path / "missing", tmp_path / "damaged"):
            with (
                dask.config.set({f"{client}.cert": str(path)}),
                pytest.raises(UsageError, match="cannot read the TLS certificates"),
            ):
                opened(address)


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask is an extra."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'adaptive-step\[cluster\]'"):
        opened("tcp://127.0.0.1:8786")
