"""Rewrites leave out structure, and `bare` keeps what a program computes."""

from pipeline.rewriting.simplification import bare, rewrites, simplified
from step_runtime import verify
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import insert_copies
from tests.support.paths import PROJECT

TASK = loads_task((PROJECT / "data/tasks/gemm/0.yaml").read_text(), "gemm/0")
LONG = """\
A = step.Streamify().apply(step.Bufferize(a=1).apply(E0))
B = step.Streamify().apply(step.Repeat(n=M).apply(step.Bufferize(a=1).apply(E1)))
C = step.Map(fn=fn_mul).apply((step.Identity().apply(A), B))
D = step.Map(fn=fn_mul).apply((C, C))
return step.Accum(fn=fn_add, b=1).apply(C)
"""


def test_copies_dead_nodes_and_identities_go_and_the_meaning_stays() -> None:
    scope = static_scope(TASK)
    program = bare(parse(LONG, scope)[0])
    assert not any(isinstance(node.op, Copy) for node in program.nodes)
    assert len(program.nodes) == 7
    assert verify(TASK, print_program(insert_copies(program))).passed


def test_every_rewrite_has_fewer_nodes() -> None:
    scope = static_scope(TASK)
    program = bare(parse(LONG, scope)[0])
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
    task = loads_task((PROJECT / "data/tasks/gemm/0.yaml").read_text(), "gemm/0")
    shorter = simplified(task, text, lambda candidate: verify(task, candidate).passed)
    assert [name for name in ("Zip", "Promote", "Flatten") if name in shorter] == []
    assert verify(task, shorter).passed
