"""Graph to canonical text.

Invariant: `parse(print_program(program)) == program`, with one primitive a line.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from step_runtime import loads_task
from step_runtime.base.errors import Span
from step_runtime.language.parser import parse
from step_runtime.primitives import PRIMITIVES
from step_runtime.program.graph import Node, Program
from step_runtime.program.limits import PART, held, part_size
from step_runtime.program.printer import print_primitive, print_program
from step_runtime.tasks.scope import static_scope
from tests.step_runtime.language.test_evaluator import SAME
from tests.support.paths import PROJECT
from tests.support.samples import GENERAL_SOLUTION, general_scope
from tests.support.small_tasks import of_scalars

DATA = PROJECT / "data"

ORACLES = sorted((DATA / "oracles").glob("*/*.step"))

CONFIGURATIONS = [
    "step.Repeat(n=M*M)", "step.Repeat(n=M*N - D)", "step.Repeat(n=(M + N)//3)", "step.Repeat(n=M//(2*N))",
    "step.Repeat(n=2*M + 3)", "step.Repeat(n=M*M*N//(D + 1))", "step.Repeat(n=(M - N)*(M + N))",
    "step.Repeat(n=M//(D*(M + N)))", "step.Repeat(n=4)", "step.Repeat(n=M//2 + N//3)", "step.Repeat(n=M_value)",
    "step.Promote(b=0)", "step.Bufferize(a=1)", "step.Flatten(L=[1])", "step.Reshape(L=[0, 1], S=M)",
    "step.Streamify()", "step.Copy()", "step.Identity()", "step.Scan(fn=fn_sum, b=1)", "step.Map(fn=fn_square)",
    "step.RepeatLast(n=E)",
]  # fmt: skip


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_every_configuration_parses_back(configuration: str) -> None:
    """A primitive is printed as the language writes it, dims included, and means the same."""
    # Dims that are no ints at these sizes are refused where they are written.
    scope = general_scope() if "_value" in configuration else replace(general_scope(), sizes={})
    program, found = parse(f"return {configuration}.apply(E0)", scope)
    assert not found
    shown = print_primitive(program.nodes[0].op)
    again, found = parse(f"return {shown}.apply(E0)", scope)
    assert not found and again == program, shown


@pytest.mark.parametrize("name", SAME)
def test_every_form_prints_to_a_text_that_parses_back(name: str) -> None:
    """Programs of every form survive printing."""
    program, _ = parse(SAME[name][0], general_scope())
    text = print_program(program)
    assert parse(text, general_scope()) == (program, [])
    assert len(text.splitlines()) == len(program.nodes) + 1


@pytest.mark.parametrize("path", ORACLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_oracles_survive_printing(path: Path) -> None:
    """Each benchmark oracle printed from its graph is the same graph."""
    task = loads_task((DATA / "tasks" / path.parent.name / f"{path.stem}.yaml").read_text())
    scope = static_scope(task)
    program, found = parse(path.read_text(), scope)
    assert not found
    assert parse(print_program(program), scope) == (program, [])


def test_the_canonical_text_is_plain() -> None:
    """Streams are named E<number>, past the inputs; a Copy's two get names, a Partition's list is indexed."""
    program, _ = parse(GENERAL_SOLUTION.replace("E4", "x").replace("E7", "out"), general_scope())
    assert print_program(program) == GENERAL_SOLUTION
    program, _ = parse(
        "i, j = step.Copy().apply(E2)\na, b, c = step.Partition(N=E).apply((E3, i))\n"
        "return step.Merge(fn=fn_sum).apply(([c, b, a], j))",
        general_scope(),
    )
    assert print_program(program) == (
        "E4, E5 = step.Copy().apply(E2)\nE6 = step.Partition(N=E).apply((E3, E4))\n"
        "E7 = step.Merge(fn=fn_sum).apply(([E6[2], E6[1], E6[0]], E5))\nreturn E7\n"
    )


COPY, IDENTITY, ZIP = (PRIMITIVES[name]() for name in ("Copy", "Identity", "Zip"))

PROGRAM = Program(
    ("E0", "E1"),
    (Node(COPY, (0,), (2, 3)), Node(IDENTITY, (1,), (4,)), Node(ZIP, (2, 2), (5,)), Node(IDENTITY, (3,), (6,))),
    (5,),
    {2: "left"},
)


def test_a_stream_has_the_text_s_name_else_the_task_s_else_its_number() -> None:
    """Inputs that a text does not rename keep the task's names."""
    assert [PROGRAM.name(stream) for stream in (0, 2, 3)] == ["E0", "left", "stream 3"]


def test_places_and_names_do_not_make_another_program() -> None:
    """Equality is that of inputs, nodes and results alone."""
    moved = tuple(Node(node.op, node.inputs, node.outputs, Span(9, 1, 9, 2)) for node in PROGRAM.nodes)
    assert Program(PROGRAM.inputs, moved, PROGRAM.results) == PROGRAM
    assert Program(PROGRAM.inputs, moved[:2], PROGRAM.results) != PROGRAM


SCOPE = static_scope(of_scalars({"f": ("input[0]", 1), "g": ("state[0] + input[0]", 0)}, "input_data['E0']"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = step.Map(fn=fn_f).apply(E0)\nreturn step.Accum(fn=fn_g, b=1).apply(a)", {0: 1}),
        ("a = step.Map(fn=fn_f).apply(step.Map(fn=fn_f).apply(E0))\nreturn step.Accum(fn=fn_g, b=1).apply(a)",
         {0: 2, 1: 2}),
        ("a = step.Map(fn=fn_f).apply(E0)\nreturn step.Scan(fn=fn_g, b=1).apply(a)", {}),
        ("a = step.Map(fn=fn_f).apply(E0)\nreturn a, step.Accum(fn=fn_g, b=1).apply(a)", {}),
        ("a, b = step.Copy().apply(step.Map(fn=fn_f).apply(E0))\nreturn a, step.Accum(fn=fn_g, b=1).apply(b)", {}),
    ],
)  # fmt: skip
def test_only_what_nothing_else_reads_is_pipelined(text: str, expected: dict[int, int]) -> None:
    """Through several Maps; not into a Scan, a result or a Copy."""
    program, _ = parse(text, SCOPE)
    assert program.pipelined == expected


def test_a_part_is_of_bounded_size_where_the_outer_dims_allow() -> None:
    """One place of the largest dim at least."""
    assert part_size(PART, (4, 8)) == 8 and held(PART, (4, 8)) == PART
    assert part_size(16 * PART, (4, 64)) == 4 and held(16 * PART, (4, 64)) == PART
    assert part_size(16 * PART, (1, 2)) == 1 and held(16 * PART, (1, 2)) == 8 * PART
