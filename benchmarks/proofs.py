"""What exact arithmetic proves: the oracles of all sets, the near-misses, and mutants that floats refuse.

The share of proved oracles, the reason for each other one and the processor time of a second proof in the same process,
by set. No near-miss and no refused mutant may be proved at the sizes at which it is refused.

How to run: python -m benchmarks.proofs
            python -m benchmarks.proofs --sets tasks-field --only kalman_filter --mutants 20
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from step_runtime import Task, Verifier
from step_runtime.language.parser import read
from step_runtime.verification.exact.proof import Prover
from step_runtime.verification.exact.trace import prepare
from step_runtime.verification.verdict import ExactVerdict
from tests.support.mutants import changed
from tests.support.oracles import SETS, programs


@dataclass(frozen=True)
class Proof:
    """The answer on one oracle, and the seconds of processor time of the first and of a further proof."""

    folder: str
    name: str
    verdict: ExactVerdict | None
    first: float
    warm: float


def proof(folder: str, name: str, task: Task, text: str) -> Proof:
    """Two proofs of one oracle with the same references."""
    verifier = Verifier(task)
    seconds = []
    for _ in range(2):
        start = time.process_time()
        verdict = verifier.exact(text)
        seconds.append(time.process_time() - start)
    return Proof(folder, name, verdict, *seconds)


def proved_although_wrong(task: Task, text: str) -> list[str]:
    """The sizes at which a wrong program is refused, but proved."""
    verifier = Verifier(task)
    found = []
    for instance in verifier._instances:
        checked = verifier._check(read(text, verifier.limits), instance)
        if checked.found or Prover(instance).prove(checked.program, checked.types).answer != "proved":
            continue
        if verifier._run_all([instance], [checked], (0, 1)) is not None:
            found.append(instance.place)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Prints each proof, the table by set, and every wrong program that is proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--only", nargs="*", default=(), help="tasks")
    parser.add_argument("--mutants", type=int, default=0, help="refused mutants of each oracle that are compared too")
    parser.add_argument("--near-misses", action="store_true", help="compare the near-misses too")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    prepare()
    proofs, wrong, refused = [], [], 0
    for folder in options.sets:
        for name, task, text in programs(folder, "oracles"):
            if options.only and not {name, Path(name).name} & set(options.only):
                continue
            found = proof(folder, name, task, text)
            proofs.append(found)
            answer = "not passed"
            if found.verdict:
                answer = found.verdict.answer if found.verdict.answer == "proved" else found.verdict.render()
            print(f"{folder}/{name} {found.first:.2f} s {found.warm * 1000:.0f} ms {answer}", flush=True)
            texts = [(name, each) for each in _refused(task, text, options.mutants)]
            refused += len(texts)
            wrong += [(where, each) for where, each in texts if proved_although_wrong(task, each)]
        for name, task, text in programs(folder, "near-misses") if options.near_misses else ():
            refused += 1
            wrong += [(name, text)] if proved_although_wrong(task, text) else []
    for folder in options.sets:
        own = [one for one in proofs if one.folder == folder]
        if own:
            counts = Counter(one.verdict.answer if one.verdict else "not passed" for one in own)
            median = statistics.median(one.warm for one in own) * 1000
            print(f"{folder:14} {len(own):3} oracles, {dict(counts)}, warm median {median:.0f} ms")
    if proofs:
        share = sum(one.verdict is not None and one.verdict.answer == "proved" for one in proofs) / len(proofs)
        print(
            f"proved {share:.1%} of {len(proofs)}, warm {statistics.median(one.warm for one in proofs) * 1000:.0f} ms"
        )
    print(f"{refused} wrong programs, {len(wrong)} proved", *(f"{name}:\n{text}" for name, text in wrong), sep="\n")
    return int(bool(wrong))


def _refused(task: Task, text: str, count: int) -> list[str]:
    """The first mutants of an oracle whose values are wrong."""
    found: list[str] = []
    verifier = Verifier(task)
    for mutant in changed(task, text, 0.5) if count else ():
        if len(found) == count:
            break
        if verifier.verify(mutant.text).stage == "value":
            found.append(mutant.text)
    return found


if __name__ == "__main__":
    sys.exit(main())
