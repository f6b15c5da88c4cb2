"""A task's chart: streams known by type and value, and the ways found to make them."""

import pytest

from pipeline.synthesis.chart import Chart
from step_runtime.tasks.task import SolvedTask
from tests.support.benchmark_tasks import oracle, task_named


def shown(name: str) -> SolvedTask:
    return SolvedTask(task_named(name).without_impl(), oracle(name).program)


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(task_named("norm/1"))


def test_derivations_lead_from_starts_to_results(chart: Chart) -> None:
    """Every output has a stream that gives it, and starting from the inputs all streams can be made."""
    assert all(chart.results) and chart.landmarks
    known = {start.node for start in chart.starts}
    grown = True
    while grown:
        fresh = {
            each.result
            for each in chart.derivations
            if each.result not in known and all(operand in known for operand in each.operands)
        }
        known |= fresh
        grown = bool(fresh)
    assert known == set(range(len(chart.types)))


def test_uses_list_each_derivation_at_its_operands(chart: Chart) -> None:
    """Once for each operand, and nowhere else; no stream is made of itself."""
    for number, derivation in enumerate(chart.derivations):
        assert all(chart.uses[operand].count(number) == 1 for operand in derivation.operands)
        assert derivation.result not in derivation.operands
    assert sum(map(len, chart.uses)) == sum(len({*each.operands}) for each in chart.derivations)


def test_charts_are_equal_and_bounded() -> None:
    """Two charts of one task are the same, and a smaller budget makes a smaller one."""
    task = task_named("rope/1")
    one, other, small = Chart(task), Chart(task), Chart(task, size=5)
    ways = [[(d.operands, d.result, d.way) for d in each.derivations] for each in (one, other, small)]
    assert ways[0] == ways[1] and len(ways[2]) < len(ways[0])


def test_streams_of_a_precedent_s_plan_are_starts() -> None:
    """They cost bits, fewer the more relevant the precedent; the inputs cost none."""
    task = task_named("gemm/2")
    plain, near, far = (Chart(task, examples) for examples in ([], [shown("gemm/1")], [shown("norm/0")]))
    assert {start.bits for start in plain.starts} == {0}
    bits = [[start.bits for start in each.starts if start.bits] for each in (near, far)]
    assert bits[0] and min(bits[0]) >= 1
    assert not bits[1] or min(bits[0]) < min(bits[1])
