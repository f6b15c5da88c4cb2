"""Going top_down holds these.

- What is solved for gives what is wanted when the function is run on it, whatever the function.
- A value that a path cannot have ended at has no inverse.
"""

import pytest
import torch

from pipeline.synthesis.bottom_up import BatchExecutor
from pipeline.synthesis.rules import RoundLimits, Rule, Rulebook, RuleTable
from pipeline.synthesis.search_budget import SearchBudget
from pipeline.synthesis.top_down import invert_path, solve
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.base.types import Scalar, StreamType
from step_runtime.primitives import Map
from step_runtime.verification.instance import instances
from tests.support.small_tasks import of_scalars

UNARY = {
    "shift": "input[0] + 1e-5",
    "inverse": "2 / input[0]",
}
BINARY = {"minus": "input[0] - input[1]", "over": "input[0] / input[1]", "times": "input[0] * input[1]"}


def made(fns: dict[str, tuple[str, int]]) -> tuple[BatchExecutor, Rulebook]:
    instance = instances(of_scalars(fns, "input_data['E0']"))[1]
    space = TypeSpace(instance.scope)
    return BatchExecutor(instance, space, SearchBudget()), book_of(space)


def book_of(space: TypeSpace) -> Rulebook:
    return Rulebook(RuleTable(space), dict.fromkeys(space.inputs, 0), RoundLimits(6, 1_000, False))


def rule_of(book: Rulebook, name: str) -> Rule:
    """The rule that maps a function over streams of the input's type as they are."""
    found = [
        rule
        for rule in book.rules
        if isinstance(rule.apply, Map)
        and rule.apply.fn.label == f"fn_{name}"
        and all(path.source == book.space.inputs[0] and not path.ops for path in rule.operands)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_operand_is_solved_for_its_operand(name: str) -> None:
    """The operand found gives the result wanted to nine digits, in every row."""
    executor, book = made({name: (UNARY[name], 1)})
    rule = rule_of(book, name)
    operand = torch.rand(20, 32, dtype=torch.float64) * 3 + 0.1
    wanted = executor.apply(rule, [operand])
    assert wanted is not None
    solved, rows = solve(executor, rule, 0, [], wanted)
    assert rows.tolist() == list(range(20))
    again = executor.apply(rule, [solved])
    assert again is not None
    torch.testing.assert_close(again, wanted, rtol=1e-8, atol=0)


@pytest.mark.parametrize("hole", [0, 1])
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_operands_is_solved_for_either(name: str, hole: int) -> None:
    """Given the one, the other is found."""
    executor, book = made({name: (BINARY[name], 2)})
    rule = rule_of(book, name)
    operands = [torch.rand(20, 32, dtype=torch.float64) + 0.5 for _ in range(2)]
    wanted = executor.apply(rule, operands)
    assert wanted is not None
    solved, rows = solve(executor, rule, hole, [operands[1 - hole]], wanted)
    assert rows.tolist() == list(range(20))
    torch.testing.assert_close(solved, operands[hole], rtol=1e-8, atol=0)


def test_a_repeat_is_undone_only_where_its_values_repeat() -> None:
    """A stream along N repeated along D comes back; one row with one odd number does not."""
    executor, _ = made({"sum": ("state[0] + input[0]", 0)})
    space = executor.space
    rows = space.intern(StreamType(Scalar("float"), space.types[space.inputs[0]].shape[1:]))
    path = space.path(rows, space.types[space.inputs[0]])
    assert path is not None and path.repeated
    before = torch.randn(5, 4, dtype=torch.float64)
    after = executor.along(path, before)
    after[3, 7] += 1
    back, good = invert_path(executor, path, after)
    assert good.tolist() == [0, 1, 2, 4]
    assert torch.equal(back, before[[0, 1, 2, 4]])
