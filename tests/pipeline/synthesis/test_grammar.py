"""The grammar: uniform costs without evidence, and fewer bits for what relevant precedents do."""

from pipeline.synthesis.grammar import Grammar
from pipeline.synthesis.precedents import Precedent, fingerprints_of, precedent_of
from pipeline.synthesis.rules import COST, RoundLimits, Rule, Rulebook, RuleTable
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask
from tests.support.benchmark_tasks import oracle, task_named

TASK = task_named("gemm/1")
SPACE = TypeSpace(static_scope(TASK))
RULES = list(Rulebook(RuleTable(SPACE), dict.fromkeys(SPACE.inputs, 0), RoundLimits(8, 2_000, True)).rules)


def grammar(*shown: tuple[str, float]) -> Grammar:
    precedents: list[tuple[Precedent, float]] = []
    for name, weight in shown:
        known = precedent_of(SolvedTask(task_named(name).without_impl(), oracle(name).program))
        assert known
        precedents.append((known, weight))
    return Grammar(SPACE.scope, fingerprints_of(TASK, SPACE.scope.fns), precedents)


def ways(known: Grammar) -> dict[Rule, float]:
    return {rule: known.way(rule) for rule in RULES}


def test_without_evidence_a_way_costs_its_rule_and_choices() -> None:
    """The bits are the search's units, what made the operands is free, and repetition is what is rare."""
    known = grammar()
    assert ways(known) == {rule: COST + rule.choices for rule in RULES}
    maker = known.maker(RULES[0])
    assert all(known.operands(rule, (maker,) * len(rule.operands)) == 0 for rule in RULES)
    assert all(known.repetition(rule) == 2 == known.reuse(rule, 0) for rule in RULES)


def test_evidence_counts_by_relevance() -> None:
    """The more relevant a precedent, the cheaper what it does; two that agree say more than one."""
    weak, strong, both = (
        ways(grammar(*shown)) for shown in ([("gemm/0", 0.3)], [("gemm/0", 1.0)], [("gemm/0", 1.0), ("gemm/2", 1.0)])
    )
    least = min(RULES, key=strong.__getitem__)
    assert both[least] < strong[least] < weak[least] < COST + least.choices
