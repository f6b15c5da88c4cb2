"""The rules of a round: all within its reach, and what each may still lead to."""

from itertools import count

from pipeline.synthesis.phases import RoundLimits
from pipeline.synthesis.rulebook import Rulebook
from pipeline.synthesis.rules import RuleTable
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.tasks.scope import static_scope
from tests.support.small_tasks import of_scalars

FNS = {"double": ("2 * input[0]", 1), "times": ("input[0] * input[1]", 2), "add": ("state[0] + input[0]", 0)}
SPACE = TypeSpace(static_scope(of_scalars(FNS, "input_data['E0']")))
TABLE = RuleTable(SPACE, invented=1)
GIVEN = dict.fromkeys(SPACE.inputs, 0)
BOOK = Rulebook(TABLE, GIVEN, RoundLimits(8, 1_000, True))


def test_a_goal_is_no_rule_away_from_itself() -> None:
    """Other types are at least one."""
    remaining = BOOK.remaining([SPACE.inputs[0]])
    assert remaining[SPACE.inputs[0]] == 0 and all(count >= 0 for count in remaining.values())


def test_no_rule_costs_more_than_the_reach() -> None:
    """With more reach there are more rules, among them all those before."""
    near = Rulebook(TABLE, GIVEN, RoundLimits(4, 1_000, True))
    assert set(near.rules) < set(BOOK.rules)
    for book in (near, BOOK):
        for rule in book.rules:
            assert book.cost(rule) + sum(book.cheapest[path.source] for path in rule.operands) <= book.limits.cost


def test_structure_and_repetition_cost_only_where_choices_count() -> None:
    """A fold of a stream that is repeated first costs more than one of it as it is, and again once it has served."""
    add = SPACE.scope.fns["fn_add"]
    plain, served = (
        Rulebook(TABLE, GIVEN, RoundLimits(8, 1_000, False)),
        Rulebook(TABLE, GIVEN, RoundLimits(8, 1_000, True), [add]),
    )
    (direct, *_) = [rule for rule in BOOK.rules if rule.fn == add and not rule.operands[0].ops]
    longer = [rule for rule in BOOK.rules if rule.fn == add and rule.operands[0].invented]
    assert longer and all(BOOK.cost(rule) > BOOK.cost(direct) for rule in longer)
    assert {plain.cost(rule) for rule in [direct, *longer]} == {plain.cost(direct)}
    assert served.cost(direct) > BOOK.cost(direct)


def test_a_listing_ends_after_so_many_meetings() -> None:
    """Then it has the rules on the cheapest types, and is checked at each."""
    calls = count()
    short = Rulebook(TABLE, GIVEN, RoundLimits(8, 3, True), check=lambda: (next(calls), None)[1])
    assert 0 < len(short.rules) < len(BOOK.rules) and next(calls) == 4
