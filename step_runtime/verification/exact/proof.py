"""Whether a program equals its reference in exact arithmetic, for all inputs at the sizes given.

Both are evaluated on residues modulo primes: inputs are independent numbers, sums, products, quotients, exponentials,
logarithms, roots and extremes keep their laws, everything else is a free symbol of what it takes. Equal residues mean
that both are the same function, wherever both are defined, but for an error that is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from step_runtime.base.errors import StepError, describe_error
from step_runtime.base.types import components_of
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.number_formats import element_type
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits
from step_runtime.verification.check import Types
from step_runtime.verification.exact import facts, residues
from step_runtime.verification.exact.decisions import Cover, Decisions, deciding
from step_runtime.verification.exact.inputs import given, whole_numbers
from step_runtime.verification.exact.operators import Operators
from step_runtime.verification.exact.simulate import ExactRun, ExactStream, Functions
from step_runtime.verification.exact.table import TABLE
from step_runtime.verification.exact.trace import Trace, trace
from step_runtime.verification.exact.value import WORDS, Unknown, Value, same
from step_runtime.verification.exact.witness import defined, witness
from step_runtime.verification.instance import TaskInstance

Answer = Literal["proved", "different", "unknown"]
MEANING = (
    "in exact arithmetic, without rounding, wherever both are defined; "
    "a constant is the simplest number within 4 units in its last place, and infinite from 1e29 on"
)
RANKED = "; where a row is ranked, its numbers are distinct"
WHOLE = "; inputs of whole numbers have those of their generators"
LEAST_BITS = 60
"""A proof may be wrong with a probability of 2 to the minus this at most."""
_BITS_OF_LAWS = 4
"""That one of several comparisons finds equality may be an error of each: by four laws, of decisions."""
_TRIALS = 6
"""Draws of worlds, at most; a further one is made where the bound of those before is too large."""
_ANSWERS: tuple[Answer, ...] = ("different", "unknown", "proved")
"""What counts where sets of sizes differ, the first first."""


@dataclass(frozen=True)
class ExactVerdict:
    """The answer of exact arithmetic on a program.

    Attributes:
        answer: `proved` equal to the reference for all inputs at the sizes, `different`, or `unknown`.
        reason: In words: what was not followed, or where the two differ.
        bits: A proof is wrong with a probability of at most 2 to the minus this; 0 without a proof.
        sizes: Where, in words.
    """

    answer: Answer
    reason: str = ""
    bits: int = 0
    sizes: tuple[str, ...] = ()

    @classmethod
    def joined(cls, verdicts: Sequence[ExactVerdict]) -> ExactVerdict:
        """One verdict for several sets of sizes: proved if all are; the sizes of the answer that counts."""
        answer = next(answer for answer in _ANSWERS if any(one.answer == answer for one in verdicts))
        own = [one for one in verdicts if one.answer == answer]
        places = tuple(place for one in own for place in one.sizes)
        return cls(answer, own[0].reason, min(one.bits for one in own), places)

    def render(self) -> str:
        """The verdict in a sentence."""
        where = f"at {'; '.join(self.sizes)}"
        error = f" (error at most 2^-{self.bits})" if self.bits else ""
        return f"exact: {self.answer} {where}: {self.reason}{error}"


@dataclass(frozen=True)
class _Comparison:
    """Where residues differ first, in words; the bits of the bound; the operators that are free symbols."""

    where: str | None
    bits: int
    free: tuple[str, ...]
    logged: bool
    ranked: bool = False
    angles: bool = False
    whole: bool = False


class Prover:
    """Compares programs with one task's reference, which is traced once, at one set of sizes."""

    def __init__(self, instance: TaskInstance, limits: Limits | None = None) -> None:
        self._instance = instance
        self._limits = limits or Limits()
        self._code = _Code(instance, Functions(instance))
        self._sides: dict[Hashable, _Side] = {}

    def prove(self, program: Program, types: Types) -> ExactVerdict:
        """The verdict on a program that passes at these sizes."""
        place = (self._instance.place,)
        try:
            found = self._by_any_laws(program, types)
        except Unknown as error:
            return ExactVerdict("unknown", f"not followed: {error}", sizes=place)
        except (StepError, RuntimeError, ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
            return ExactVerdict("unknown", f"not followed: {describe_error(error)}", sizes=place)
        if found.where is not None and (shown := witness(self._instance, program, types, self._limits)):
            return ExactVerdict("different", shown, sizes=place)
        if found.where is not None:
            named = f"; operators that are free symbols: {', '.join(found.free)}" if found.free else ""
            return ExactVerdict("unknown", f"{found.where}: the formulas differ{named}", sizes=place)
        if found.bits < LEAST_BITS:
            return ExactVerdict("unknown", f"the formulas are too large: their error is 2^-{found.bits}", sizes=place)
        reason = f"equal for all inputs, {MEANING}{RANKED * found.ranked}{WHOLE * found.whole}"
        return ExactVerdict("proved", reason, found.bits, place)

    def _by_any_laws(self, program: Program, types: Types) -> _Comparison:
        """The comparison by the first laws by which both are equal, or else by the first that are followed.

        Raises:
            Unknown: No laws are followed.
        """
        decisions = Decisions(ranks=False)
        first: _Comparison | Unknown
        with deciding(decisions):
            try:
                first = self._compared(program, types, "gathered")
                if first.where is not None:
                    first = self._by_other_laws(program, types, first)
            except Unknown as error:
                first = error
        if isinstance(first, _Comparison) and first.where is None:
            return first
        some = decisions.wanted or isinstance(first, Unknown)
        for signs, whole in [(False, False), (True, False)] * some + [(True, True)] * self._code.whole:
            try:
                if (found := self._decided(program, types, signs=signs, whole=whole)).where is None:
                    return found
            except Unknown as error:
                first = error
        if isinstance(first, _Comparison):
            return first
        raise first

    def _by_other_laws(self, program: Program, types: Types, found: _Comparison) -> _Comparison:
        """The comparison by further laws of angles, logarithms and roots; equality by one of them is equality.

        By any laws, each symbol stands for a function of the inputs, and what makes one of several is true of these. So
        residues that are equal are those of equal functions, whether or not the laws hold all that is true.
        """
        further: dict[residues.Laws, bool] = {"turning": found.angles, "linear": True, "discrete": found.logged}
        for laws in [laws for laws, some in further.items() if some]:
            try:
                other = self._compared(program, types, laws)
            except Unknown:
                continue
            # A discrete logarithm is also that of the opposite: both sides have to be defined somewhere. The exponents
            # of turns are those of a smaller prime: a constant that is 0 there would show.
            if other.where is None and (laws == "linear" or defined(self._instance, program, types, self._limits)):
                return replace(other, bits=max(0, other.bits - _BITS_OF_LAWS))
        return found

    def _compared(self, program: Program, types: Types, laws: residues.Laws) -> _Comparison:
        """The comparison in as many independent trials as its bound takes, some at most."""
        found = _Comparison(None, 0, (), logged=False)
        for number in range(_TRIALS):
            side = self._sides.setdefault((number, laws), _Side(self._code, self._limits))
            with residues.trial(number, laws), facts.keeping(side.known):
                more, _ = side.compared(program, types)
            # Each trial is wrong with its own probability, and all have to be.
            found = replace(more, bits=found.bits + more.bits)
            wanted = LEAST_BITS if laws == "gathered" else LEAST_BITS + _BITS_OF_LAWS
            if found.where is not None or not 0 < found.bits < wanted:
                break
        return found

    def _decided(self, program: Program, types: Types, *, signs: bool, whole: bool) -> _Comparison:
        """The comparison for all outcomes of the decisions by data, in as many independent trials as its bound takes.

        Raises:
            Unknown: They are too many.
        """
        deadline, bits = Deadline.after(self._limits.seconds), 0
        for number in range(_TRIALS):
            cover, least = Cover(), math.inf
            while (outcomes := cover.outcomes()) is not None:
                decisions = Decisions(outcomes, signs=signs, whole=whole)
                with residues.trial(number), facts.keeping(facts.Known()), deciding(decisions):
                    found, masks = _Side(self._code, self._limits).compared(program, types)
                if found.where is not None:
                    return found
                if used := deadline.passed():
                    raise Unknown(f"more than {used}")
                cover.see(decisions, masks)
                least = min(least, found.bits)
            # An error for any of the outcomes is one of the trial, and that equality is found by any of several laws.
            bits += max(0, int(least - math.log2(max(1, cover.trials))) - _BITS_OF_LAWS)
            if not 0 < bits < LEAST_BITS:
                break
        return replace(found, bits=bits, ranked=decisions.ranked, whole=whole)


class _Code:
    """The traces of a task at one set of sizes: the reference's, made once, and the functions'."""

    def __init__(self, instance: TaskInstance, functions: Functions) -> None:
        self.instance, self.functions = instance, functions
        self.whole = any(whole_numbers(spec, instance.sizes) for _, spec, _ in instance.task.tensors())
        self._reference: Trace | Unknown | None = None

    def reference(self, values: Mapping[str, tuple[Value, ...]]) -> Trace:
        """The reference's trace, on inputs like the values.

        Raises:
            Unknown: It is not followed.
        """
        if self._reference is None:
            try:
                self._reference = self._traced(values)
            except Unknown as error:
                self._reference = error
        if isinstance(self._reference, Unknown):
            raise self._reference
        return self._reference

    def _traced(self, values: Mapping[str, tuple[Value, ...]]) -> Trace:
        instance = self.instance

        def code(*tensors: torch.Tensor) -> list[torch.Tensor]:
            rest = list(tensors)
            instance.use_inputs({name: tuple(rest.pop(0) for _ in parts) for name, parts in values.items()})
            return [part for output in instance.reference() for part in output]

        examples = [torch.empty(part.shape, dtype=part.dtype) for parts in values.values() for part in parts]
        found = trace(code, examples)
        instance.sample_inputs(0)
        return found


class _Side:
    """The reference's formulas in one draw of worlds, computed once, to which programs are compared."""

    def __init__(self, code: _Code, limits: Limits) -> None:
        self._code = code
        self._instance = code.instance
        self._limits = limits
        self._given: Mapping[str, tuple[Value, ...]] | None = None
        self._reference: list[tuple[Value, ...]] | Unknown | None = None
        self._free: dict[str, None] = {}
        self._degree, self._angles = 0.0, False
        self.known = facts.Known()

    def compared(self, program: Program, types: Types) -> tuple[_Comparison, torch.Tensor]:
        """The comparison, and the masks of decisions that each number of the results depends on, on either side.

        Raises:
            Unknown: The program or the reference is not followed.
        """
        self._expected()
        return self.against(*self.run(program, types))

    def run(self, program: Program, types: Types) -> tuple[Operators, Sequence[ExactStream]]:
        """The program's results, and the operators that gave them.

        Raises:
            Unknown: The program is not followed.
        """
        operators = Operators(TABLE, Deadline.after(self._limits.seconds))
        run = ExactRun(self._instance, self._code.functions, operators, self._inputs())
        with facts.apart():
            return operators, run.run(program, [stream for stream in types if stream is not None])

    def against(self, operators: Operators, results: Sequence[ExactStream]) -> tuple[_Comparison, torch.Tensor]:
        """The comparison of a run's results.

        Raises:
            Unknown: The reference is not followed.
        """
        expected = self._expected()
        where = self._difference(results, expected)
        free = tuple({**self._free, **operators.free})
        values = [part for parts in (*expected, *(result.parts for result in results)) for part in parts]
        masks = [
            torch.zeros(WORDS, math.prod(part.shape), dtype=torch.int64)
            if part.masks is None
            else part.masks.flatten(1)
            for part in values
        ]
        half = len(values) // 2
        both = torch.cat(masks[:half], 1) | torch.cat(masks[half:], 1)
        numbers = 64 * sum(math.prod(part.shape) for result in results for part in result.parts)
        bits = _bits(max(self._degree, operators.degree), numbers)
        logged = any(part.logged for part in values)
        return _Comparison(where, bits, free, logged, angles=self._angles or operators.angles), both

    def _inputs(self) -> Mapping[str, tuple[Value, ...]]:
        if self._given is None:
            self._given = given(self._instance)
        return self._given

    def _expected(self) -> list[tuple[Value, ...]]:
        if self._reference is None:
            try:
                self._reference = self._evaluated()
            except Unknown as error:
                self._reference = Unknown(f"in the reference, {error}")
        if isinstance(self._reference, Unknown):
            raise self._reference
        return self._reference

    def _evaluated(self) -> list[tuple[Value, ...]]:
        operators = Operators(TABLE, Deadline.after(self._limits.seconds))
        values = self._inputs()
        found = self._code.reference(values).run(operators, [part for parts in values.values() for part in parts])
        self._free, self._degree = operators.free, operators.degree
        self._angles = operators.angles
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
            for number, (element, one, other) in enumerate(pairs):
                wanted = element_type(element, self._instance.dtype)
                if one.shape != other.shape or {one.dtype, other.dtype} != {wanted}:
                    raise Unknown(f"types and shapes of output {spec.name}")
                equal = same(one.data, other.data) & (
                    (one.known.isinf() | other.known.isinf()) <= (one.known == other.known)
                )
                if not bool(equal.all()):
                    place = (~equal[0, 0]).nonzero()[0].tolist()
                    part = f" (component {number})" if len(reference) > 1 else ""
                    return f"output {spec.name}{part} at {place}"
        return None


def _bits(degree: float, numbers: int) -> int:
    """The bits of the bound: of two numbers of so many, in all worlds together."""
    single = math.log2(residues.primes()[-1]) - math.log2(max(2.0, degree))
    return max(0, int(residues.WORLDS * single - 2 * math.log2(max(128, numbers))))
