"""Readable text parses to the same graph; names and comments say what streams are."""

from collections import Counter
from itertools import pairwise

import pytest

from pipeline.rewriting.readable_text import readable_text
from step_runtime import verify
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_primitive
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from tests.support.paths import PROJECT


@pytest.mark.parametrize("name", ["attn/2", "bmm/2", "etoe/1", "index/1", "norm/1", "rope/2"])
def test_it_is_the_same_program(name: str) -> None:
    """For every oracle tried, routings and several outputs among them; every stream that has a name has its type."""
    task = loads_task((PROJECT / f"data/tasks/{name}.yaml").read_text(), name)
    scope = static_scope(task)
    text = (PROJECT / f"data/oracles/{name}.step").read_text()
    program, _ = parse(text, scope)
    written = readable_text(program, scope)
    again, wrong = parse(written, scope)
    assert not wrong
    assert Counter(print_primitive(node.op) for node in again.nodes) == Counter(
        print_primitive(node.op) for node in program.nodes
    )
    assert verify(task, written).passed
    lines = written.splitlines()
    assert all("  # " in line or above.startswith("# ") for above, line in pairwise(["", *lines]) if " = " in line)
    assert not any("  # " in line and len(line) > 120 for line in lines)


def test_comments_are_in_one_column() -> None:
    """But those behind lines of code that leave too little room for it."""
    task = loads_task((PROJECT / "data/tasks/norm/1.yaml").read_text(), "norm/1")
    scope = static_scope(task)
    program, _ = parse((PROJECT / "data/oracles/norm/1.step").read_text(), scope)
    lines = [line for line in readable_text(program, scope).splitlines() if "  # " in line]
    column = min(line.index("  # ") for line in lines)
    assert all(line.index("  # ") == max(column, len(line[: line.index("  # ")].rstrip())) for line in lines)


def test_streams_are_named_by_what_made_them() -> None:
    task = loads_task((PROJECT / "data/tasks/gemm/0.yaml").read_text(), "gemm/0")
    scope = static_scope(task)
    program, _ = parse((PROJECT / "data/oracles/gemm/0.step").read_text(), scope)
    written = readable_text(program, scope)
    assert "mul = step.Map(fn=fn_mul)" in written
    assert "add = step.Accum(fn=fn_add, b=1).apply(mul)" in written
    assert "# fp32 [K, M, N]" in written
