"""The experiment's analysis: what it estimates is known where the data are; its page is current."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scripts.documentation.experiment import chart, page
from scripts.documentation.experiment.records import by_budget, load
from scripts.documentation.experiment.statistics import detectable, effect, holm, power, sign_flips
from scripts.documentation.pages import EXPERIMENTS, differing


def test_the_page_is_current() -> None:
    """Its results follow from the recorded cells."""
    found = [path.name for path, _ in differing(page.files(EXPERIMENTS / "selections"))]
    assert found == [], "run: python -m scripts.documentation"


def test_an_effect_without_task_and_seed_is_that_of_a_paired_test() -> None:
    """Worked by hand: four tasks, one seed; mean 2, variance 20/3, error sqrt(5/3)."""
    found = effect(np.array([[-1.0], [1.0], [3.0], [5.0]]))
    assert (found.mean, found.freedom) == (2.0, 3)
    assert found.error == pytest.approx((5 / 3) ** 0.5)
    low, high = found.interval()
    assert (low + high) / 2 == pytest.approx(2.0) and high - low == pytest.approx(2 * 3.1824 * found.error, rel=1e-4)


def test_components_are_found_where_they_are() -> None:
    """A large simulated array has the standard deviations that made it."""
    rng = np.random.default_rng(1)
    made = 0.3 + 0.2 * rng.standard_normal((400, 1)) + 0.1 * rng.standard_normal((1, 60))
    found = effect(made + 0.4 * rng.standard_normal((400, 60)))
    assert found.components == pytest.approx((0.2, 0.1, 0.4), abs=0.03)
    assert found.mean == pytest.approx(0.3, abs=0.06) and found.p < 1e-6


def test_a_true_null_is_significant_as_often_as_the_level_says() -> None:
    """Also where tasks and seeds differ, of which the error has to know."""
    assert power(0.0, (0.1, 0.05, 0.3), 40, 4, 0.05) == pytest.approx(0.05, abs=0.035)


def test_the_detectable_difference_agrees_with_simulated_experiments() -> None:
    """The formula from one experiment's error, against the share of simulated ones that are significant."""
    components = (0.1, 0.0, 0.3)
    simulated = detectable(components, 100, 12, 0.05)
    rng = np.random.default_rng(2)
    one = effect(0.1 * rng.standard_normal((100, 1)) + 0.3 * rng.standard_normal((100, 12)))
    assert one.detectable(0.05) == pytest.approx(simulated, rel=0.2)


def test_equivalence_needs_a_small_error_and_not_only_a_small_mean() -> None:
    """Two one-sided tests: few data show neither a difference nor its absence."""
    rng = np.random.default_rng(3)
    many, few = (effect(0.2 * rng.standard_normal((size, 2))) for size in (2000, 10))
    assert many.p_equivalent(0.03) < 0.05 < few.p_equivalent(0.03)
    assert effect(np.zeros((5, 2))).p_equivalent(0.03) == 0.0


def test_holm_steps_down() -> None:
    """Worked by hand: 0.01 · 3, 0.02 · 2, and 0.03 no smaller than those before."""
    assert holm({"a": 0.03, "b": 0.01, "c": 0.02}) == pytest.approx({"b": 0.03, "c": 0.04, "a": 0.04})


def test_signs_flip_by_group() -> None:
    """Ten tasks of one group are one observation; ten groups are ten."""
    differences = np.full((10, 2), 0.5)
    assert sign_flips(differences, ["one"] * 10) == 1.0
    assert sign_flips(differences, [str(number) for number in range(10)]) < 0.01


def test_only_complete_seeds_count(tmp_path: Path) -> None:
    """A seed whose folds are not all recorded is left out, and so is a reader without any other."""
    settings = {"folds": 2, "amounts": {"fresh": 2}, "groups": {"a": "g", "b": "h"}}
    figures = {name: {"none": 0.0} for name in ("tokens", "shown", "milliseconds")}
    cells = [("r", 0, 0, "a", 1), ("r", 0, 1, "b", 2), ("r", 1, 0, "b", 2), ("s", 0, 0, "a", 2)]
    lines = [
        {"reader": reader, "seed": seed, "fold": fold, "experience": 3, "tasks": [task], "correct": {"none": [right]}}
        | figures
        for reader, seed, fold, task, right in cells
    ]
    path = tmp_path / "cells.jsonl"
    path.write_text("\n".join(map(json.dumps, [settings, *lines])))
    (reader,) = load(path).values()
    assert reader.seeds == (0,) and reader.rates["none"].tolist() == [[0.5], [1.0]]


def test_the_figure_has_a_row_for_each_comparison() -> None:
    """With its name, and a line from end to end of the interval."""
    drawn = chart.forest({("small", "none"): (-0.1, -0.2, 0.0), ("small", "random@2000"): (0.1, 0.0, 0.2)})
    assert drawn.count("<circle") == 2 and "small: random<" in drawn


def test_results_under_several_budgets_are_compared_each_with_its_own_reference(tmp_path: Path) -> None:
    """What was shown nothing is compared under every budget."""
    arms = {
        "none": [0, 0],
        "adaptive@1000": [0, 1],
        "similar@1000": [1, 1],
        "adaptive@4000": [1, 1],
        "similar@4000": [1, 0],
    }
    settings = {"amounts": {"fresh": 1}, "folds": 1, "groups": {"a": "g", "b": "h"}}
    line = {"reader": "r", "seed": 0, "fold": 0, "experience": 3, "tasks": ["a", "b"], "correct": arms}
    line |= {figure: dict.fromkeys(arms, 1.0) for figure in ("tokens", "shown", "milliseconds")}
    path = tmp_path / "results.jsonl"
    path.write_text(f"{json.dumps(settings)}\n{json.dumps(line)}\n")
    effects = page.compared(part for reader in load(path).values() for part in by_budget(reader))
    assert {key: each.mean for key, each in effects.items()} == {
        ("r, 1,000 tokens", "none"): -0.5,
        ("r, 1,000 tokens", "similar@1000"): 0.5,
        ("r, 4,000 tokens", "none"): -1.0,
        ("r, 4,000 tokens", "similar@4000"): -0.5,
    }
