"""Verdicts as large as real ones, without the work."""

from __future__ import annotations

from step_runtime.base.errors import Diagnostic
from step_runtime.verification.verify import Verdict


def simulated(number: int, text: str) -> Verdict:
    """The verdict on a text that is wrong."""
    finding = Diagnostic("value", "value-mismatch", f"output S0 differs at {number}", None, (text,), "simulated")
    return Verdict(False, "value", (finding,))
