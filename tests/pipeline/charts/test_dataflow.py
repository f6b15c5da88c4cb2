"""Every stream with its type, as text and as a picture; pictures of costs show memory, time and queues, too."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.base.errors import UsageError
from pipeline.charts.dataflow import draw_cost
from pipeline.verify import main
from step_runtime.verification.task_costs import TaskCosts
from tests.support.oracles import oracle, task
from tests.support.paths import PROJECT

ORACLE = str(PROJECT / "data/oracles/attn/2.step")
SVG = "{http://www.w3.org/2000/svg}"


def test_explain_shows_every_stream_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, type, primitive, what it consumes and where it stands."""
    assert main(["attn/2", ORACLE, "--explain"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"E2 +\[fp32, fp32, fp32\] \[M, N\] +Scan\(fn=fn_expmaxdiff, b=1\) of E0 \(line 1\)", out)
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


def test_a_program_is_drawn_with_its_cost(tmp_path: Path) -> None:
    """Memory and time at the primitives, queues at the edges, and the critical path in another colour."""
    priced = TaskCosts(task("norm/2")).price(oracle("norm/2"))
    draw_cost(priced, tmp_path / "cost")
    root = ElementTree.parse(tmp_path / "cost").getroot()
    texts = [str(element.text).strip() for element in root.iter(f"{SVG}text")]
    assert "Accum(fn=fn_add, b=1)" in texts and "4 bytes" in texts and "112 operations, 84% busy" in texts
    assert "E2: fp32 [D, N]" in texts and "queue of 15, 60 bytes" in texts
    groups = {kind: [g for g in root.iter(f"{SVG}g") if g.get("class") == kind] for kind in ("node", "edge")}
    critical = [g for g in groups["node"] for box in g.iter(f"{SVG}path") if box.get("stroke") == "#d55e00"]
    assert len(critical) == len(priced.cost.path)
    assert len(groups["edge"]) == sum(len(node.inputs) for node in priced.program.nodes) + 1


def test_a_program_too_large_for_a_picture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Placing a thousand primitives takes Graphviz hours, in which nothing interrupts it."""
    monkeypatch.setattr("pipeline.charts.dataflow.MAX_PRIMITIVES", 2)
    with pytest.raises(UsageError, match="--svg: expected a program of at most 2 primitives, found 9 primitives"):
        draw_cost(TaskCosts(task("attn/2")).price(oracle("attn/2")), tmp_path / "g.svg")
