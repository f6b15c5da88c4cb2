"""Where a search from both ends meets, the program is written from both halves."""

from pipeline.synthesis import SearchBudget, synthesize
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import check_affine
from tests.support.small_tasks import of_scalars


def test_a_stream_that_is_used_twice_is_made_once_and_copied() -> None:
    """x² + x of x = 3·E0: the tripled stream has one node."""
    fns = {"triple": ("3 * input[0]", 1), "square": ("input[0] ** 2", 1), "plus": ("input[0] + input[1]", 2)}
    given = of_scalars(fns, "9 * input_data['E0'] ** 2 + 3 * input_data['E0']")
    outcome = synthesize(given, SearchBudget(seconds=600, candidates=20_000))
    assert outcome.impl is not None and outcome.length == 3
    program, found = parse(outcome.impl, static_scope(given))
    assert not found and not check_affine(program)
    names = [node.op.name for node in program.nodes]
    assert outcome.impl.count("fn_triple") == 1 and names.count("Copy") == 1
