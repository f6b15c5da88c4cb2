"""Single-edit mutants of the oracles and texts that alias streams, with their truth and the verifier's verdict.

The truth of a program is found without the parser, the simulator and the verifier (see `tests.support.truth`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from step_runtime.tasks.task import Task
from step_runtime.verification.instance import instances
from step_runtime.verification.verify import Verifier
from tests.support.aliases import aliased
from tests.support.edits import Mutant, mutants
from tests.support.truth import SEEDS, Truth, run_text


@dataclass(frozen=True)
class Judged:
    """A mutant, what is wrong with it, and the stage at which the verifier refused it; None for nothing."""

    task: str
    mutant: Mutant
    fault: str | None
    stage: str | None

    @property
    def agrees(self) -> bool:
        """Whether the verifier accepts it just when it is right."""
        return (self.fault is None) == (self.stage is None)


def changed(task: Task, text: str, share: float = 1.0) -> list[Mutant]:
    """The single-edit mutants of an oracle and its aliased texts, or a share of them: the same ones every time."""
    scope = instances(task)[0].scope
    program, _ = run_text(text, scope)
    made = [*mutants(program, scope), *(mutant for mutant, _ in aliased(program, each=share == 1.0))]
    return [mutant for mutant in made if _place(task, mutant) < share]


def _place(task: Task, mutant: Mutant) -> float:
    return int.from_bytes(sha256(f"{task.name}\n{mutant.text}".encode()).digest()[:4]) / 2**32


def judged(task: Task, found: Sequence[Mutant], seeds: Sequence[int] = SEEDS) -> Iterator[Judged]:
    """Truth and verdict of each mutant."""
    truth, verifier = Truth(task, seeds), Verifier(task)
    for mutant in found:
        yield Judged(task.name, mutant, truth.fault(mutant.text), verifier.verify(mutant.text).stage)


def table(rows: Sequence[Judged]) -> str:
    """The confusion table, by kind of edit, with the stages that refused."""
    lines = [f"{'':40} {'right':>17} {'wrong':>17}", f"{'':40} {'accepted rejected':>17} {'accepted rejected':>17}"]
    kinds = dict.fromkeys(row.mutant.kind.partition(":")[0] for row in rows)
    for kind in [*kinds, ""]:
        own = [row for row in rows if row.mutant.kind.partition(":")[0] == kind or not kind]
        counts = Counter((row.fault is None, row.stage is None) for row in own)
        cells = [counts[right, accepted] for right in (True, False) for accepted in (True, False)]
        lines.append(f"{kind or 'all':40} " + " ".join(f"{cell:8}" for cell in cells))
    for title, counted in (
        ("truth", Counter(row.fault for row in rows)),
        ("verdict", Counter(row.stage for row in rows)),
    ):
        lines.append(f"{title}: " + ", ".join(f"{name or 'right'} {count}" for name, count in counted.most_common()))
    return "\n".join(lines)
