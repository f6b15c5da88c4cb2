"""Whether a program equals its reference in exact arithmetic, for all inputs at the sizes given.

Symbols, normal form, comparison: inputs are independent numbers, both sides are evaluated on residues of theirs, by the
table of operators with an exact meaning, and equal residues mean that both are the same function, but for an error that
is bounded. Then floats at wide points try to refute it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import torch

from step_runtime.base.errors import StepError, describe_error
from step_runtime.base.types import components_of
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.number_formats import element_type
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits
from step_runtime.verification.check import Types
from step_runtime.verification.exact.decisions import Cover, Decisions, deciding
from step_runtime.verification.exact.facts import Known, keeping, undischarged
from step_runtime.verification.exact.falsifier import POINTS, difference
from step_runtime.verification.exact.inputs import given, whole_numbers
from step_runtime.verification.exact.operators import Operators
from step_runtime.verification.exact.residues import BLOCKS, WORLDS, Draw, Laws, draw, drawing
from step_runtime.verification.exact.simulate import ExactRun, ExactStream, Functions
from step_runtime.verification.exact.table import TABLE
from step_runtime.verification.exact.value import Unknown, Value, larger, same
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.verdict import ExactVerdict

MEANING = (
    "in exact arithmetic, without rounding, wherever both are defined, under the same conditions; "
    "a constant is the simplest number within 4 units in its last place, and infinite from 1e29 on"
)
RANKED = "; where a row is ranked, its numbers are distinct"
WHOLE = "; inputs of whole numbers have those of their generators"
LEAST_BITS = 60
"""A proof may be wrong with a probability of 2 to the minus this at most."""
_BITS_OF_LAWS = 3
"""That one of several comparisons finds equality may be an error of each."""
_TRIALS = 6
"""Draws of worlds, at most; a further one is made where the bound of those before is too large."""
_LAWS: Mapping[Laws, str] = {
    "gathered": "sums of logarithms are those of products",
    "linear": "sums of logarithms stay sums",
    "leading": "logarithms of sums are those of first terms and of quotients by these",
    "masked": "sums of logarithms are those of products, and masks by data go to minus infinity",
}


@cache
def version() -> str:
    """A digest of this prover's code: what rests on a proof says by which prover."""
    code = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        code.update(file.read_bytes())
    return code.hexdigest()[:12]


@dataclass(frozen=True)
class _Comparison:
    """Where residues differ first, in words; the bits of the bound; how it was made."""

    where: str | None
    bits: int = 0
    laws: str = ""
    ranked: bool = False
    whole: bool = False
    steps: tuple[str, ...] = ()


class Prover:
    """Compares programs with one task's reference, which is traced once, at one set of sizes."""

    def __init__(self, instance: TaskInstance, limits: Limits | None = None) -> None:
        self._instance = instance
        self._limits = limits or Limits()
        self._functions = Functions(instance)
        self._whole = any(whole_numbers(spec, instance.sizes) for _, spec, _ in instance.task.tensors())

    def prove(self, program: Program, types: Types) -> ExactVerdict:
        """The verdict on a program that passes at these sizes."""
        unknown = ExactVerdict("unknown", sizes=(self._instance.place,), prover=version())
        try:
            found = self._by_any_laws(program, types)
        except Unknown as error:
            found = _Comparison(f"not followed: {error}")
        except (StepError, RuntimeError, ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
            found = _Comparison(f"not followed: {describe_error(error)}")
        proved = found.where is None and found.bits >= LEAST_BITS
        if (proved or found.bits) and (
            shown := difference(self._instance, program, types, self._limits, proved=proved, ties=not found.ranked)
        ):
            mechanism = f"; formulas are equal by {found.laws}: a fault of prover {version()}, please report it"
            where, finite = shown
            return replace(unknown, answer="different", reason=f"{where}{mechanism * (proved and finite)}")
        if found.where is not None:
            return replace(unknown, reason=found.where)
        if not proved:
            return replace(unknown, reason=f"the formulas are too large: their error is 2^-{found.bits}")
        reason = f"equal for all inputs, {MEANING}{RANKED * found.ranked}{WHOLE * found.whole}"
        return replace(unknown, answer="proved", reason=reason, bits=found.bits, steps=found.steps)

    def _by_any_laws(self, program: Program, types: Types) -> _Comparison:
        """The first comparison by which both are equal, or else the first that follows them.

        By any laws, each symbol stands for a function of the inputs, and what makes one of several is true of these. So
        equality by one of them is equality, whether or not the laws hold all that is true.

        Raises:
            Unknown: No comparison follows them.
        """
        first: _Comparison | Unknown | None = None
        met = Decisions(ranks=False)
        for attempt in self._attempts(met):
            try:
                found = self._compared(program, types, met, *attempt)
            except Unknown as error:
                first = first or error
                continue
            if found.where is None:
                return found
            first = found if first is None or isinstance(first, Unknown) else first
        if isinstance(first, _Comparison):
            return first
        raise first or Unknown("nothing to compare")

    def _attempts(self, met: Decisions) -> Iterator[tuple[Laws, int]]:
        """Laws, and how many kinds of decisions by data are tried with all their outcomes, as far as there is any."""
        yield from (("gathered", 0), ("linear", 0), ("leading", 0))
        if met.masked:
            yield "masked", 0
        if met.wanted:
            yield from (("gathered", 1), ("gathered", 2))
        if self._whole:
            yield "gathered", 3

    def _compared(self, program: Program, types: Types, met: Decisions, laws: Laws, decided: int) -> _Comparison:
        """The comparison, for all outcomes of decisions by data, in as many independent trials as its bound takes.

        Data decide nothing, ranks, signs too, or inputs of whole numbers too.

        Raises:
            Unknown: One side is not followed, or outcomes are too many.
        """
        graph = repr(
            (program.inputs, [(node.op, node.inputs, node.outputs) for node in program.nodes], program.results)
        )
        told = "\n".join((version(), self._instance.task.statement, self._instance.place, graph))
        deadline, bits = Deadline.after(self._limits.seconds), 0
        for number in range(_TRIALS):
            worlds = Draw(hashlib.sha256(f"{number} {told}".encode()).digest(), laws)
            cover, least = Cover(), math.inf
            for outcomes in cover.outcomes():
                decisions = Decisions(outcomes, *(decided > kind for kind in range(3)))
                try:
                    with drawing(worlds), deciding(decisions):
                        found, masks = _Sides(self).compared(program, types)
                finally:
                    met.wanted, met.masked = met.wanted or decisions.wanted, met.masked or decisions.masked
                if found.where is not None:
                    return found
                if used := deadline.passed():
                    raise Unknown(f"more than {used}")
                cover.see(decisions, masks)
                least = min(least, found.bits)
            # An error for any of the outcomes is one of the trial; each trial has its own, and all have to be wrong.
            bits += max(0, int(least - math.log2(cover.trials)))
            if not 0 < bits < LEAST_BITS:
                break
        error = (
            f"error: at most 2^-{bits}; independent draws: {number + 1}; joint outcomes of decisions: {cover.trials}"
        )
        found = replace(found, bits=bits, steps=(*found.steps, error))
        return replace(found, ranked=decisions.ranked, whole=decided == 3)


class _Sides:
    """The formulas of both sides in one draw of worlds."""

    def __init__(self, prover: Prover) -> None:
        self._prover, self._instance = prover, prover._instance
        self._operators = [Operators(TABLE, Deadline.after(prover._limits.seconds)) for _ in range(2)]

    def compared(self, program: Program, types: Types) -> tuple[_Comparison, list[torch.Tensor]]:
        """The comparison, and the masks of decisions that each number of the results depends on, on either side.

        Raises:
            Unknown: The program or the reference is not followed.
        """
        with keeping(Known()):
            values = given(self._instance)
            known = Known()
            with keeping(known):
                expected = self._expected(values)
            own = known.apart()
            with keeping(own):
                run = ExactRun(self._instance, self._prover._functions, self._operators[1], values)
                results = run.run(program, [stream for stream in types if stream is not None])
            where = self._difference(results, expected)
            missing, further = undischarged(known, own), undischarged(own, known)
        if where is None and (missing or further):
            conditions = f"the program misses {missing} of the reference's, and has {further} of its own"
            where = f"what is defined under other conditions: {conditions}"
        size = larger(*(operators.size for operators in self._operators)).cleared()
        numbers = sum(operators.count for operators in self._operators)
        bits = _bits(size.degree, size.bits, numbers)
        laws = _LAWS[draw().laws]
        steps = self._steps(values, known, size.degree, size.bits)
        pairs = zip(chain(*(result.parts for result in results)), chain(*expected), strict=True)
        held = [both.masks.flatten(1) for one, other in pairs if (both := one.holding(other)).masks is not None]
        return _Comparison(where, bits, laws, steps=steps), held

    def _expected(self, values: Mapping[str, tuple[Value, ...]]) -> list[tuple[Value, ...]]:
        reference = self._prover._functions.reference
        if isinstance(reference, Unknown):
            raise reference
        try:
            found = reference.run(self._operators[0], [part for parts in values.values() for part in parts])
        except Unknown as error:
            raise Unknown(f"in the reference, {error}") from error
        outputs = []
        for stream in self._instance.task.output_types:
            count = len(components_of(stream.dtype))
            outputs.append(tuple(found[:count]))
            found = found[count:]
        return outputs

    def _difference(self, results: Sequence[ExactStream], expected: Sequence[tuple[Value, ...]]) -> str | None:
        """Where residues differ first, in words."""
        specs = zip(self._instance.task.outputs, self._instance.task.output_types, results, expected, strict=True)
        for spec, stream, result, reference in specs:
            pairs = zip(components_of(stream.dtype), result.parts, reference, strict=True)
            for place, (element, one, other) in enumerate(pairs):
                wanted = element_type(element, self._instance.dtype)
                if one.shape != other.shape or {one.dtype, other.dtype} != {wanted}:
                    raise Unknown(f"types and shapes of output {spec.name}")
                endless = one.infinite | other.infinite
                equal = same(one.data, other.data) & (endless <= (one.known == other.known)) & (one.low == other.low)
                if not bool(equal.all()):
                    at = (~equal[0, 0]).nonzero()[0].tolist()
                    part = f" (component {place})" if len(reference) > 1 else ""
                    return f"output {spec.name}{part} at {at}: the formulas differ"
        return None

    def _steps(
        self, values: Mapping[str, tuple[Value, ...]], known: Known, degree: float, size: float
    ) -> tuple[str, ...]:
        inputs = ", ".join(f"{name} {'x'.join(map(str, parts[0].shape))}" for name, parts in values.items())
        return (
            f"symbols: each number of {inputs} is independent of all others",
            *(
                f"{side}: {', '.join(operators.names) or 'moves only'}"
                for side, operators in zip(("reference", "program"), self._operators, strict=True)
            ),
            f"normal form: {_LAWS[draw().laws]}; exponentials turn sums into products; extremes are those of sets",
            f"defined: under the same conditions on both sides, {len(known.domain)} of them",
            f"compare: all results are equal modulo {WORLDS} chains of primes of 61 to 63 bits, drawn for this program",
            f"bound: degree {degree:.3g}, coefficients of {size:.3g} bits",
            f"floats: no difference at {POINTS} wide points; prover {version()}",
        )


def _bits(degree: float, size: float, numbers: int) -> int:
    """The bits of the bound: that of two numbers of so many that differ, all worlds have one residue.

    In a world, its points are zeros of their difference (Schwartz and Zippel), or its prime divides all coefficients.
    """
    error = max(1.0, degree) * 2.0**-60 + max(1.0, size / 60) * 2 / BLOCKS
    return max(0, int(-WORLDS * math.log2(error) - 2 * math.log2(max(128, numbers)) - _BITS_OF_LAWS))
