"""The typed proposer against llama.cpp's own server, where it and a model are installed."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from optimizers import requests
from optimizers.ledger import Ledger, TokenCount
from pipeline.agent.agent import Agent
from pipeline.lms.factory import make_lm, prepare_choosing
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from tests.support.benchmark_tasks import task_named

SERVER = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")
MODEL = os.environ.get("LLAMA_MODEL", "")
REASON = "needs llama.cpp's server (LLAMA_SERVER, or llama-server on the PATH) and a model (LLAMA_MODEL, a GGUF file)"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (SERVER and Path(MODEL).is_file()), reason=REASON)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server's address, once it has loaded the model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(SERVER), "-m", MODEL, "--ctx-size", "8192", "--parallel", "1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def _wait(health: str, process: subprocess.Popen[bytes]) -> None:
    """Until the server is ready."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(health):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    raise AssertionError("the server has ended")


def test_every_answer_is_well_typed_and_lines_share_the_prompt(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server follows a grammar, evaluates the prompt of a sample about once, and little of a second one's."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    lm = make_lm("openai/model", address, probed=False, cache=False)
    prepare_choosing(lm)
    assert lm.choice_kind == "grammar"
    task = task_named("gemm/0")
    # With these seeds functions may be applied again, three times and twice, so that there is much to choose.
    text, first = sampled(lm, task, seed=11)
    scope = static_scope(task)
    program, found = parse(text, scope)
    types, typed = infer_types(program, scope)
    assert not [*found, *typed, *check_affine(program), *check_outputs(program, types, scope)]
    _, second = sampled(lm, task, seed=3)
    assert first.calls >= 2
    prompt = first.prompt / first.calls
    assert first.prompt - first.provider_cached < 1.5 * prompt
    assert second.prompt - second.provider_cached < 0.3 * prompt


def sampled(lm: Any, task: Task, seed: int) -> tuple[str, TokenCount]:
    """A program, and the tokens spent on it."""
    ledger = Ledger()
    with dspy.context(lm=requests.sampled(lm, ledger, lambda callers: "predict", temperature=0.7, seed=seed)):
        text = Agent("compiler", proposer="typed", prompt="short")(task=task).impl
    print(f"seed {seed}: {ledger.total}")
    return text, ledger.total
