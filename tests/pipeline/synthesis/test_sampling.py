"""Samples from a chart: by seed, temperature and budget."""

import pytest

from pipeline.synthesis.chart import Chart, sample
from step_runtime.language.parser import parse
from step_runtime.verification.check import check_outputs, infer_types
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import task_named


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(task_named("norm/1"))


def test_a_seed_gives_the_same_program(chart: Chart) -> None:
    """Whatever was sampled before; at temperature 0 the seed counts for nothing."""
    programs = [sample(chart, 8, 1.0, seed) for seed in range(12)]
    assert programs == [sample(chart, 8, 1.0, seed) for seed in range(12)]
    assert len(set(programs)) >= 3
    assert len({sample(chart, 8, 0.0, seed) for seed in range(4)}) == 1


def test_a_larger_budget_reaches_the_outputs(chart: Chart) -> None:
    """What gives the outputs on the observed data is found with enough candidates, and not with one."""
    verifier = Verifier(task_named("norm/1"))
    small, large = sample(chart, 1, 0.0, 0), sample(chart, 500, 0.0, 0)
    assert small and large
    assert verifier.verify(large).passed and not verifier.verify(small).passed


def test_what_does_not_reach_them_has_their_types(chart: Chart) -> None:
    """A sample whose budget ends is a well-typed program of the declared outputs all the same."""
    for seed in range(6):
        text = sample(chart, 2, 1.0, seed)
        assert text
        program, wrong = parse(text, chart.scope)
        types, broken = infer_types(program, chart.scope)
        assert [*wrong, *broken, *check_outputs(program, types, chart.scope)] == []


def test_charts_are_equal_and_bounded() -> None:
    """Two charts of one task are the same, and a smaller budget makes a smaller one."""
    task = task_named("rope/1")
    one, other, small = Chart(task), Chart(task), Chart(task, size=5)
    ways = [[(d.operands, d.result, d.way) for d in each.derivations] for each in (one, other, small)]
    assert ways[0] == ways[1] and len(ways[2]) < len(ways[0])
