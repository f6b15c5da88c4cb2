"""A run's solutions judged once more, at sizes and inputs drawn from its seed, as `HeldOutTask` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from optimizers.held_out import Claims, HeldOutVerdict, HoldOut
from pipeline.base.errors import ClusterUnavailable
from pipeline.base.text import counted, visible
from pipeline.languages import registry
from pipeline.verification.judging import call_of
from pipeline.verification.limits import SECONDS, proving_settings
from pipeline.verification.pool import WorkerLost
from pipeline.verification.workers import Workers
from step_runtime.base.errors import TaskError
from step_runtime.verification.held_out import HeldOut

_SECONDS = 4 * SECONDS
"""Processor time of one call: a program is run at several sets of sizes, on stress inputs, and proved."""
_A_WORKER = 4
"""Programs for which a further worker is worth its start, which takes as long as to judge some."""
_LONGEST = 300
"""Characters of a reason."""


def holding_out(
    workers: Workers, seed: int, language: str | None, tell: Callable[[str], None] = lambda line: None
) -> HoldOut | None:
    """The held-out judge of a domain's answers; None for a language without one.

    Args:
        workers: Where programs are judged, in a pool of their own, as its processes import what proves.
        seed: The run's, from which sizes and inputs are drawn.
        language: Of the programs; None for the default.
        tell: Is given a message before programs are judged.
    """
    called = call_of(registry.find(language), "hold_out")
    if called is None:
        return None
    judge, arguments = called

    def hold_out(solutions: Claims, refused: Claims) -> Sequence[HeldOutVerdict | None]:
        claims = [*solutions, *refused]
        if not claims:
            return []
        if solutions:
            tell(f"{counted(len(solutions), 'solution')} judged once more, at sizes and inputs that were never used")
        most = -(-len(claims) // _A_WORKER)
        with workers.pool(proving_settings(_SECONDS, language=language), most) as pool:
            futures = [
                pool.submit(judge, example.task.name, example.task.statement, str(outputs["impl"]), seed, *arguments)
                for example, outputs in claims
            ]
            return [_verdict(future) for future in futures]

    return hold_out


def _verdict(future: Future[Any]) -> HeldOutVerdict:
    """What a worker found."""
    try:
        found = future.result()
    except WorkerLost as error:
        return HeldOutVerdict("unknown", f"verification {error}")
    except (TaskError, ClusterUnavailable) as error:
        return HeldOutVerdict("unknown", _line(str(error)))
    if not isinstance(found, HeldOut):
        return HeldOutVerdict("unknown", "verification answered with something else than a verdict")
    proof = found.exact
    exact = {"exact": {"answer": proof.answer, "reason": proof.reason, "sizes": list(proof.sizes)}} if proof else {}
    warnings = [": ".join([each.code, each.message]) for each in found.warnings]
    details = {**exact, "warnings": warnings, "sizes": list(found.sizes), "seconds": round(found.seconds, 3)}
    return HeldOutVerdict(found.answer, _line(found.reason), details)


def _line(text: str) -> str:
    shown = visible(" ".join(text.split()), line=True)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
