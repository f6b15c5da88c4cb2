"""`pipeline.verify --explain` and `--graph`: every stream with its type, as text and as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.errors import UsageError
from pipeline.verify import main
from tests.support.paths import PROJECT

ORACLE = str(PROJECT / "data/oracles/attn/2.step")


def test_explain_shows_every_stream_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, type, primitive, what it consumes and where it stands."""
    assert main(["attn/2", ORACLE, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "E2   [fp32, fp32, fp32] [M, N]               Scan(fn=fn_expmaxdiff, b=1) of E0 (line 1)" in out
    assert "returns E11" in out
    assert out.rstrip().endswith("passed")


def test_explain_shows_what_is_known_of_a_wrong_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What comes after an error is unknown, and the error itself follows; --json keeps stdout to one object."""
    program = tmp_path / "p"
    program.write_text("E2 = step.Zip().apply((E0, E0))\nE3 = step.Streamify().apply(E2)\nreturn E3")
    assert main(["attn/2", str(program), "--explain", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("{")
    assert "E3  unknown" in err


@pytest.mark.parametrize(("ending", "magic"), [("svg", b"<svg"), ("png", b"PNG"), ("pdf", b"%PDF")])
def test_graph_draws_primitives_and_streams(tmp_path: Path, ending: str, magic: bytes) -> None:
    """In the format that the file's ending says."""
    path = tmp_path / f"g.{ending}"
    assert main(["attn/2", ORACLE, "--graph", str(path)]) == 0
    content = path.read_bytes()
    assert magic in content
    if ending == "svg":
        assert b"Scan(fn=fn_expmaxdiff, b=1)" in content
        assert b"E3: [fp32, fp32] [M, N]" in content


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    """The message names the endings that work."""
    with pytest.raises(UsageError, match=r"ends in \.svg, \.png or \.pdf"):
        main(["attn/2", ORACLE, "--graph", str(tmp_path / "g.txt")])
