"""What a task's author should know when the file is loaded.

Invariants: a file whose verdicts are worth less than they seem loads with a warning that says why; one whose verdicts
are sound loads without. What is an error is tested in `test_validation`.
"""

import warnings
from pathlib import Path

import pytest
import torch

from step_runtime import load_task
from tests.support.samples import MINIMAL

CONSTANT = "output S0 does not depend on the inputs at M=5, N=7: any constant would pass"
TOLERANCE = "output S0 changes with the inputs by less than the comparison's tolerance at M=5, N=7: a constant"
RANDOM = "reference of output S0 uses random numbers"


def warned(tmp_path: Path, text: str) -> list[str]:
    """The warnings on loading a file, without its path."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_task(path)
    return [str(warning.message).removeprefix(f"{path}: ") for warning in caught]


@pytest.mark.parametrize(
    ("reference", "quoted"),
    [
        ("torch.ones(N_value)", CONSTANT),
        ("(input_data['E0'] * 0).sum(1)", CONSTANT),
        ("(input_data['E0'] * 1e-9).sum(1)", TOLERANCE),
        ("input_data['E0'].prod(1) * 1e-8", TOLERANCE),
        ("3 + (input_data['E0'] * 1e-9).sum(1)", TOLERANCE),
        ("input_data['E0'].sum(1) * float('nan')", "output S0 is NaN throughout at M=5, N=7 for every input"),
    ],
)
def test_a_reference_that_a_constant_matches_is_reported(reference: str, quoted: str, tmp_path: Path) -> None:
    """At each set of sizes, whether its numbers are all the same or the comparison does not tell them apart."""
    found = warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference))
    assert len(found) == 2
    assert found[0].startswith(quoted)


def test_a_reference_that_is_nan_for_some_inputs_is_reported(tmp_path: Path) -> None:
    """A pattern of NaN that all inputs share is the author's own, see the next test."""
    reference = "input_data['E0'].sum(1) * torch.where(input_data['E0'][:, 0] > 0.5, 1, float('nan'))"
    [found, *_] = warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference))
    assert found.startswith("output S0 is NaN for some inputs, in ") and "7 numbers at M=5, N=7" in found


@pytest.mark.parametrize(
    "reference",
    [
        "input_data['E0'].sum(1)",
        "input_data['E0'].sum(1) * 1e-5",
        "(input_data['E0'].sum(1) > 2.5).double()",
        "input_data['E0'].sum(1).cumsum(0).where(torch.arange(N_value) > 1, float('nan'))",
    ],
)
def test_a_reference_that_tells_inputs_apart_is_not(reference: str, tmp_path: Path) -> None:
    """However small its numbers, and wherever they are none."""
    assert warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference)) == []


@pytest.mark.parametrize(
    "reference", ["input_data['E0'].sum(1) + torch.randn(N_value)", "input_data['E0'].bernoulli().sum(1)"]
)
def test_a_random_reference_is_reported(reference: str, tmp_path: Path) -> None:
    """No program computes what it gives."""
    (found,) = warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference))
    assert found.startswith(RANDOM)


@pytest.mark.parametrize(
    "reference", ["torch.manual_seed(5); input_data['E0'].sum(1)", "torch.randn(3); input_data['E0'].sum(1)"]
)
def test_a_reference_that_only_touches_the_generator_is_not_random(reference: str, tmp_path: Path) -> None:
    """Its value is the same whatever is drawn."""
    assert warned(tmp_path, MINIMAL.replace("input_data['E0'].sum(1)", reference)) == []


def test_weights_that_global_draws_are_no_random_reference(tmp_path: Path) -> None:
    """They are the same for the reference and for the functions."""
    text = f"global: W = torch.randn(N_value)\n{MINIMAL}".replace(
        "input_data['E0'].sum(1)", "input_data['E0'].sum(1) + W"
    )
    assert warned(tmp_path, text) == []


DRAWN = {
    "import random": "random.random()",
    "import numpy": "numpy.random.rand()",
    "import time": "time.time_ns() % 1_000_003",
    "import itertools; counter = itertools.count()": "next(counter)",
    "import itertools; coin = itertools.cycle([1, 1, 1, 0])": "next(coin)",
    "import random; x = random.random()": "x",
}


@pytest.mark.parametrize("drawn", DRAWN)
def test_random_numbers_from_anywhere_are_reported(drawn: str, tmp_path: Path) -> None:
    """A reference runs again on the same inputs, and once more after `global` has run again."""
    text = f"global: {drawn}\n{MINIMAL}".replace("input_data['E0'].sum(1)", f"input_data['E0'].sum(1) + {DRAWN[drawn]}")
    (found,) = warned(tmp_path, text)
    assert found.startswith("reference of output S0 gives other values for the same inputs when ")


SIZES = {
    "sizes: {M: 6, N: 6}": [
        "M and N are both 6 at every set of sizes: a program that takes one for the other may pass"
    ],
    "sizes: {M: [6, 4], N: [6, 4]}": [
        "M and N are both 6 and 4 at every set of sizes: a program that takes one for the other may pass"
    ],
    "sizes: {M: [6, 4], N: [6, 5]}": [],
    "sizes: {M: 6, N: 3}": [],
    "sizes: {K: [5, 6], D: 3}": [],
    "sizes: {E: [5, 6]}": [],
    "global: ctx[N] = M_value": [
        "M and N are both 5 and 6 at every set of sizes: a program that takes one for the other may pass"
    ],
    "global: ctx[N] = ctx[M] + 1": [],
}


@pytest.mark.parametrize("given", SIZES)
def test_sizes_that_distinguish_too_little_are_reported(given: str, tmp_path: Path) -> None:
    """Two dims in use that are alike in every set, as `global` leaves them."""
    alike = [text for text in warned(tmp_path, f"{MINIMAL}{given}\n") if "takes one for the other" in text]
    assert alike == SIZES[given]


def test_dims_of_functions_count_as_used(tmp_path: Path) -> None:
    """A function's type may be where two dims meet."""
    text = MINIMAL.replace("input_dtype: fp32", 'input_dtype: "Buffer(fp32, [K])"').replace(
        "input[0]]", "input[0].sum()]"
    )
    (found,) = warned(tmp_path, f"{text}sizes: {{M: [5, 6], K: [5, 6]}}\n")
    assert found.startswith("K and M are both 5 and 6 at every set of sizes")


def test_checks_of_a_task_cost_few_runs_of_its_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that tells two inputs apart, at sizes that are fixed, is run less than ten times in all.

    Where the data is small, once more for either end of each dim, once for what these are compared with, and four times
    to see whether it repeats its values.
    """
    monkeypatch.setattr("torch.runs", [], raising=False)
    text = MINIMAL.replace("input_data['E0'].sum(1)", "torch.runs.append(1); input_data['E0'].sum(1)")
    warned(tmp_path, f"{text}sizes: {{M: 60, N: 70}}\n")
    assert 0 < len(vars(torch)["runs"]) < 10 + 2 * 2 + 1 + 4
    vars(torch)["runs"].clear()
    warned(tmp_path, f"{text}sizes: {{M: 1500, N: 700}}\n")
    assert 0 < len(vars(torch)["runs"]) < 10


@pytest.mark.parametrize(
    ("comment", "accepts"), [("", False), ("  # accepted: equal-dims, fixed-dim", True), ("  # accepted: x", False)]
)
def test_a_warning_is_accepted_by_a_comment_on_its_line(comment: str, accepts: bool, tmp_path: Path) -> None:
    """By its code; others are given."""
    found = warned(tmp_path, f"{MINIMAL}sizes: {{M: [6, 4], N: 3}}{comment}\n")
    assert len(found) == (0 if accepts else 1) and all("N is 3 at every set of sizes" in message for message in found)
