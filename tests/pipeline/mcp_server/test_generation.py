"""A search runs in a process of its own, reports what it does, and ends when it is cancelled."""

import os
import sys
from pathlib import Path

import anyio
import pytest

from pipeline.mcp_server import generation
from tests.pipeline.mcp_server.conftest import Ask

SAYING = "import sys; print('lines on stderr', file=sys.stderr); print('result')"
WAITING = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(sys.argv[1]).write_text("interrupted")
    sys.exit(130)
signal.signal(signal.SIGINT, end)
print("ready", file=sys.stderr, flush=True)
while True:
    time.sleep(60)
"""


def test_a_program_is_found_with_progress(ask: Ask) -> None:
    """What `generate` says on stderr is the progress; the program passes."""
    told: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        assert done >= 0 and total == 60
        told.append(message or "")

    result = ask("call_tool", "generate", {"task": "double"}, progress_callback=progress)
    assert not result.is_error, result.content[0].text
    assert any("1 task" in line for line in told)
    program = result.structured_content["program"]
    assert result.structured_content["warnings"] == []
    assert ask("call_tool", "verify", {"task": "double", "program": program}).structured_content["passed"]


def test_a_task_that_cannot_be_used_is_an_error(ask: Ask) -> None:
    """With the command's own message."""
    result = ask("call_tool", "generate", {"task": "broken"})
    assert result.is_error and "broken.yaml:1" in result.content[0].text
    assert "no task file below" in ask("call_tool", "generate", {"task": "../outside"}).content[0].text


def test_a_command_gives_its_output_and_its_lines() -> None:
    """Its exit code too."""
    said: list[str] = []

    async def report(line: str) -> None:
        said.append(line)

    code, output = anyio.run(generation.run, [sys.executable, "-c", SAYING], report)
    assert (code, output.strip()) == (0, "result") and "lines on stderr" in said


@pytest.mark.parametrize("grace", [60.0, 0.0])
def test_a_cancelled_command_is_interrupted_then_killed(
    grace: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has some seconds to keep what it found; without any it is killed."""
    monkeypatch.setattr(generation, "GRACE", grace)
    pids: list[int] = []
    opened = anyio.open_process

    async def remembered(*args: object, **options: object) -> object:
        process = await opened(*args, **options)  # type: ignore[arg-type]
        pids.append(process.pid)
        return process

    monkeypatch.setattr(anyio, "open_process", remembered)

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:

            async def report(line: str) -> None:
                if line == "ready":
                    scope.cancel()

            await generation.run([sys.executable, "-c", WAITING, str(tmp_path / "note")], report)

    anyio.run(cancelled)
    if grace:
        assert (tmp_path / "note").read_text() == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
