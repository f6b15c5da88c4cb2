"""The file of a sweep: every combination is a run, and what is wrong is one line with its place.

Figures of a sweep: means with Student's intervals, and curves that are means over the seeds.
"""

from pathlib import Path

import pytest

from pipeline.actions import run_sweep as action
from pipeline.actions.run_sweep import read_spec
from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError

GOOD = """\
base:
  optimizer: adaptive
  temperatures: [0.4, 1.0]
sweep:
  granularity: [1, 3]
  seed: [0, 1]
"""


def test_every_combination_is_a_run(tmp_path: Path) -> None:
    (path := tmp_path / "levels.yaml").write_text(GOOD)
    spec = read_spec(path)
    assert spec.name == "levels"
    assert [dict(each.values) for each in spec.combinations] == [
        {"granularity": m, "seed": seed} for m in (1, 3) for seed in (0, 1)
    ]
    assert spec.combinations[3].config == RunConfig(
        optimizer="adaptive", temperatures=(0.4, 1.0), granularity=3, seed=1
    )
    assert [each.configuration for each in spec.combinations] == ["granularity=1"] * 2 + ["granularity=3"] * 2


def test_one_value_stands_for_a_list_where_a_command_takes_one_too(tmp_path: Path) -> None:
    (path := tmp_path / "one.yaml").write_text(
        "base: {optimizer: adaptive, tasks: gemm/1, validation: mine}\nsweep: {seed: [0]}"
    )
    (only,) = read_spec(path).combinations
    assert (only.config.tasks, only.config.validation) == (("gemm/1",), ("mine",))


BAD = {
    "": "1: expected a mapping, found None",
    "base: {}": "1: sweep: this key is missing",
    "bases: {}\nsweep: {seed: [1]}": "1: bases: unknown key",
    "name: a'b\nsweep: {seed: [1]}": "1: name: expected a text of up to 200 characters without '",
    "base:\n  optimiser: none\nsweep: {seed: [1]}": "2: base: optimiser: unknown key",
    "base: {optimizer: none}\nsweep:\n  seed: 3": "3: sweep: seed: expected a list, found 3",
    "base: {optimizer: none}\nsweep:\n  seed: []": "3: sweep: seed: expected at least 1 elements, found",
    "base: {optimizer: none}\nsweep:\n  seed:\n  - 1\n  - x": "5: sweep: seed: expected a whole number of 0 or more",
    "base: {optimizer: none}\nsweep:\n  seed:\n  - 1\n  - 1": "5: sweep: seed: expected distinct values, found 1 twice",
    "base:\n  optimizer: none\n  samples: 0\nsweep: {seed: [1]}": "3: base: samples: expected a whole number",
    "base:\n  samples: 2\nsweep: {seed: [1]}": "2: base: expected a value of optimizer in `base` or `sweep`",
    "base: {optimizer: none, seed: 1}\nsweep: {seed: [1]}": "2: sweep: seed: expected it in `base` or in `sweep`",
    "base: {optimizer: none}\nsweep: {seed: [1]": ":2:18: expected YAML",
    "base: {optimizer: adaptive}\nsweep: {seed: [1]}\ncompare: {seed: 1}": "3: compare: seed: expected one of",
    "base: {optimizer: adaptive}\nsweep: {samples: [1]}\nmatch_tokens: {samples: 2}": "3: match_tokens: samples: exp",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_one_line_with_its_place(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_spec(path)
    assert str(caught.value).startswith(f"{path}:{BAD[text].removeprefix(':')}"), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.yaml: cannot read the sweep: No such file or directory$"):
        read_spec(tmp_path / "none.yaml")


def test_too_many_combinations_are_refused(tmp_path: Path) -> None:
    numbers = list(range(200))
    (path := tmp_path / "many.yaml").write_text(
        f"base: {{optimizer: none}}\nsweep: {{seed: {numbers}, samples: {numbers[1:]}}}"
    )
    with pytest.raises(UsageError, match="2: sweep: expected at most 10,000 combinations, found 39,800"):
        read_spec(path)


def test_an_interval_is_student_s() -> None:
    """As scipy's own test has it; of one run there is none."""
    from scipy.stats import ttest_1samp

    values = [3.0, 4.5, 4.0, 7.0]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    found = action.interval(values)
    assert found["mean"] == pytest.approx(4.625)
    assert (found["low"], found["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert action.interval([2.0]) == {"mean": 2.0, "low": None, "high": None}
    assert action.interval([]) == {"mean": None, "low": None, "high": None}


def test_one_test_is_student_s_and_corrected_by_holm() -> None:
    """As scipy's own test has it; of one pair, and of differences that are all one, there is none."""
    from scipy.stats import ttest_1samp

    differences = [3.0, 4.5, 4.0, -1.0]
    assert action.p_value(differences) == pytest.approx(ttest_1samp(differences, 0).pvalue)
    assert [action.p_value(each) for each in ([], [2.0], [2.0, 2.0], [0.0, 0.0])] == [None, None, None, 1.0]
    assert action.holm([0.04, None, 0.01, 0.03]) == pytest.approx([0.06, None, 0.03, 0.06])


def test_a_mean_curve_keeps_the_last_value_of_a_run_that_has_ended() -> None:
    """Between its points a run has what it had at the one before."""
    one = [{"samples": 0.0, "solved": 0.0}, {"samples": 4.0, "solved": 2.0}]
    other = [{"samples": 0.0, "solved": 0.0}, {"samples": 6.0, "solved": 4.0}]
    steps = action._mean_curve([one, other], "samples")
    assert [(x, mean) for x, mean, _, _ in steps] == [(0, 0), (4, 1), (6, 3)]
    assert all(low < mean < high for _, mean, low, high in steps[1:])


def test_runs_that_take_a_step_almost_together_take_one_step() -> None:
    """No point of the curve lies where only some of them have taken it."""
    runs = [[{"tokens": 0.0, "solved": 0.0}, {"tokens": 4_600_000.0 + late, "solved": 18.0}] for late in (0, 9, 400)]
    steps = action._mean_curve(runs, "tokens")
    assert [(x, mean) for x, mean, *_ in steps] == [(0, 0), (4_600_400, 18)]
