"""A run's solutions judged once more, at sizes and inputs drawn from its seed, as `HeldOutTask` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Literal

from optimizers.domain import Claims, HeldOutVerdict, HoldOut
from pipeline.base.errors import ClusterUnavailable
from pipeline.base.text import counted, one_line
from pipeline.languages import registry
from pipeline.verification.judge import hold_out as judge
from pipeline.verification.limits import SECONDS, verification_settings
from pipeline.verification.pool import PoolSettings, WorkerLost, Workers
from step_runtime.base.errors import TaskError
from step_runtime.verification.verdict import Verdict

_SECONDS = 4 * SECONDS
"""Processor time of one call: a program is run at several sets of sizes, on stress inputs, and proved."""
_A_WORKER = 4
"""Programs for which a further worker is worth its start, which takes as long as to judge some."""


def holding_out(
    workers: Workers,
    seed: int,
    language: str | None,
    tell: Callable[[str], None] = lambda line: None,
    executor: Executor | None = None,
) -> HoldOut | None:
    """The held-out judge of a domain's answers; None for a language without one.

    Args:
        workers: Where programs are judged in a pool of their own: those that take longer than the executor allows.
        seed: The run's, from which sizes and inputs are drawn.
        language: Of the programs; None for the default.
        tell: Is given a message before programs are judged.
        executor: The run's, whose processes know the tasks already, with `run_settings`; None for the pool alone.
    """
    if language is not None and not registry.find(language).holds_out:
        return None

    def asked(executor: Executor, claims: Claims, *, last: bool) -> list[HeldOutVerdict | None]:
        futures = [
            executor.submit(judge, example.task.name, example.task.statement, str(outputs["impl"]), seed, language)
            for example, outputs in claims
        ]
        return [_verdict(future, last) for future in futures]

    def hold_out(solutions: Claims, refused: Claims) -> Sequence[HeldOutVerdict | None]:
        claims = [*solutions, *refused]
        if solutions:
            tell(f"{counted(len(solutions), 'solution')} judged once more, at sizes and inputs that were never used")
        found = asked(executor, claims, last=False) if executor is not None else [None] * len(claims)
        left = [number for number, verdict in enumerate(found) if verdict is None]
        if left:
            most = -(-len(left) // _A_WORKER)
            with workers.pool(verification_settings(_SECONDS, language=language, proving=True), most) as pool:
                again = asked(pool, [claims[number] for number in left], last=True)
            found = [again.pop(0) if verdict is None else verdict for verdict in found]
        return found

    return hold_out


def run_settings(language: str | None) -> PoolSettings:
    """The settings of the workers of a run, which judge its answers, and its solutions once more."""
    return verification_settings(language=language, proving=language is None)


def _verdict(future: Future[Any], last: bool) -> HeldOutVerdict | None:
    """What a worker found; None where it had too little time, and this was not the last try."""
    try:
        found: Verdict = future.result()
    except WorkerLost as error:
        if error.code == "time-limit" and not last:
            return None
        return HeldOutVerdict("unknown", f"verification {error}")
    except (TaskError, ClusterUnavailable) as error:
        return HeldOutVerdict("unknown", one_line(str(error)))
    proof = found.exact
    exact = {"exact": {"answer": proof.answer, "reason": proof.reason, "sizes": list(proof.sizes)}} if proof else {}
    warnings = [": ".join([each.code, each.message]) for each in found.warnings]
    details = {**exact, "warnings": warnings, "sizes": list(found.held_out), "seconds": round(found.seconds, 3)}
    answer: Literal["passed", "failed", "unknown"]
    answer = "passed" if found.passed else "unknown" if found.unknown else "failed"
    return HeldOutVerdict(answer, one_line(found.reason), details)
