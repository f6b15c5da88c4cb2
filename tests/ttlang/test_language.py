"""TT-Lang by the commands: places of errors, answers that are read, and no run outside of a confined cell."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import language, verify
from pipeline.base.errors import run_command
from tests.support.paths import PROJECT

pytest.importorskip("ttl")

from ttlang.language import TTLANG


def text(kind: str, name: str) -> str:
    return (TTLANG.folder / f"{kind}/{name}.ttl").read_text()


def test_a_wrong_program_is_said_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As any language's."""
    path = tmp_path / "p.ttl"
    path.write_text(text("near-misses/run", "transpose"))
    assert run_command(verify.NAME, verify.main, ["transpose", str(path), "--language", "ttlang"]) == 1
    out = capsys.readouterr().out
    assert f"{path}:30:" in out and "does not match Tensor shape" in out and "^^^" in out


def test_it_is_not_run_unconfined(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2."""
    monkeypatch.setenv("ADAPTIVE_STEP_SANDBOX", "off")
    argv = ["add", str(TTLANG.folder / "oracles/add.ttl"), "--language", "ttlang"]
    assert run_command(verify.NAME, verify.main, argv) == 2
    assert "only where confined: the sandbox is off" in capsys.readouterr().err


@pytest.mark.parametrize(
    "answer",
    [
        "Here:\n```python\n{}```\nDone.",
        "{}",
        "First `x`.\n\n{}",
        "```\nprint(1)\n```\n```python\n{}\n```",
        "```ttl\n{}",
    ],
)
def test_programs_are_found_in_answers(answer: str) -> None:
    """In fences, between words, and unfinished."""
    program = text("oracles", "add")
    assert TTLANG.extract(answer.format(program)) == program


@pytest.mark.slow
def test_it_keeps_what_the_conformance_kit_tries() -> None:
    """Attacks included; the adapter's other tests hold the same on single programs."""
    argv = [sys.executable, "-m", language.NAME, "check", "ttlang", "--seconds", "5"]
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
