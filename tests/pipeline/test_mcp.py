"""`pipeline.mcp` holds these.

- It speaks over stdin and stdout with a client that starts it, and ends when that closes stdin.
- Nothing but the protocol reaches stdout.
- A wrong option or folder is reported in one line.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import mcp
from pipeline.base.errors import run_command
from tests.support.paths import PROJECT
from tests.support.scripted_runs import TASK

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


def test_a_session_ends_with_its_client(tmp_path: Path) -> None:
    """Exit code 0 once stdin is closed; every line of stdout is a message, and the greeting names the server."""
    (tmp_path / "double.yaml").write_text(TASK)
    done = subprocess.run(
        [sys.executable, "-m", mcp.NAME, str(tmp_path)],
        input=f"{json.dumps(HELLO)}\n",
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    [answer] = [json.loads(line) for line in done.stdout.splitlines()]
    assert answer["result"]["serverInfo"]["name"] == "adaptive-step"
    assert "step://language" in answer["result"]["instructions"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: expected a folder with task files"),
        ([".", "--language", "x"], "argument --language: no language 'x'"),
        ([], "the following arguments are required: FOLDER"),
    ],
)
def test_bad_usage_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2."""
    assert run_command(mcp.NAME, mcp.main, words) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"pipeline.mcp: {message}") and err.count("\n") == 1


def test_without_the_sdk_it_says_what_to_install() -> None:
    """The extra is named."""
    code = "import sys; sys.modules['mcp'] = None; from pipeline import mcp; mcp.start(mcp.NAME, mcp.main)"
    done = subprocess.run([sys.executable, "-c", code, "."], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pipeline.mcp: mcp is not installed; pip install 'adaptive-step[mcp]'\n"
