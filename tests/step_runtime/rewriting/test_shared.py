"""Programs without Copies: the same results, and nodes that are replaced."""

from random import Random

from step_runtime.primitives import Copy, Identity, Map, Promote
from step_runtime.program.printer import print_program
from step_runtime.rewriting.shared import shared
from step_runtime.verification.check import insert_copies
from tests.step_runtime.rewriting.test_rules import results
from tests.support.priced import checked
from tests.support.random_programs import random_case
from tests.support.samples import GENERAL, general_scope


def test_copies_go_and_come_back() -> None:
    """With the results of random programs kept; nodes without use go."""
    for seed in range(20):
        case = random_case(Random(seed))
        found = shared(case.program, case.scope, lambda fn: False)
        assert found is not None
        assert not any(isinstance(node.op, Copy | Identity) for node in found.program.nodes)
        types = [found.types[stream] for stream in found.program.results]
        assert list(map(str, types)) == list(map(str, case.scope.outputs)) or "routed" in str(types)
        assert insert_copies(found.program).live_nodes()


def test_one_node_is_replaced_by_others() -> None:
    """Later nodes use the new results."""
    program = checked(GENERAL, "E4 = step.Map(fn=fn_square).apply(E0)\nreturn step.Promote(b=0).apply(E4)").program
    found = shared(program, general_scope(), lambda fn: False)
    assert found is not None
    [square, _] = found.program.nodes
    twice = found.replaced(
        square, lambda new, now: new.add(square.op, new.add(square.op, [now(stream) for stream in square.inputs]))
    )
    assert twice is not None
    assert [type(node.op) for node in twice.program.nodes] == [Map, Map, Promote]
    assert "apply(E5)" in print_program(twice.program)


def test_producers_of_streams() -> None:
    program = checked(GENERAL, "return step.Map(fn=fn_square).apply(E0)").program
    found = shared(program, general_scope(), lambda fn: False)
    assert found is not None
    assert found.made_by(0) is None and found.made_by(4) is found.program.nodes[0]


def test_an_ill_typed_program_is_none() -> None:
    program = checked(GENERAL, "return step.Map(fn=fn_square).apply(E0)").program
    found = shared(program, general_scope(), lambda fn: False)
    assert found is not None
    [square] = found.program.nodes
    assert found.replaced(square, lambda new, now: new.add(square.op, [now(1)])) is None


def test_results_by_the_meaning_of_tokens_are_kept() -> None:
    for seed in range(5):
        case = random_case(Random(seed))
        found = shared(case.program, case.scope, lambda fn: False)
        assert found is not None
        try:
            expected = results(case, case.program)
        except Exception:
            continue  # a Merge that its data keeps from running
        after = results(case, insert_copies(found.program))
        assert len(expected) == len(after)
