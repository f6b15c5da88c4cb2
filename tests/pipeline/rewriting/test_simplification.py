"""A simplified program passes, is never longer, and is the text itself where nothing is better; it can be read."""

import builtins
import re
from collections import Counter
from itertools import pairwise

import pytest

from pipeline.rewriting.readable_text import readable_text
from pipeline.rewriting.simplification import bare, code_lines, rewrites, same_graph, simplified
from step_runtime import Task, verify
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.program.printer import print_primitive, print_program
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import insert_copies
from tests.support.oracles import oracle, task

TASK = task("gemm/0")
LONG = """\
E2 = step.Bufferize(a=1).apply(E0)
E3 = step.Streamify().apply(E2)
E4 = step.Bufferize(a=1).apply(E1)
E5 = step.Repeat(n=M).apply(E4)
E6 = step.Streamify().apply(E5)
E7 = step.Map(fn=fn_mul).apply((E3, E6))
E8 = step.Accum(fn=fn_add, b=1).apply(E7)
return E8
"""


def test_every_step_is_verified_and_the_result_is_shorter() -> None:
    """Streamify of Bufferize goes."""
    asked: list[str] = []

    def passes(text: str) -> bool:
        asked.append(text)
        return verify(TASK, text).passed

    found = simplified(TASK, LONG, passes)
    assert found in asked and verify(TASK, found).passed
    assert code_lines(found) < code_lines(LONG)
    assert "apply(E0)" not in found.replace("(E0, ", "")


def test_a_text_stays_where_nothing_else_passes() -> None:
    assert simplified(TASK, LONG, lambda text: False) == LONG
    assert simplified(TASK, "no program", lambda text: True) == "no program"


def test_graphs_are_one_where_only_texts_differ() -> None:
    """At all sizes: a literal that fits the first set makes another graph, as does another primitive."""
    named = LONG.replace("E3", "rows").replace("E2 =", "# a comment\nE2 =")
    assert same_graph(TASK, LONG, named)
    size = TASK.size_sets()[0]["M"]
    assert not same_graph(TASK, LONG, LONG.replace("n=M", f"n={size}"))
    assert not same_graph(TASK, LONG, simplified(TASK, LONG, lambda text: verify(TASK, text).passed))
    assert not same_graph(TASK, "no program", "no program")


def test_lines_of_code_are_neither_blank_nor_comments() -> None:
    assert code_lines("# a\n\nE1 = x  # b\nreturn E1\n") == 2


NEEDLESS = """\
A = step.Streamify().apply(step.Bufferize(a=1).apply(E0))
B = step.Streamify().apply(step.Repeat(n=M).apply(step.Bufferize(a=1).apply(E1)))
C = step.Map(fn=fn_mul).apply((step.Identity().apply(A), B))
D = step.Map(fn=fn_mul).apply((C, C))
return step.Accum(fn=fn_add, b=1).apply(C)
"""


def test_copies_dead_nodes_and_identities_go_and_the_meaning_stays() -> None:
    scope = static_scope(TASK)
    program = bare(parse(NEEDLESS, scope)[0])
    assert not any(isinstance(node.op, Copy) for node in program.nodes)
    assert len(program.nodes) == 7
    assert verify(TASK, print_program(insert_copies(program))).passed


def test_every_rewrite_has_fewer_nodes() -> None:
    scope = static_scope(TASK)
    program = bare(parse(NEEDLESS, scope)[0])
    found = list(rewrites(program, scope))
    assert found and all(len(each.nodes) < len(program.nodes) for each in found)


def test_zips_before_a_map_and_what_is_undone_after_it_go() -> None:
    """The Map takes both streams itself, at their own shape."""
    text = """\
R = step.Streamify().apply(step.Repeat(n=M).apply(step.Bufferize(a=1).apply(E1)))
A = step.Promote(b=1).apply(step.Zip().apply((E0, R)))
B = step.Flatten(L=[1]).apply(step.Map(fn=fn_mul).apply(A))
return step.Accum(fn=fn_add, b=1).apply(B)
"""
    shorter = simplified(TASK, text, lambda candidate: verify(TASK, candidate).passed)
    assert [name for name in ("Zip", "Promote", "Flatten") if name in shorter] == []
    assert verify(TASK, shorter).passed


# --- readable text ---


def readable(name: str) -> tuple[Task, str]:
    given = task(name)
    scope = static_scope(given)
    return given, readable_text(parse(oracle(name), scope)[0], scope)


@pytest.mark.parametrize("name", ["attn/2", "bmm/2", "etoe/1", "index/1", "norm/1", "rope/2"])
def test_it_is_the_same_program(name: str) -> None:
    """For every oracle tried, routings and several outputs among them; every stream that has a name has its type."""
    given, written = readable(name)
    scope = static_scope(given)
    programs = [parse(text, scope) for text in (oracle(name), written)]
    assert not any(wrong for _, wrong in programs)
    one, other = (Counter(print_primitive(node.op) for node in program.nodes) for program, _ in programs)
    assert one == other
    assert verify(given, written).passed
    assert not {*re.findall(r"^(\w+) = ", written, re.MULTILINE)} & {*dir(builtins)}
    lines = written.splitlines()
    assert all("  # " in line or above.startswith("# ") for above, line in pairwise(["", *lines]) if " = " in line)
    assert not any("  # " in line and len(line) > 120 for line in lines)


def test_comments_are_in_one_column() -> None:
    """But those behind lines of code that leave too little room for it."""
    lines = [line for line in readable("norm/1")[1].splitlines() if "  # " in line]
    column = min(line.index("  # ") for line in lines)
    assert all(line.index("  # ") == max(column, len(line[: line.index("  # ")].rstrip())) for line in lines)


def test_streams_are_named_by_what_made_them() -> None:
    written = readable("gemm/0")[1]
    assert "mul = step.Map(fn=fn_mul)" in written
    assert "add = step.Accum(fn=fn_add, b=1).apply(mul)" in written
    assert "# fp32 [K, M, N]" in written
