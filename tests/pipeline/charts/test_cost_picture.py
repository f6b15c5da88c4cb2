"""Pictures of costs are SVG that shows memory, time and queues, and the critical path in another colour."""

from __future__ import annotations

from xml.etree import ElementTree

from pipeline.charts.cost_picture import draw_cost
from step_runtime.verification.costing import TaskCosts
from tests.support.oracles import oracle, task

SVG = "{http://www.w3.org/2000/svg}"


def test_a_program_is_drawn_with_its_cost() -> None:
    priced = TaskCosts(task("norm/2")).price(oracle("norm/2"), formulas=False)
    root = ElementTree.fromstring(draw_cost(priced))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "Accum(fn=fn_add, b=1)" in texts and "4 bytes" in texts and "112 operations, 84% busy" in texts
    assert "E2: fp32 [D, N]" in texts and "queue of 15, 60 bytes" in texts
    critical = [box for box in root.iter(f"{SVG}rect") if box.get("stroke") == "#D55E00"]
    assert len(critical) == len(priced.cost.path)
    edges = [path for path in root.iter(f"{SVG}path") if path.get("fill") == "none"]
    assert len(edges) == sum(len(node.inputs) for node in priced.program.nodes) + 1


def test_every_text_lies_within_the_picture() -> None:
    """By a rough width of its characters."""
    priced = TaskCosts(task("etoe/2")).price(oracle("etoe/2"), formulas=False)
    root = ElementTree.fromstring(draw_cost(priced))
    left, top, width, height = map(float, str(root.get("viewBox")).split())
    for text in root.iter(f"{SVG}text"):
        x, y, wide = float(text.get("x", 0)), float(text.get("y", 0)), 5.5 * len(text.text or "")
        start = x - wide / 2 if text.get("text-anchor") == "middle" else x
        assert left <= start and start + wide <= left + width and top <= y <= top + height
