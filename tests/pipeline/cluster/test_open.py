"""One clear error where there is no Dask, no scheduler, or no certificate."""

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import dask
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.cluster.cluster import open_cluster
from tests.support.dask_processes import one_process_cluster


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
