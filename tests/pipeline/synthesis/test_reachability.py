"""Look-ahead by types: what can still be finished, and what can't."""

from pipeline.synthesis.next_lines import Reachability
from pipeline.synthesis.rules import RuleTable
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.tasks.scope import Scope, static_scope
from tests.support.benchmark_tasks import task_named
from tests.support.small_tasks import of_scalars, task

FNS = {"double": ("input[0] * 2", 1), "plus": ("input[0] + input[1]", 2)}
SCOPE = static_scope(of_scalars(FNS, "E0 * 3"))
DOUBLE, PLUS = SCOPE.fns["fn_double"], SCOPE.fns["fn_plus"]


def reachability(scope: Scope, most_times: int = 2) -> Reachability:
    return Reachability(RuleTable(TypeSpace(scope)), most_times)


def test_all_functions_are_needed_that_types_admit() -> None:
    """A function whose result leads to no output is not, nor is an input that nothing takes."""
    given = task(
        """
        inputs:
        - {name: E0, dtype: fp32, dims: [N], data_gen: torch.randn}
        - {name: E1, dtype: 'Multihot(fp32, N)', dims: [N], data_gen: torch.randn}
        fns:
        - {name: a, apply: 'return input', input_dtype: fp32, output_dtype: fp32, func_name: fn_a}
        - {name: b, apply: 'return input', input_dtype: fp32, output_dtype: 'Multihot(fp32, N)', func_name: fn_b}
        outputs:
        - {name: S0, dtype: fp32, dims: [N], data_transform: E0}
        """
    )
    reach = reachability(static_scope(given))
    assert [fn.label for fn in reach.needed] == ["fn_a"]
    assert not reach.complete
    assert len(reach.usable) == 1


def test_what_nothing_uses_must_fit_into_what_is_left() -> None:
    """A function of two operands takes two streams, and more only as often as it may be applied."""
    reach = reachability(SCOPE)
    one = reach._space.inputs[0]
    for unused, fits in ((1, True), (2, True), (3, True), (4, False)):
        assert reach.can_finish(reach.outlook([one], [one] * unused, {DOUBLE: 1}), 4) == fits
    assert not reach.can_finish(reach.outlook([one], [one, one], {DOUBLE: 1, PLUS: 2}), 4)


def test_a_finished_program_can_be_finished() -> None:
    """With nothing left to apply, and not if a function is missing that may not be applied any more."""
    reach = reachability(SCOPE)
    one = reach._space.inputs[0]
    assert reach.can_finish(reach.outlook([one], [one], {DOUBLE: 1, PLUS: 1}), 3)
    assert not reach.can_finish(reach.outlook([one], [one], {DOUBLE: 3}), 3)


def test_a_routing_applies_several_functions_at_once() -> None:
    """A way to the outputs is found through it, though functions one by one lead nowhere."""
    reach = reachability(static_scope(task_named("etoe/0")), most_times=1)
    start = reach._space.inputs
    assert reach.complete
    assert reach.can_finish(reach.outlook(start, start, {}), 6)
