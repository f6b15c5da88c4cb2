"""How sharply a task tells its right program from others: mutants that its sizes, inputs and tolerances fail to kill.

A mutant is the program with one edit. Of those that pass, some are the same function, which exact arithmetic proves.
Each of the others is judged on what the task does not try; what kills it there is the change that the task needs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256

from step_runtime.language.parser import parse
from step_runtime.verification.edits import Mutant, mutants
from step_runtime.verification.held_out import ANOTHER_INPUT, EXACT, STRESS, HeldOutTask
from step_runtime.verification.verify import Verifier

MOST = 400
"""Mutants of a program, those first by the hash of their text."""
SECONDS = 60.0
"""Wall time after which no further mutant is judged."""
_UNKILLED = "they may be the same function, or differ by less than the tolerance"
_CHANGES = {
    ANOTHER_INPUT: "another seed: its inputs are too few, or too much alike; give them more numbers",
    STRESS: "`stress: true`, or a `data_gen` with other magnitudes and signs",
    EXACT: "a `data_gen` with other magnitudes and signs",
}


@dataclass(frozen=True)
class Survivor:
    """A mutant that passes, and is not proved to be the same function.

    Attributes:
        kind: Of the edit.
        text: The mutant.
        change: To the task, that kills it; empty where nothing that was tried does.
        reason: Its error there, or the reason that no proof makes it the same function.
    """

    kind: str
    text: str
    change: str = ""
    reason: str = ""


@dataclass(frozen=True)
class MutationScore:
    """What became of a program's mutants.

    Attributes:
        made: Mutants that were judged.
        killed: Those that fail.
        same: Those that pass, and are proved to be the same function.
        unknown: Those that a limit ended.
        survivors: The others.
        left: Mutants that were not judged, as time was up or there are too many.
    """

    made: int
    killed: int
    same: int
    unknown: int
    survivors: tuple[Survivor, ...]
    left: int = 0

    @property
    def score(self) -> float:
        """The share of killed mutants, of those that are another function; 1 without any."""
        others = self.killed + len(self.survivors)
        return self.killed / others if others else 1.0

    def render(self) -> str:
        """The score, and the survivors by the change that kills them, for people."""
        counts = [f"{self.killed} of {self.killed + len(self.survivors)} mutants killed"]
        counts += [f"{self.same} more are the same function"] if self.same else []
        counts += [f"{self.unknown} unknown"] if self.unknown else []
        counts += [f"{self.left} not judged"] if self.left else []
        lines = [f"mutants: {', '.join(counts)}"]
        for change in dict.fromkeys(each.change for each in self.survivors):
            own = [each for each in self.survivors if each.change == change]
            killer = f"killed by {change}" if change else f"nothing that was tried kills them: {_UNKILLED}"
            lines.append(f"  {len(own)} survive; {killer}")
            for each in own[:3]:
                lines += [f"    {each.kind}:", *(f"      {line}" for line in each.text.strip().splitlines())]
                lines += [f"      {each.reason}"] if each.reason else []
        return "\n".join(lines)


def mutation_score(text: str, verifier: Verifier, held: HeldOutTask) -> MutationScore:
    """What becomes of the mutants of a program that passes.

    Args:
        text: The program.
        verifier: Of its task; it judges the mutants.
        held: The task on what it does not try.

    Raises:
        TaskError: The task cannot be used.
    """
    scope = verifier.scopes[0]
    program, wrong = parse(text, scope, verifier.limits)
    found = [] if wrong else sorted(mutants(program, scope), key=_place)
    end, passed = time.monotonic() + SECONDS, list[Mutant]()
    killed = unknown = same = judged = 0
    for mutant in found[:MOST]:
        if time.monotonic() > end:
            break
        verdict = verifier.verify(mutant.text)
        judged += 1
        killed += not verdict.passed and not verdict.unknown
        unknown += verdict.unknown
        if verdict.passed:
            passed.append(mutant)
    survivors = []
    for mutant in passed:
        beyond = held.judge(mutant.text)
        if beyond.answer == "passed" and beyond.exact is not None and beyond.exact.answer == "proved":
            same += 1
        elif beyond.answer == "unknown":
            unknown += 1
        else:
            reason = beyond.reason or (f"not proved: {beyond.exact.reason}" if beyond.exact else "")
            survivors.append(Survivor(mutant.kind, mutant.text, _change(beyond.found_at), reason))
    return MutationScore(judged, killed, same, unknown, tuple(survivors), len(found) - judged)


def _place(mutant: Mutant) -> bytes:
    return sha256(mutant.text.encode()).digest()


def _change(found_at: str) -> str:
    """What to change in a task, by what showed that a mutant fails."""
    if found_at in _CHANGES or not found_at:
        return _CHANGES.get(found_at, "")
    kind, _, place = found_at.partition(": ")
    why = {"primes": "primes", "equal": "equal dims", "free": "sizes without a shared divisor or order"}[kind]
    return f"`sizes` with {place}: {why}"
