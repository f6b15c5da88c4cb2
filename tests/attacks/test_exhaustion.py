"""What a program's text can exhaust in the user's own process holds these:

- tuples that double are refused by their number of components, at once;
- feedback is bounded, of each finding and of all.
"""

import time

import pytest

from step_runtime.base.errors import Diagnostic
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.verify import Verdict, verify

TASK = """
inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}]
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0']"]}]
"""


def doubling(times: int) -> str:
    """Zips whose tuples have twice the components of the last."""
    lines = []
    for number in range(times):
        source = f"E{number}"
        lines.append(f"A{number}, B{number} = step.Copy().apply({source})")
        lines.append(f"E{number + 1} = step.Zip().apply((A{number}, B{number}))")
    return "\n".join([*lines, f"return E{times}"])


@pytest.mark.parametrize("times", [7, 16, 40, 200])
def test_tuples_that_double_are_refused_at_once(times: int) -> None:
    """By the number of components, at the line that has one too many; a few doublings are a matter of types."""
    start = time.monotonic()
    verdict = verify(loads_task(TASK), doubling(times))
    assert time.monotonic() - start < 10
    assert (verdict.stage, verdict.diagnostics[0].code) == ("limits", "components")
    assert verdict.diagnostics[0].span is not None
    assert len(verdict.render(doubling(times))) < 1000
    assert verify(loads_task(TASK), doubling(6)).stage == "shape"


def test_feedback_is_bounded() -> None:
    """Of each finding, and of all; that of a few short ones is whole."""
    long = Diagnostic("type", "x", "m" * 10**6, details=("d" * 10**6,) * 2, hint="h")
    assert len(long.render("")) < 10_000
    many = Verdict(False, "type", (Diagnostic("type", "x", "m" * 100),) * 10_000)
    assert len(many.render("")) < 25_000
    assert "more findings" in many.render("")
    assert Verdict(False, "type", (Diagnostic("type", "x", "short"),) * 3).render("", "t") == "\n".join(
        ["t: x: short"] * 3
    )
