"""Advice on an unsolved task: the nearest failure, what a search never reached, and changes that may help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optimizers import Attempt
from pipeline.base.settings import ProposerKind
from pipeline.base.text import counted
from pipeline.record.task_table import failed_at
from pipeline.reporting.failures import Failure, nearest_failures
from pipeline.reporting.pass_rates import answer_text
from pipeline.splitting.split_search import SplitOutcome
from pipeline.synthesis.search_budget import SearchOutcome
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task


@dataclass(frozen=True)
class Advice:
    """The nearest failure, functions that no answer uses, and what would help, in sentences."""

    nearest: Failure | None
    unused_functions: tuple[str, ...]
    hints: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Lines for people: what would help, then the functions that no answer uses."""
        unused = (
            [f"  functions that no answer uses: {', '.join(self.unused_functions)}"] if self.unused_functions else []
        )
        return [*(f"  to do: {hint}" for hint in self.hints), *unused]

    def render(self) -> str:
        """For people, with the verdict on the nearest failure."""
        verdict = next(iter(self.nearest.feedback.splitlines()), "") if self.nearest else ""
        nearest = [f"  nearest answer fails at {self.nearest.stage}: {verdict}"] if self.nearest else []
        return "\n".join([*self.lines(), *nearest])


def advise(
    task: Task,
    attempts: Sequence[Attempt],
    proposer: ProposerKind | None = None,
    search: SearchOutcome | None = None,
    split: SplitOutcome | None = None,
) -> Advice:
    """Advice on an unsolved task, after what was tried; `proposer` is None for the embedded LM."""
    wrong = [attempt for attempt in attempts if attempt.scored]
    unused = set(static_scope(task).fns) if wrong else set()
    for text in dict.fromkeys(map(answer_text, wrong)):
        program, faults = parse(text, static_scope(task))
        unused -= {fn.label for node in program.live_nodes() for fn in node.op.functions()} if not faults else set()
    unknown = [*_unjudged(attempts)]
    sampled = () if proposer is None or (unknown and not wrong) else _of_lm(wrong, proposer)
    hints = (*_searched(search, split), *sampled, *unknown)
    nearest = next(iter(nearest_failures(wrong)), None)
    return Advice(nearest, tuple(name for name in static_scope(task).fns if name in unused), hints)


def _searched(search: SearchOutcome | None, split: SplitOutcome | None) -> Iterator[str]:
    """What a search of the parts, or else of the whole, did not reach first."""
    if split is not None and split.slow:
        yield f"{'; '.join(split.slow)}: a search calls functions thousands of times, so make these faster"
    if split is not None and split.obstacle:
        yield (
            f"the search by parts found no program of {split.obstacle}. If the functions should compute it, check their"
            " arguments, dims and constants; else add one that does, or write this line in the steps that they take"
        )
    elif search is not None and search.missed:
        first, *others = search.missed
        rest = f" (nor of {counted(len(others), 'further line')})" if others else ""
        yield (
            f"the search computed no value of this line of the reference{rest}: `{first}`. If the functions should"
            " compute it, check their arguments, dims and constants; if they take other steps, write the reference in"
            " those, as the search proceeds from one to the next"
        )
    elif search is not None and search.reason == "exhausted":
        yield (
            "the search computed a value of every line of the reference, but not the outputs, and has tried all within"
            " reach, so that more time does not help: a function for one of the last steps is missing, such as one"
            " that transposes (docs/cookbook/transpose.md)"
        )
    elif search is not None:
        yield (
            "the search computed a value of every line of the reference, but not the outputs: raise --max-minutes, or"
            " write the last lines in the steps that the functions take; a function for one of them may be missing"
        )


def _of_lm(wrong: Sequence[Attempt], proposer: ProposerKind) -> Iterator[str]:
    """What may help an LM whose answers fail so."""
    if not wrong:
        yield "the LM gave no answer: its server, the limits of the run and --max-tokens decide that"
        return
    stages: Counter[str] = Counter(map(failed_at, wrong))
    truncated = sum(any(count.truncated for count in attempt.tokens.values()) for attempt in wrong)
    unwritten = stages["parse"] + stages["type"]
    if 2 * truncated >= len(wrong):
        yield "most answers were cut off: raise --max-tokens, or use `--proposer typed`, whose lines are short"
    elif 2 * unwritten >= len(wrong) and proposer != "typed":
        yield (
            "the LM does not write the language well: `--proposer typed` has it choose each line among those that types"
            " allow, and `--prompt short` leaves more room in a small context"
        )
    elif 2 * stages["parse"] >= len(wrong):
        yield "most answers were none of the lines: use a server that holds an LM to them, by a grammar or JSON schema"
    elif 2 * stages["affine"] >= len(wrong):
        yield "most answers lack Copies only: `--guardian compiler` inserts them without a request"
    else:
        yield (
            "the LM writes programs that compute something else: give it more to learn from (--samples, an"
            " --experience of similar tasks), `--refine 2` to have it repair the verifier's findings, or a larger model"
        )


def _unjudged(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Answers that count neither as right nor as wrong, and how to judge them."""
    unknown = [attempt for attempt in attempts if attempt.unknown]
    codes = Counter(code for attempt in unknown for code in attempt.feedback.get("codes", ()))
    if unknown:
        yield (
            f"the verdict on {len(unknown)} of {counted(len(attempts), 'answer')} is unknown ({', '.join(codes)}):"
            " `pipeline.verify --limit-seconds` judges such a program within a larger limit;"
            " a function of the task may be at fault"
        )
