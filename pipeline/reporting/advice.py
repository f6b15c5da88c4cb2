"""What a task's author can do where no draft was right: what the drafts never used or reached, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optimizers import Attempt
from pipeline.base.text import counted
from pipeline.reporting.failures import Failure, nearest_failures
from pipeline.reporting.pass_rates import answer_text
from step_runtime.base.errors import STAGES
from step_runtime.base.types import Buffer, DType, STuple, components_of
from step_runtime.language.equivalence import canonical_key
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types

_SATURATED = 0.1
"""The share of new programs among the later half of the answers below which more answers are not expected to help."""


@dataclass(frozen=True)
class Advice:
    """Why a task is unsolved, as far as its drafts show, and what to change.

    Functions that no draft uses, outputs that no draft returns with their declared type, the draft that got furthest,
    and what would help, in sentences.
    """

    unused_functions: tuple[str, ...]
    unreached_outputs: tuple[str, ...]
    nearest: Failure | None
    hints: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def render(self) -> str:
        """For people, with the verdict on the nearest draft."""
        verdict = next(iter(self.nearest.feedback.splitlines()), "") if self.nearest else ""
        nearest = [f"  nearest draft fails at {self.nearest.stage}: {verdict}"] if self.nearest else []
        return "\n".join([*self.lines(), *nearest])

    def lines(self) -> list[str]:
        """Lines for people: what to do, and what no draft uses or reaches."""
        lines = [f"  to do: {hint}" for hint in self.hints]
        if self.unused_functions:
            lines.append(f"  functions that no draft uses: {', '.join(self.unused_functions)}")
        if self.unreached_outputs:
            lines.append(f"  outputs that no draft reaches: {', '.join(self.unreached_outputs)}")
        return lines


def advise(task: Task, attempts: Iterable[Attempt], missed: Sequence[str] | None = None) -> Advice:
    """Advice on an unsolved task.

    Args:
        task: The task.
        attempts: The attempts at it, in the order of sampling.
        missed: The lines of the reference none of whose values a search has made, in order; None without a search.
    """
    wrong = [attempt for attempt in attempts if attempt.scored]
    texts = [answer_text(attempt) for attempt in wrong]
    scope = static_scope(task)
    used, reached = set[str](), set[int]()
    parsed = 0
    for text in dict.fromkeys(texts):
        functions, outputs, is_program = _seen(text, scope)
        parsed += is_program
        used |= functions
        reached |= outputs
    unused = tuple(name for name in scope.fns if texts and name not in used)
    unreached = tuple(spec.name for place, spec in enumerate(task.outputs) if texts and place not in reached)
    nearest = next(iter(nearest_failures(wrong)), None)
    hints = (*_missing(scope), *_unmade(missed), *_sampling(texts, parsed), *_by_stage(nearest, unused))
    return Advice(unused, unreached, nearest, hints)


def _seen(text: str, scope: Scope) -> tuple[set[str], set[int], bool]:
    """The functions that a draft's outputs depend on, the outputs of their declared type, and whether it parses."""
    program, wrong = parse(text, scope)
    if wrong:
        return set(), set(), False
    types = infer_types(program, scope)[0]
    used = {fn.label for node in program.live_nodes() for fn in node.op.functions()}
    pairs = enumerate(zip(program.results, scope.outputs, strict=False))
    return used, {place for place, (stream, output) in pairs if types[stream] == output}, True


def _missing(scope: Scope) -> Iterator[str]:
    """What types alone rule out: a function, or an output, for which nothing gives an operand."""
    known = [part for type_ in scope.inputs.values() for part in components_of(type_.dtype)]
    left = dict(scope.fns)
    while ready := [name for name, fn in left.items() if all(_given(part, known) for part in components_of(fn.input))]:
        known += [part for name in ready for part in components_of(left.pop(name).output)]
    for name, fn in left.items():
        part = next(part for part in components_of(fn.input) if not _given(part, known))
        yield f"{name} takes {part}, which no input or function provides: add a helper function that returns it"
    for output in scope.outputs:
        for part in components_of(output.dtype):
            if not _given(part, known):
                yield f"an output consists of {part}, which no function returns: add a helper function that does"


def _unmade(missed: Sequence[str] | None) -> Iterator[str]:
    """Which steps of the reference the functions do not seem to compute."""
    if missed:
        rest = f" (nor of {counted(len(missed) - 1, 'further line')})" if len(missed) > 1 else ""
        yield (
            f"the search computed no value of this line of the reference{rest}: `{missed[0]}`. If the functions should"
            " compute it, check their arguments, dims and constants; if they take other steps, write the reference in"
            " those, as the search proceeds from one to the next"
        )
    elif missed is not None:
        yield (
            "the search computed a value of every line of the reference, but not the outputs: raise --max-minutes, or"
            " write the last lines in the steps that the functions take; a function for one of them may be missing"
        )


def _given(part: DType, known: Sequence[DType]) -> bool:
    def element(dtype: DType) -> DType:
        return dtype.elem if isinstance(dtype, Buffer) else dtype

    return any(element(part) == element(own) for own in known if not isinstance(own, STuple))


def _sampling(texts: Sequence[str], parsed: int) -> Iterator[str]:
    """Whether more samples would help, by how often the later half of the answers is a new program."""
    if not texts:
        yield "the LM gave no answer in its share of the time: raise --max-minutes"
        return
    keys = [canonical_key(text) for text in texts]
    half = len(keys) // 2
    new = len(set(keys[half:]) - set(keys[:half])) / max(len(keys) - half, 1)
    if not parsed:
        yield (
            "no draft is a program: the proposer finds no way from the functions to the outputs. A helper function for"
            " a step of the reference that none computes would help, or a similar solved task among those that a"
            " program is compiled on; a larger --samples would not"
        )
    elif new > _SATURATED:
        yield f"{new:.0%} of the later answers are new programs: a larger --samples may help"
    else:
        yield f"the later answers repeat earlier ones ({len(set(keys))} programs): a larger --samples will not help"


def _by_stage(nearest: Failure | None, unused: Sequence[str]) -> Iterator[str]:
    if nearest is None:
        return
    if unused:
        names = ", ".join(unused)
        yield (
            f"write the reference so that the use of {names} can be recognized in it, or split these functions into"
            " helpers of one step each; remove functions that the operator does not need"
        )
    elif STAGES.index("run") <= STAGES.index(nearest.stage):
        yield (
            "every function is used, but not as the reference requires: a helper function that combines two steps"
            " leaves fewer ways to go wrong, and a program compiled on a similar solved task (--program) has an example"
        )
