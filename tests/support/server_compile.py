"""`pipeline.compile` on a server of the test's own, for tests that import its fixtures: `server`, `waits`, `job`."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dspy.utils.exceptions import LMError

from optimizers import Attempt
from optimizers.requests import _wait as wait
from pipeline import compile as command
from pipeline.base.errors import run_command
from tests.support.answering_lm import shared_tasks
from tests.support.lm_server import Server

SAMPLES, TASKS = 8, 3


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    with Server() as server:
        yield server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, which take no time."""
    waited: list[float] = []

    def noted(error: LMError, attempt: int) -> float:
        waited.append(wait(error, attempt))
        return 0.0

    monkeypatch.setattr("optimizers.requests._wait", noted)
    return waited


class Job:
    """The command on a server, a model of its own each time so that no answer comes from another test's cache."""

    def __init__(self, server: Server, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server, self.capsys = server, capsys
        self.output = str(folder / "program.json")
        self.tasks = str(shared_tasks())
        self.model = f"openai/{uuid.uuid4().hex}"

    def run(self, *options: str) -> int:
        """A single pass, or whatever the options say; the exit code."""
        asked = ["--tasks", self.tasks, "--optimizer", "none", "--lm", self.model, "--samples", str(SAMPLES)]
        return self._run([*asked, "--temperatures", "0.7", "--api-base", self.server.address, *options])

    def resume(self, *options: str) -> int:
        return self._run(["--resume", self.result["run_id"], "--api-base", self.server.address, *options])

    def _run(self, argv: list[str]) -> int:
        code = run_command(command.NAME, command.main, [*argv, "-o", self.output, "--json"])
        output = self.capsys.readouterr()
        self.messages = output.err
        self.result: dict[str, Any] = json.loads(output.out) if output.out else {}
        return code

    @property
    def attempts(self) -> list[Attempt]:
        from pipeline.record import store
        from pipeline.record.attempts import read_attempts

        return list(read_attempts(store.open_store()[0], self.result["run_id"]))


@pytest.fixture
def job(server: Server, unrendered: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Job:
    return Job(server, tmp_path, capsys)
