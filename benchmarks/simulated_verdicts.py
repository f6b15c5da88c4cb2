"""Verdicts for measurements of pools: as large as real ones without the work, and real ones without memory."""

import functools

from step_runtime.base.errors import Diagnostic
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.verdict import Verdict
from step_runtime.verification.verify import Verifier


def simulated(number: int, text: str) -> Verdict:
    """The verdict on a text that is wrong."""
    finding = Diagnostic("value", "value-mismatch", f"output S0 differs at {number}", None, (text,), "simulated")
    return Verdict(passed=False, stage="value", diagnostics=(finding,))


def judge_uncached(name: str, content: str, text: str) -> Verdict:
    """The verdict on a text by a warm verifier that remembers no result."""
    return _verifier(name, content).verify(text)


@functools.cache
def _verifier(name: str, content: str) -> Verifier:
    return Verifier(loads_task(content, name), remember=False)
