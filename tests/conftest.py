"""What holds for every test: no network beyond this machine, no caches in the home directory, a folder of its own."""

import atexit
import gc
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Read when the libraries are imported, hence here and not in a fixture.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="dspy-cache-")
atexit.register(shutil.rmtree, os.environ["DSPY_CACHEDIR"], ignore_errors=True)
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# Else the end of each run waits up to two seconds for threads that look for their end once a second.
os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
# The processes that tests run in use all cores: more threads wait for one another, at ten times the work.
os.environ["OMP_NUM_THREADS"] = "1"
# Functions of tests run in cells, too.
os.environ["ADAPTIVE_STEP_ALLOW_READ"] = str(Path(__file__).parents[1])
os.environ.pop("MLFLOW_TRACKING_URI", None)
# A proxy does not know the servers that tests start on this machine.
for name in ("http_proxy", "https_proxy", "all_proxy"):
    os.environ.pop(name, None)
    os.environ.pop(name.upper(), None)

# A shell's background job inherits that Ctrl-C is ignored, and tests of interrupts would have none.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Slowly generated examples mean a busy machine, not a fault.
PATIENT = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **PATIENT)
settings.register_profile("fresh", **PATIENT)  # for --hypothesis-profile: other examples in each run
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes, thousands of tests and all imports, stays: searching it for garbage is wasted.

    Python's own thresholds would take a tenth of the tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections to anything but this machine fail at once, with a message that says why."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"tests use no network, and this one asked for {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield
