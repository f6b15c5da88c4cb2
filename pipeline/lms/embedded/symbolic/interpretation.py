"""The interpretation of a task: what its reference and functions compute, and which steps lead towards it.

The bodies of the reference and the functions are interpreted as terms (`interpreter`). A function applied to streams
whose terms are known gives a stream of a known term; if that term occurs in the reference, or is part of a sum or
product there, the application is a step on the way. Unknown code has a term that occurs nowhere, and suggests no step.
"""

from __future__ import annotations

import ast
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.symbolic.algebra import Algebra, Term
from pipeline.lms.embedded.symbolic.interpreter import SymbolicInterpreter
from pipeline.lms.embedded.symbolic.operations import Operations, Value
from step_runtime.base.functions import Fn
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Multihot, components_of, parse_dtype
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import FnSpec, Task, TensorSpec

_CHOICES = frozenset(("greater", "eq", "ne", "scatter", "one_hot", "isin"))
"""Operations whose results are zeros and ones."""

Terms: TypeAlias = tuple[Term, ...]
"""One term for each component of a stream."""
Fold: TypeAlias = Callable[[bool], Term]
"""What a fold gives: after all steps, or, if that is asked for, after each."""


class Interpretation:
    """Terms of one task, computed on first access. Threads may share it.

    `shifted` chooses among two ways to read an exponential's normalization, see `Operations`; `flat` among two to read
    a sum of sums, see `Algebra`.
    """

    def __init__(self, task: Task, scope: Scope, *, shifted: bool = False, flat: bool = False) -> None:
        self._algebra = algebra = Algebra(flat=flat)
        self._specs = {spec.func_name: spec for spec in task.fns}
        self._values: dict[tuple[object, ...], Terms] = {}
        self._folds: dict[tuple[object, ...], tuple[Fold | None, ...]] = {}
        self._stateful: dict[int, bool] = {}
        self._sizes = dict(scope.sizes)
        self._function_roles: dict[str, Mapping[int, set[str]]] = {}
        self._wanted: set[Term] = set()
        self._pieces: set[Term] = set()
        self._binary: set[str] = {spec.name for spec in task.inputs if spec.data_gen == "binary"}
        self._binary |= {s.name for s in task.inputs if isinstance(parse_dtype(s.dtype, task.symbols()), Multihot)}
        data = {spec.name: self._input(spec, task) for spec in task.inputs}
        weights = {spec.name: algebra.atom("weight", spec.name) for spec in task.parameters}
        self._helpers = _helpers(task.global_ or "")
        self._seen: list[Term] = []
        """Intermediate terms of the function being interpreted."""
        ones = next((data[spec.name] for spec in task.inputs if spec.data_gen == "torch.ones"), None)
        words = Operations(algebra, self._see, shifted=shifted, ones=ones)
        self._functions = SymbolicInterpreter(words, self._sizes, data | weights)
        self._words = self._functions.words
        self.inputs: tuple[Terms, ...] = tuple((data[spec.name],) for spec in task.inputs)
        self._wanted.update(data.values())
        words = Operations(algebra, self._keep, shifted=shifted, ones=ones)
        reference = SymbolicInterpreter(words, self._sizes, data | weights)
        env: dict[str, Value] = dict(self._helpers)
        self.outputs: tuple[Terms, ...] = tuple(
            tuple(self._keep(self._words.term(reference.run(code, env))) for code in spec.data_transform)
            for spec in task.outputs
        )
        self.ambiguous = algebra.ambiguous
        """Whether the reference sums something already reduced."""

    def wanted(self, terms: Terms) -> bool:
        """Whether a stream of these terms holds an intermediate result of the reference."""
        return all(term in self._wanted or self._partly_wanted(term) for term in terms)

    def useful(self, terms: Terms) -> bool:
        """Whether a stream of these terms may lead to the reference's result in another way than the reference's."""
        return all(term in self._wanted or term in self._pieces for term in terms)

    def _partly_wanted(self, term: Term) -> bool:
        """Whether it is an index that stacks choices, one of which the reference makes."""
        parts = self._arguments(term, "stack")
        return any(part in self._wanted for part in parts) and self._chooses(term)

    def _chooses(self, term: Term) -> bool:
        """Whether a term is made of zeros and ones, as an index must be, by the interpretation."""
        if len(term.summands) > 1:
            opposite = self._algebra.minus(self._algebra.one, term)
            return len(opposite.summands) == 1 and self._chooses(opposite)
        return bool(term.summands) and all(
            value == 1.0 and all(self._is_choice(self._algebra.atoms[number]) for number, _ in monomial)
            for monomial, value in term.summands
        )

    def _is_choice(self, atom: Sequence[object]) -> bool:
        name, first = atom[0], atom[1] if len(atom) > 1 else None
        if name == "stack":
            return all(isinstance(part, Term) and self._chooses(part) for part in atom[1:])
        if name in ("input", "select"):
            return first in self._binary or (isinstance(first, tuple) and self._is_choice(first))
        return name in _CHOICES

    def value(self, fn: Fn, arguments: Terms, how: str) -> Terms:
        """What Map, Accum or Scan (`how`) of a function on these terms gives."""
        key = (fn.label, how, *arguments)
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = self._value(fn, arguments, how)
        return known

    def routed(self, routing: Routing, branches: Sequence[Fn | None], arguments: Terms, index: Term) -> Terms:
        """What a routing of these terms by an index gives: the sum of the chosen branches, if it is a sum."""
        key = (routing.merge.label, *(None if fn is None else fn.label for fn in branches), *arguments, index)
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = self._routed(routing, branches, arguments, index)
        return known

    def emits(self, fn: Fn) -> bool:
        """Whether part of a function's state is never read again by its next step.

        Folding would keep only the last element of that part, so such a function is meant for Scan.
        """
        spec = self._specs[fn.label]
        if spec.init is None or len(spec.init) < 2:
            return False
        results = self._applied(spec)
        state = [self._algebra.atom("state", place) for place in range(len(spec.init))]
        return results is not None and not all(any(self._mentions(r, s) for r in results) for s in state)

    def agrees(self, fn: Fn, place: int, stream: int) -> bool:
        """Whether, by the interpretation, a function does to an argument what the reference does to an input."""
        own = self._roles_of(fn).get(self._number(self._algebra.atom("argument", place)))
        wanted = self._wanted_roles.get(self._number(self.inputs[stream][0]))
        return not own or not wanted or not own.isdisjoint(wanted)

    def _roles_of(self, fn: Fn) -> Mapping[int, set[str]]:
        """The roles of atoms in what a function computes."""
        known = self._function_roles.get(fn.label)
        if known is None:
            known = self._function_roles[fn.label] = self._roles_in(self._seen_in(fn))
        return known

    @cached_property
    def _wanted_roles(self) -> Mapping[int, set[str]]:
        """The roles of atoms in the reference."""
        return self._roles_in(self._wanted)

    def _seen_in(self, fn: Fn) -> list[Term]:
        seen: list[Term] = []
        self._seen = seen
        results = self._applied(self._specs[fn.label])
        return [*seen, *(results or ())]

    def _see(self, term: Term) -> Term:
        self._seen.append(term)
        return term

    def _roles_in(self, terms: Iterable[Term]) -> dict[int, set[str]]:
        """The roles of atoms in these terms: the operations that take them, and their part in sums and products."""
        roles: defaultdict[int, set[str]] = defaultdict(set)
        atoms: set[int] = set()
        for term in terms:
            held = {number for monomial, _ in term.summands for number, _ in monomial}
            atoms |= held
            folded = len(term.summands) > 1 and any(self._algebra.atoms[number][0] == "state" for number in held)
            for number in held if folded else ():
                roles[number] |= {"sum", "cumsum"}
            for monomial, _ in term.summands:
                for number, exponent in monomial:
                    if exponent < 0:
                        roles[number].add("over")
                    elif len(monomial) > 1:
                        roles[number].add("times")
        for number in atoms:
            name, *parts = self._algebra.atoms[number]
            for inner in {inner for part in parts for inner in self._numbers(part)}:
                roles[inner].add(str(name))
        return roles

    @staticmethod
    def _numbers(part: object) -> set[int]:
        return {number for m, _ in part.summands for number, _ in m} if isinstance(part, Term) else set()

    @staticmethod
    def _number(atom: Term) -> int:
        """The number of the only atom of a term."""
        return atom.summands[0][0][0][0]

    def projects(self, fn: Fn) -> bool:
        """Whether a function only selects components of its input, so that zipping streams for it is useless."""
        spec = self._specs[fn.label]
        results = None if spec.init is not None else self._applied(spec)
        inputs = [self._algebra.atom("argument", place) for place in range(len(components_of(fn.input)))]
        return len(inputs) > 1 and results is not None and all(result in inputs for result in results)

    def exchanges(self, fn: Fn, one: int, other: int) -> bool:
        """Whether a function gives the same if two of its arguments change places, but for where their elements are."""
        spec = self._specs[fn.label]
        arguments = self._arguments_of(spec)
        turned = list(arguments)
        turned[one], turned[other] = turned[other], turned[one]
        results = (self._results(spec, given, self._state(spec)) for given in (arguments, tuple(turned)))
        first, second = results
        return first is not None and first == second

    def _arguments_of(self, spec: FnSpec) -> Terms:
        count = len(spec.input_dtype) if isinstance(spec.input_dtype, list) else 1
        return tuple(self._algebra.atom("argument", place) for place in range(count))

    def _applied(self, spec: FnSpec) -> Terms | None:
        """The result of one step of a function on unknown arguments and state."""
        return self._results(spec, self._arguments_of(spec), self._state(spec))

    def _state(self, spec: FnSpec) -> Terms:
        return tuple(self._algebra.atom("state", place) for place in range(_width(spec)))

    def _mentions(self, term: Term, wanted: Term) -> bool:
        return term is wanted or any(
            (atom := self._algebra.atoms[number]) is self._algebra.atoms[wanted.summands[0][0][0][0]]
            or any(isinstance(part, Term) and self._mentions(part, wanted) for part in _flat(atom))
            for monomial, _ in term.summands
            for number, _ in monomial
        )

    def _keep(self, term: Term) -> Term:
        if term not in self._wanted and term is not self._algebra.size and self._algebra.constant(term) is None:
            self._wanted.add(term)
            self._wanted.update(self._algebra.parts_of(term))
            self._pieces.update(self._algebra.pieces_of(term))
        return term

    def _input(self, spec: TensorSpec, task: Task) -> Term:
        """An input's term; for an index with exactly one bit set, the last bit is 1 minus the others."""
        algebra = self._algebra
        whole = algebra.atom("input", spec.name)
        dtype = parse_dtype(spec.dtype, task.symbols())
        if not isinstance(dtype, Multihot) or not spec.min == spec.max == 1:
            return whole
        count = int(dtype.length) if dtype.length.is_Integer else self._sizes.get(str(dtype.length), 0)
        bits = [algebra.atom("select", spec.name, place) for place in range(count - 1)]
        last = algebra.minus(algebra.one, algebra.add(*bits)) if bits else algebra.one
        return algebra.atom("stack", *bits, last) if 1 < count <= 16 else whole

    # --- functions ---

    def _results(self, spec: FnSpec, arguments: Terms, state: Terms) -> Terms | None:
        env: dict[str, Value] = {**self._helpers, "input": arguments, "state": state}
        value = self._functions.run(spec.apply, env)
        if not isinstance(value, tuple) or len(value) != _width(spec):
            return None
        return tuple(self._words.term(part) for part in value)

    def _value(self, fn: Fn, arguments: Terms, how: str) -> Terms:
        spec, algebra = self._specs[fn.label], self._algebra
        if how == "Map":
            results = self._results(spec, arguments, self._state(spec))
            if results is not None:
                return results
        folds = self._folds_of(spec, arguments) if how != "Map" else (None,) * _width(spec)
        return tuple(
            fold(how == "Scan") if fold else algebra.atom("fold", fn.label, how, place, *arguments)
            for place, fold in enumerate(folds)
        )

    def _folds_of(self, spec: FnSpec, arguments: Terms) -> tuple[Fold | None, ...]:
        """What each component of a function's state becomes, by whether all steps are kept; None if unknown."""
        key = (spec.func_name, *arguments)
        known = self._folds.get(key)
        if known is None:
            state = self._state(spec)
            results = self._results(spec, arguments, state)
            known = self._folds[key] = tuple(
                self._folded(results[place], state[place], float((spec.init or [0])[place])) if results else None
                for place in range(_width(spec))
            )
        return known

    def _folded(self, result: Term, state: Term, initial: float) -> Fold | None:
        """A fold that is a sum, a product, or a largest or smallest element; None for others."""
        algebra = self._algebra
        added = algebra.minus(result, state)
        if not self._has_state(added):
            start = algebra.number(initial)
            return lambda scan: algebra.add(algebra.linear("cumsum" if scan else "sum", added), start)
        factor = algebra.divide(result, state)
        if not self._has_state(factor) and initial == 1:
            return lambda scan: self._words.product("cumsum" if scan else "sum", factor)
        for sign in (1.0, -1.0):  # a minimum is the negative of the maximum of negatives
            one = algebra.number(sign)
            others = list(self._arguments(algebra.times(one, result), "maximum"))
            own = algebra.times(one, state)
            if len(others) == 2 and own in others:
                others.remove(own)
                return None if self._has_state(others[0]) else self._largest(one, others[0])
        return None

    def _largest(self, sign: Term, other: Term) -> Fold:
        algebra = self._algebra
        return lambda scan: algebra.times(sign, algebra.atom("cummax" if scan else "amax", other))

    def _arguments(self, term: Term, name: str) -> Sequence[Term]:
        """The arguments of a term that is one operation of this name."""
        if len(term.summands) != 1 or len(term.summands[0][0]) != 1:
            return ()
        content = self._algebra.atoms[term.summands[0][0][0][0]]
        return [part for part in content[1:] if isinstance(part, Term)] if content[0] == name else ()

    def _has_state(self, term: Term) -> bool:
        return any(self._is_stateful(number) for monomial, _ in term.summands for number, _ in monomial)

    def _is_stateful(self, number: int) -> bool:
        """Whether an atom is a state, or made of one."""
        known = self._stateful.get(number)
        if known is None:
            atom = self._algebra.atoms[number]
            parts = (part for part in _flat(atom) if isinstance(part, Term))
            known = self._stateful[number] = atom[0] == "state" or any(map(self._has_state, parts))
        return known

    def _routed(self, routing: Routing, branches: Sequence[Fn | None], arguments: Terms, index: Term) -> Terms:
        algebra, spec = self._algebra, self._specs[routing.merge.label]
        state = self._state(spec)
        if not self._chooses(index):
            names = (None if fn is None else fn.label for fn in branches)
            return tuple(algebra.atom("merge", spec.func_name, part, index, *names) for part in range(len(state)))
        totals = [algebra.number(float(value)) for value in spec.init or [0] * len(state)]
        for place, fn in enumerate(branches):
            own = arguments[place : place + 1] if routing.selects else arguments
            given = own if fn is None else self.value(fn, own, "Map")
            results = self._results(spec, given, state)
            bit = self._words.select(index, place)
            for part in range(len(state)):
                added = algebra.minus(results[part], state[part]) if results else state[part]
                if self._has_state(added):
                    added = algebra.atom("merge", routing.merge.label, place, part, *given)
                totals[part] = algebra.add(totals[part], algebra.times(bit, added))
        return tuple(totals)


def _flat(content: Sequence[object]) -> list[object]:
    return [part for item in content for part in (_flat(item) if isinstance(item, tuple) else [item])]


def _width(spec: FnSpec) -> int:
    if spec.init is not None:
        return len(spec.init)
    return len(spec.output_dtype) if isinstance(spec.output_dtype, list) else 1


def _helpers(code: str) -> dict[str, Value]:
    """Names that `global` binds to a module's function or to an instance of a module, such as `gelu = nn.GELU()`."""
    found: dict[str, Value] = {}
    for statement in parse_python(textwrap.dedent(code)).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr=what), args=[])):
                found[name] = what.lower()
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr=what)):
                found[name] = what.lower()
    return found
