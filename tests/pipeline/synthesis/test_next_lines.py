"""Legal next lines: whatever is chosen among them ends in a well-typed program, and right programs are among them."""

from random import Random

import pytest

from pipeline.synthesis.next_lines import MOST_LINES, NextLines
from pipeline.synthesis.precedents import NotAPlan, Step, plan_of
from step_runtime.language.parser import parse
from step_runtime.primitives import Accum, Map, Merge, Scan
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.verification.check import check_affine, check_outputs, infer_types, insert_copies
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import task_named
from tests.support.oracles import oracle
from tests.support.small_tasks import of_scalars


def walked(lines: NextLines, random: Random) -> str:
    """A program whose lines are drawn from the legal ones."""
    text = ""
    while choices := lines.after(text):
        text += f"{random.choice(choices)}\n"
    return text


@pytest.mark.parametrize("name", ["gemm/1", "bmm/1", "norm/0", "index/0", "expert/2", "rope/2"])
def test_any_choice_leads_to_a_well_typed_program(name: str) -> None:
    """It applies every function, has no primitive that no output needs, and lacks nothing but Copies."""
    scope = static_scope(task_named(name))
    lines, random = NextLines(scope), Random(0)
    for _ in range(2):
        program, found = parse(walked(lines, random), scope)
        assert not found
        assert {*program.live_nodes()} == {*program.nodes}
        applied = {node.op.fn for node in program.nodes if isinstance(node.op, Map | Accum | Scan | Merge)}
        assert applied == {*scope.fns.values()}
        program = insert_copies(program)
        types, wrong = infer_types(program, scope)
        assert not [*wrong, *check_affine(program), *check_outputs(program, types, scope)]


def steps_of(text: str, scope: Scope) -> tuple[Step, ...]:
    """What a beginning of a program applies to what; its last value is taken for the output."""
    program, _ = parse(f"{text}\n", scope)
    last = program.nodes[-1].outputs[0] if program.nodes else 0
    try:
        return plan_of(type(program)(program.inputs, program.nodes, (last,)), scope)[0].steps
    except NotAPlan:
        return ()


def followed(text: str, wanted: tuple[Step, ...], lines: NextLines, scope: Scope, repeats: int) -> str | None:
    """A program of legal lines that applies the same to the same."""
    done = len(steps_of(text, scope)) if text else 0
    choices = lines.after(text, repeats)
    if done == len(wanted):
        return text + next(line for line in choices if line.rpartition("\n")[2].startswith("return"))
    made = {line: steps_of(text + line, scope) for line in choices}
    alike = [
        (last.shape != wanted[done].shape, last.folded != wanted[done].folded, line)
        for line, steps in made.items()
        for last in steps[done : done + 1]
        if (last.kind, last.fns, last.sources) == (wanted[done].kind, wanted[done].fns, wanted[done].sources)
    ]
    assert alike, f"no line for {wanted[done]}"
    return followed(f"{text}{min(alike)[-1]}\n", wanted, lines, scope, repeats)


@pytest.mark.parametrize("name", ["gemm/0", "bmm/2", "norm/0", "norm/1", "index/0", "expert/2", "attn/1", "rope/1"])
def test_right_programs_are_among_them(name: str) -> None:
    """Line by line, what a task's program does can be chosen, with no more repeats than it has; then it returns."""
    given = task_named(name)
    scope = static_scope(given)
    wanted = plan_of(parse(oracle(name), scope)[0], scope)[0].steps
    applied = [fn for step in wanted for fn in step.fns if fn]
    text = followed("", wanted, NextLines(scope), scope, len(applied) - len(set(applied)))
    program, found = parse(str(text), scope)
    assert not found
    assert Verifier(given).verify(print_program(insert_copies(program))).passed


def test_a_routing_is_one_choice() -> None:
    """Partition, the branches and Merge come together, so that no piece is ever left over."""
    lines = NextLines(static_scope(task_named("expert/1"))).after("")
    routings = [line for line in lines if "step.Partition" in line]
    assert routings
    assert all("step.Merge" in line and line.count("step.Map") == 3 for line in routings)
    assert not [line for line in lines if "step.Copy" in line]


DOUBLED = of_scalars({"double": ("input[0] * 2", 1), "plus": ("input[0] + input[1]", 2)}, "E0 * 3")


def test_no_function_is_mapped_to_its_own_result_where_another_line_fits() -> None:
    """Small LMs would do that until the limit of applications."""
    lines = NextLines(static_scope(task_named("gemm/1"))).after("E2 = step.Map(fn=fn_mul).apply((E0, E1))\n")
    assert lines
    assert not [line for line in lines if "fn_mul" in line and "E2" in line.rpartition("apply")[2]]


def test_functions_are_applied_again_no_oftener_than_asked_where_types_admit_it() -> None:
    """A line that uses up what a function needs, so that another has to make it anew, is not listed either."""
    lines = NextLines(static_scope(task_named("gemm/1")))
    squares = [line for line in lines.after("") if "apply((E0, E0))" in line]
    assert squares and not {*squares} & {*lines.after("", repeats=0)}
    assert lines.after(f"{squares[0]}\n", repeats=0)
    assert lines.after("", repeats=100) == lines.after("")


def test_the_order_of_a_commuting_functions_inputs_is_no_choice() -> None:
    """One line has them in the order of the program."""
    scope = static_scope(task_named("gemm/1"))
    both, one = (NextLines(scope, commuting).after("", repeats=0) for commuting in ((), ("fn_mul",)))
    assert [line for line in both if "apply((E1, E0))" not in line] == [*one]
    assert len(one) < len(both)


def test_it_returns_as_soon_as_all_is_there() -> None:
    """While a function is missing no line returns; then nothing else may follow, and after that nothing at all."""
    lines = NextLines(static_scope(DOUBLED))
    first = lines.after("")
    assert not [line for line in first if "return" in line]
    text = "E1 = step.Map(fn=fn_double).apply(E0)\nE2 = step.Map(fn=fn_plus).apply((E0, E1))\n"
    assert lines.after(text) == ("return E2",)
    assert lines.after(f"{text}return E2\n") == ()


def test_nothing_is_made_that_no_output_could_use() -> None:
    """Where a single function takes two streams, no third one is made beside them that it could not take any more."""
    given = of_scalars({"root": ("input[0] ** 0.5", 1)}, "E0", out="[D, N]")
    lines = NextLines(static_scope(given))
    assert lines.after("") == ("E1 = step.Map(fn=fn_root).apply(E0)",)
    assert lines.after("E1 = step.Map(fn=fn_root).apply(E0)\n") == ("return E1",)


def test_an_output_that_is_constant_along_a_dim_leaves_the_choice() -> None:
    """Its `return` comes first, but a program may go on to use it where it varies."""
    given = of_scalars({"sum": ("input[0] + state[0]", 0), "minus": ("input[0] - input[1]", 2)}, "E0 - E0.sum(1)")
    lines = NextLines(static_scope(given))
    text = "E1 = step.Map(fn=fn_minus).apply((E0, E0))\nE2 = step.Accum(fn=fn_sum, b=1).apply(E1)\n"
    first, *others = lines.after(text)
    assert first == "E3 = step.Repeat(n=D).apply(E2)\nreturn E3"
    assert others and not [line for line in others[1:] if line == first]


def test_equal_primitives_are_written_once() -> None:
    """A line uses what an earlier one has made, Copies aside: the pass for Copies makes two of a stream."""
    lines = NextLines(static_scope(task_named("etoe/0")))
    text = "E1 = step.Bufferize(a=1).apply(E0)\nE2 = step.Map(fn=fn_gate).apply(E1)\n"
    copied = text.replace("E1 =", "E7 =").replace("E1)", "E8)").replace("E2", "E8, E9 = step.Copy().apply(E7)\nE2")
    assert all("Bufferize(a=1).apply(E0)" not in line for line in lines.after(text))
    assert len(lines.after(copied)) == len(lines.after(text))


def test_the_most_plausible_lines_come_first() -> None:
    """Functions that have not been applied, and values that nothing uses, come first; the number is limited."""
    lines = NextLines(static_scope(task_named("norm/1")))
    text = ""
    for _ in range(5):
        text += f"{lines.after(text)[0]}\n"
        assert len(lines.after(text)) <= MOST_LINES
    program, _ = parse(text, static_scope(task_named("norm/1")))
    fns = [node.op.fn for node in program.nodes if isinstance(node.op, Map | Accum | Scan)]
    assert len(set(fns)) == len(fns) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("E1 = step.Map(fn=fn_nothing).apply(E0)\n", "fn_nothing"),
        ("E1 = step.Accum(fn=fn_double, b=1).apply(E0)\n", "belongs in Map"),
        ("E1 = step.Map(fn=fn_double).apply(E0)\nE1 = step.Map(fn=fn_double).apply(E1)\n", "E1 is given to two"),
    ],
)
def test_other_text_is_refused(text: str, message: str) -> None:
    """An unknown name, a broken rule, and a name for two streams."""
    with pytest.raises(ValueError, match=message):
        NextLines(static_scope(DOUBLED)).after(text)


def test_types_beyond_the_declared_ones_are_admitted_where_they_are_needed() -> None:
    """A task all of whose lines are forced once they are, and that has none without."""
    scope = static_scope(task_named("index/1"))
    lines, text = NextLines(scope), ""
    while choices := lines.after(text):
        assert len(choices) == 1
        text += f"{choices[0]}\n"
    program, found = parse(text, scope)
    assert not found
    assert Verifier(task_named("index/1")).verify(print_program(insert_copies(program))).passed
