"""Advice on an unsolved task: parts that no draft used or reached, and changes that may help."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from sympy import Expr

from optimizers import Attempt
from pipeline.base.choices import ProposerKind
from pipeline.base.text import counted
from pipeline.record.task_table import failed_at
from pipeline.reporting.failures import Failure, nearest_failures
from pipeline.reporting.pass_rates import answer_text
from step_runtime.base.errors import STAGES
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Buffer, DType, Multihot, STuple, components_of
from step_runtime.language.canonical import canonical_key
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types

_SATURATED = 0.1
"""The share of new programs among the later half of the answers below which more answers are not expected to help."""


@dataclass(frozen=True)
class Advice:
    """The likely reasons why a task is unsolved, and changes that may help.

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
        """Lines for people: advice, and the parts that no draft uses or reaches."""
        lines = [f"  to do: {hint}" for hint in self.hints]
        if self.unused_functions:
            lines.append(f"  functions that no draft uses: {', '.join(self.unused_functions)}")
        if self.unreached_outputs:
            lines.append(f"  outputs that no draft reaches: {', '.join(self.unreached_outputs)}")
        return lines


def advise(
    task: Task,
    attempts: Iterable[Attempt] | None,
    missed: Sequence[str] | None = None,
    *,
    exhausted: bool = False,
    proposer: ProposerKind | None = None,
) -> Advice:
    """Advice on an unsolved task.

    Args:
        task: The task.
        attempts: The attempts at it, in the order of sampling; None if no LM was asked.
        missed: The lines of the reference none of whose values a search has made, in order; None without a search.
        exhausted: Whether the search has tried all that it can reach, so that time helps no further.
        proposer: How an LM was asked for the attempts; None for the embedded LM, whose answers show what the task
            lacks. Those of others first of all show how well the LM writes the language.
    """
    tried = [*(attempts or ())]
    wrong = [attempt for attempt in tried if attempt.scored]
    unknown = [attempt for attempt in tried if attempt.unknown]
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
    beyond = [*_reordered(task, scope), *_loops(task)]
    searched = [] if beyond and not missed else [*_unmade(missed, exhausted=exhausted)]
    sampled: tuple[str, ...] = ()
    if attempts is not None and proposer is None:
        sampled = (*_sampling(texts, parsed), *_by_stage(nearest, unused))
    elif proposer is not None:
        sampled = (*_of_lm(wrong, proposer), *_hidden(texts, scope))
    if unknown:
        sampled = (*(sampled if wrong else ()), _unjudged(unknown, len(tried)))
    hints = (*_missing(scope), *_untaken(scope), *beyond, *searched, *sampled)
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


def _untaken(scope: Scope) -> Iterator[str]:
    """Inputs that no function takes, and of which no output consists."""
    taken = [part for fn in scope.fns.values() for part in components_of(fn.input)]
    taken += [part for output in scope.outputs for part in components_of(output.dtype)]
    for name, type_ in scope.inputs.items():
        for part in components_of(type_.dtype):
            if _given(part, taken):
                continue
            head = f"no function takes input {name}, of {part}"
            if isinstance(part, Multihot):
                yield f"{head}, so that Partition and Merge can route by it and nothing can compute with it"
            else:
                yield f"{head}: add one that does, or leave the input out if the operator does not need it"


def _reordered(task: Task, scope: Scope) -> Iterator[str]:
    """Outputs with two dims in the other order than an input has them, where no function exchanges any."""
    if any(_exchanged(_dims_of(fn.output), _dims_of(fn.input)) for fn in scope.fns.values()):
        return
    for spec, output in zip(task.outputs, scope.outputs, strict=True):
        for name, type_ in scope.inputs.items():
            pair = _exchanged([*_dims_of(output.dtype), *output.shape], [*_dims_of(type_.dtype), *type_.shape])
            if pair is not None:
                inner, outer = pair
                yield (
                    f"output {spec.name} has {inner} inside of {outer}, input {name} has {outer} inside of {inner}, and"
                    " primitives keep the order of elements: if the operator transposes, add a function that does so on"
                    f" a Buffer, from [{outer}, {inner}] to [{inner}, {outer}] (docs/cookbook/transpose.md)"
                )
                return


def _dims_of(dtype: DType) -> list[Expr]:
    """The dims of an element, innermost first."""
    return [dim for part in components_of(dtype) if isinstance(part, Buffer) for dim in part.dims]


def _exchanged(dims: Sequence[Expr], others: Sequence[Expr]) -> tuple[Expr, Expr] | None:
    """The first two dims that are in the other order among others, if there are any."""
    place = {dim: index for index, dim in enumerate(others) if not dim.is_number}
    common = [dim for dim in dims if dim in place]
    return next(((a, b) for a, b in pairwise(common) if place[a] > place[b]), None)


def _loops(task: Task) -> Iterator[str]:
    """References that loop: along a dim without a function that keeps a state, or for so many rounds."""
    folds = any(fn.init is not None for fn in task.fns)
    for spec in task.outputs:
        trees = [parse_python(textwrap.dedent(snippet)) for snippet in spec.data_transform]
        for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)):
            head = ast.unparse(node).partition("\n")[0]
            if not re.search(r"_value\b|\binput_data\b", head):
                yield (
                    f"the reference of output {spec.name} repeats steps (`{head}`), and the search does not write so"
                    " many out: offer a function of all rounds, or write a program of your own, which may repeat the"
                    " steps of a round by `for`"
                )
                return
            if not folds:
                yield (
                    f"the reference of output {spec.name} loops along a dim (`{head}`), and no function keeps a state:"
                    " offer one of a whole round, with `init`, for Scan or Accum"
                )
                return


def _unmade(missed: Sequence[str] | None, *, exhausted: bool) -> Iterator[str]:
    """Which steps of the reference the functions do not seem to compute."""
    if missed:
        rest = f" (nor of {counted(len(missed) - 1, 'further line')})" if len(missed) > 1 else ""
        yield (
            f"the search computed no value of this line of the reference{rest}: `{missed[0]}`. If the functions should"
            " compute it, check their arguments, dims and constants; if they take other steps, write the reference in"
            " those, as the search proceeds from one to the next"
        )
    elif missed is not None and exhausted:
        yield (
            "the search computed a value of every line of the reference, but not the outputs, and has tried all within"
            " reach, so that more time does not help: a function for one of the last steps is missing"
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


def _unjudged(unknown: Sequence[Attempt], tried: int) -> str:
    """Answers that count neither as right nor as wrong, and how to judge them."""
    codes = Counter(code for attempt in unknown for code in attempt.feedback.get("codes", ()))
    why = f" ({', '.join(codes)})" if codes else ""
    return (
        f"the verdict on {len(unknown)} of {counted(tried, 'answer')} is unknown{why}:"
        " `pipeline.verify --retry-unknown` judges such a program within larger limits;"
        " a function of the task may be at fault"
    )


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
        programs = counted(len(set(keys)), "program")
        yield f"the later answers repeat earlier ones ({programs}): a larger --samples will not help"


def _of_lm(wrong: Sequence[Attempt], proposer: ProposerKind) -> Iterator[str]:
    """How an LM's answers fail, and what may help an LM that fails so."""
    if not wrong:
        yield "the LM gave no answer: its server, the limits of the run and --max-tokens decide that"
        return
    stages: Counter[str] = Counter(map(failed_at, wrong))
    truncated = sum(any(count.truncated for count in attempt.tokens.values()) for attempt in wrong)
    failed = [f"{stages[stage]} {words}" for stage, words in _FAILED.items() if stages[stage]]
    cut = [f"{truncated} were cut off at --max-tokens"] if truncated else []
    yield f"of {counted(len(wrong), 'wrong answer')} of the LM: {', '.join([*failed, *cut])}"
    unwritten = stages["parse"] + stages["type"]
    if proposer != "typed" and 2 * unwritten >= len(wrong):
        yield (
            "the LM does not write the language well: `--proposer typed` has it choose each line among those that types"
            " allow, and `--prompt short` leaves more room in a small context"
        )
    elif proposer == "typed" and 2 * stages["parse"] >= len(wrong):
        yield (
            "most answers were none of the lines: use a server that holds an LM to them, by a grammar or a JSON schema"
        )
    elif truncated and 2 * truncated >= len(wrong):
        yield "most answers were cut off: raise --max-tokens, or use `--proposer typed`, whose lines are short"
    if 2 * stages["affine"] >= len(wrong):
        yield "most answers lack Copies only: `--guardian compiler` inserts them without a request"
    if 2 * unwritten < len(wrong):
        own = "" if proposer == "typed" else ", `--refine 2` to have it repair the verifier's findings"
        yield (
            "the LM writes programs that compute something else: give it more to learn from (--samples, an"
            f" --experience of similar tasks){own}, or a larger model"
        )


def _hidden(texts: Sequence[str], scope: Scope) -> Iterator[str]:
    """Names of the task that answers give to other streams."""
    given = {text: {*re.findall(r"\w+", " ".join(re.findall(r"^[\w, ]+(?==)", text, re.MULTILINE)))} for text in texts}
    own = {*scope.inputs, *scope.fns}
    hiding = [text for text in texts if own & given[text]]
    if hiding:
        names = ", ".join(sorted(own & set[str]().union(*(given[text] for text in hiding))))
        yield (
            f"of {counted(len(texts), 'answer')} of the LM {len(hiding)} give {names} to another stream, which hides"
            " the task's own: with `--proposer typed` names are new"
        )


_FAILED = {
    "parse": "are no program", "type": "break a rule of types", "affine": "consume a stream twice",
    "limits": "are too large", "shape": "give outputs of another shape", "run": "fail when they run",
    "value": "compute other values", "cost": "exceed the limit of cost", "stress": "fail on stress inputs",
}  # fmt: skip
"""What answers that fail at a stage do."""


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
