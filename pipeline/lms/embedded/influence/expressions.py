"""Reads expressions of PyTorch code for sources, at fixed sizes; positions are known, and data are not."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from pipeline.lms.embedded.formulas.residues import Kind
from pipeline.lms.embedded.formulas.tape import Formulas, Tape
from pipeline.lms.embedded.influence.arrays import Array, Unread, Word, as_array, both, either
from pipeline.lms.embedded.influence.branches import MISSING, Names, either_of
from pipeline.lms.embedded.influence.callables import Closure, Mapped, Module
from pipeline.lms.embedded.influence.calls import CALLS, called, module_named
from pipeline.lms.embedded.influence.language import (
    BUILT_IN,
    attribute,
    binary,
    compared,
    decided,
    decision,
    element,
    items_of,
    method,
    reading,
    unary,
    whole,
)
from pipeline.lms.embedded.influence.sequences import items_within, of_data
from pipeline.lms.embedded.influence.stages import STAGES, Met

_MODULES = frozenset(("torch", "F", "nn", "functional", "linalg", "math", "special", "np", "numpy", "fft", "itertools",
                      "functools"))  # fmt: skip
_MOST_WORK = 12_000
"""Expressions that are read for one piece of code; more are unread."""
_PER_STEP = 1000
"""As many elements of a tensor count as one expression more,"""
_ITEMS_PER_STEP = 100
"""and as many items of a list, a dict, a range or a text."""
_DEEPEST = 40
_INPUTS = "input_data"
"""The name of the inputs and weights, by their names."""
_CONSTANTS = {"inf": math.inf, "pi": math.pi, "e": math.e, "nan": math.nan, "tau": math.tau, "newaxis": None}
_SETTINGS = frozenset(("default", "apply"))
"""Attributes of a call that are the call itself, as of an overload."""


class ExpressionReader(ABC):
    """Reads expressions in an environment of names; `data` are inputs and weights, `sizes` those of the dims."""

    def __init__(self, data: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        self._data = data
        self._names: dict[str, Any] = {f"{name}_value": size for name, size in sizes.items()}
        self._work = 0
        self._depth = 0
        self.met = Met()
        self._stages: list[Array] = []
        self.kinds: Mapping[str, Kind] = {}
        self.tape: Tape | None = None
        """Where the formulas of what is read are kept."""

    def value(self, node: ast.expr, env: Names) -> Any:
        """The value of an expression.

        Raises:
            Unread: It could not be read.
        """
        self._work += 1
        if self._work > _MOST_WORK or self._depth > _DEEPEST:
            raise Unread("too much code")
        self._depth += 1
        stages, self._stages = self._stages, []
        try:
            with reading():
                value = self._value(node, env)
            if isinstance(value, Array):
                self._work += value.values.size // _PER_STEP
                self._stages.append(value)
            elif isinstance(value, Sized):
                self._spend(items_within(value))
            self.met.add(node, self._stages)
            return value
        finally:
            self._depth -= 1
            self._stages = stages

    def _spend(self, items: int) -> None:
        """Counts work on this many items of sequences."""
        self._work += items // _ITEMS_PER_STEP

    def _value(self, node: ast.expr, env: Names) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(name, env)
            case ast.BinOp(op=op, left=left, right=right):
                one, other = self.value(left, env), self.value(right, env)
                if isinstance(op, ast.MatMult):
                    self._meet_within("matmul", [one, other], {})
                return binary(op, one, other)
            case ast.UnaryOp(op=op, operand=operand):
                return unary(op, self.value(operand, env))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(left, ops, others, env)
            case ast.Subscript(value=owner, slice=place):
                return self._subscript(owner, place, env)
            case ast.Attribute():
                return self._attribute(node, env)
            case ast.Call():
                return self._call(node, env)
        return self._collected(node, env)

    def _meet_within(self, name: str, args: list[Any], named: dict[str, Any]) -> None:
        """Meets what a call computes on its way."""
        with suppress(Unread), reading():
            self._stages += STAGES[name](*args, **named) if name in STAGES else ()

    def _compared(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], env: Names) -> Any:
        before = self.value(left, env)
        result: Any = True
        for op, right in zip(ops, others, strict=True):
            after = self.value(right, env)
            own = compared(op, before, after)
            result = own if result is True else both(result, own)
            before = after
        return result

    def _collected(self, node: ast.expr, env: Names) -> Any:
        """Sequences, slices and texts."""
        match node:
            case ast.Tuple(elts=parts):
                return tuple(self._each(parts, env))
            case ast.List(elts=parts):
                return self._each(parts, env)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if end is None else self._end(end, env) for end in (lower, upper, step)))
            case ast.ListComp(elt=item, generators=parts) | ast.GeneratorExp(elt=item, generators=parts):
                return self._comprehension(item, parts, env)
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, env)) for part in parts)
            case ast.FormattedValue(value=part):
                return self.value(part, env)
        return self._chosen(node, env)

    def _end(self, end: ast.expr, env: Names) -> Any:
        """An end of a slice, which is a number unless data decide it."""
        value = self.value(end, env)
        return value if of_data(value) else whole(value)

    def _key(self, key: ast.expr | None, env: Names) -> Any:
        if key is None:
            raise Unread("a dictionary within a dictionary")
        return whole(self.value(key, env))

    def _chosen(self, node: ast.expr, env: Names) -> Any:
        """Decisions, sets and dictionaries, and names that expressions assign."""
        match node:
            case ast.BoolOp(op=op, values=parts):
                return self._joined(op, parts, env)
            case ast.Set(elts=parts):
                return set(self._each(parts, env))
            case ast.Dict(keys=keys, values=parts):
                return {self._key(key, env): self.value(part, env) for key, part in zip(keys, parts, strict=True)}
            case ast.SetComp(elt=item, generators=parts):
                return set(map(whole, self._comprehension(item, parts, env)))
            case ast.DictComp(key=key, value=item, generators=parts):
                pair = ast.Tuple([key, item], ast.Load())
                return {whole(own): value for own, value in self._comprehension(pair, parts, env)}
            case ast.IfExp(test=test, body=body, orelse=other):
                answer = decision(self.value(test, env))
                if isinstance(answer, bool):
                    return self.value(body if answer else other, env)
                return either_of(answer, self.value(body, env), self.value(other, env))
            case ast.NamedExpr(target=ast.Name(id=name), value=part):
                scope = env.maps[-1] if isinstance(env, ChainMap) and name not in env else env
                scope[name] = self.value(part, env)
                return scope[name]
            case ast.Lambda(args=arguments, body=body):
                return self._closure(arguments, body, env)
        raise Unread("an expression of an unknown kind")

    def _joined(self, op: ast.boolop, parts: Sequence[ast.expr], env: Names) -> Any:
        """A conjunction or disjunction, up to the part that decides it."""
        end = isinstance(op, ast.Or)
        result: Any = None
        for part in parts:
            value = self.value(part, env)
            answer = decision(value) if isinstance(value, Array) else value
            if isinstance(answer, Array):
                result = answer if result is None else (either if end else both)(result, answer)
            elif bool(answer) is end:
                return answer if result is None else (either if end else both)(result, bool(answer))
            elif part is parts[-1] and result is None:
                return answer
        return result

    def _named(self, name: str, env: Names) -> Any:
        value = env.get(name, MISSING)
        if value is MISSING:
            value = self._names.get(name, MISSING)
        if value is MISSING and name not in env and (name in BUILT_IN or name in _HIGHER or name in _MODULES):
            value = Word(name)
        if value is MISSING and name == _INPUTS:
            return {own: self._given(own) for own in self._data}
        if value is MISSING:
            raise Unread(f"the name {name}")
        return value

    def _each(self, parts: Sequence[ast.expr], env: Names) -> list[Any]:
        values: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                values += items_of(self.value(part.value, env))
            else:
                values.append(self.value(part, env))
        return values

    def _subscript(self, owner: ast.expr, place: ast.expr, env: Names) -> Any:
        if isinstance(owner, ast.Name) and owner.id == _INPUTS and owner.id not in env:
            return self._given(self.value(place, env))
        return element(self.value(owner, env), self.value(place, env))

    def _given(self, name: str) -> Array:
        """An input or a weight, with its formulas."""
        kind = self.kinds.get(name, Kind())
        array = replace(self._data[name], truth=kind.format == "bool")
        if self.tape is None or not np.isnan(array.values).all():
            return array
        nodes = self.tape.symbols(name, array.shape, kind)
        self.tape.formats.given(nodes, kind.format)
        return replace(array, formulas=Formulas(self.tape, nodes))

    def _attribute(self, node: ast.Attribute, env: Names) -> Any:
        owner = None if is_module(node.value, env) else self.value(node.value, env)
        if owner is None and node.attr in _CONSTANTS:
            return _CONSTANTS[node.attr]
        if isinstance(owner, Word) and node.attr in _SETTINGS:
            return owner
        return Word(node.attr) if owner is None or isinstance(owner, Word) else attribute(owner, node.attr)

    def _comprehension(self, item: ast.expr, generators: Sequence[ast.comprehension], env: Names) -> list[Any]:
        first, *rest = generators
        found: list[Any] = []
        for one in items_of(self.value(first.iter, env)):
            inner = ChainMap({}, *(env.maps if isinstance(env, ChainMap) else [env]))
            self._bind(first.target, one, inner)
            if all(decided(self.value(test, inner)) for test in first.ifs):
                found += self._comprehension(item, rest, inner) if rest else [self.value(item, inner)]
        return found

    @abstractmethod
    def _bind(self, target: ast.expr, value: Any, env: Names) -> None:
        """Assigns a value to a target."""

    @abstractmethod
    def _body(self, body: Sequence[ast.stmt], env: Names) -> Any:
        """The value of a function's body."""

    # --- calls ---

    def _closure(self, arguments: ast.arguments, body: tuple[ast.stmt, ...] | ast.expr, env: Names) -> Closure:
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        values = self._each(arguments.defaults, env)
        defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default is not None:
                defaults[argument.arg] = self.value(default, env)
        return Closure(arguments, defaults, body, env)

    def _call(self, node: ast.Call, env: Names) -> Any:
        args = self._each(node.args, env)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            given = self.value(keyword.value, env)
            named |= {keyword.arg: given} if keyword.arg else given
        match node.func:
            case ast.Attribute(value=owner, attr=name) if not is_module(owner, env):
                subject = self.value(owner, env)
                if not isinstance(subject, Word):
                    self._meet_within(name, [subject, *args], named)
                    return method(subject, name, args, named)
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if _plain_math(name, args):
                return getattr(math, name)(*args)
        return self._called(self.value(node.func, env), args, named)

    def _called(self, function: Any, args: list[Any], named: dict[str, Any]) -> Any:
        """The result of a function that is a value."""
        match function:
            case Closure():
                return self._apply(function, args, named)
            case Module():
                return called(function.name, [*args, *function.args], {**function.named, **named})
            case Mapped():
                return self._mapped(function, args)
            case Word(name=name) if name in _HIGHER:
                return self._higher(name, args, named)
            case Word(name=name) if name in BUILT_IN and not _for_tensors(name, args):
                return BUILT_IN[name](*args, **named)
            case Word(name=name) if name[:1].isupper() and name not in CALLS:
                return Module(module_named(name), tuple(args), named)
            case Word(name=name):
                self._meet_within(name, args, named)
                return called(name, args, named)
        raise Unread("a call of something that is not known")

    def _higher(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """A call that takes a function."""
        function, *operands = args
        match name:
            case "map":
                several = zip(*map(items_of, operands), strict=False)
                return [self._called(function, list(each), {}) for each in several]
            case "filter":
                return [one for one in items_of(operands[0]) if decided(self._called(function, [one], {}))]
            case "reduce":
                return reduce(lambda one, other: self._called(function, [one, other], {}),
                              items_of(operands[0]), *operands[1:])  # fmt: skip
            case "vmap":
                dims = named.get("in_dims", operands[0] if operands else 0)
                return Mapped(function, dims, int(named.get("out_dims", 0)))
        return self._called(function, operands, {})

    def _mapped(self, mapped: Mapped, args: list[Any]) -> Any:
        dims = mapped.in_dims if isinstance(mapped.in_dims, tuple | list) else [mapped.in_dims] * len(args)
        parts = [None if dim is None else called("unbind", [arg, dim], {}) for arg, dim in zip(args, dims, strict=True)]
        count = next(len(part) for part in parts if part is not None)
        results = [
            self._called(mapped.function, [arg if part is None else part[place] for arg, part in
                                           zip(args, parts, strict=True)], {})
            for place in range(count)
        ]  # fmt: skip
        if isinstance(results[0], tuple):
            return tuple(called("stack", [list(each), mapped.out_dims], {}) for each in zip(*results, strict=True))
        return called("stack", [[as_array(result) for result in results], mapped.out_dims], {})

    def _apply(self, closure: Closure, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        given = closure.arguments
        names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
        own: dict[str, Any] = {**closure.defaults, **dict(zip(names, args, strict=False))}
        if given.vararg is not None:
            own[given.vararg.arg] = tuple(args[len(names) :])
        known = {*names, *(argument.arg for argument in given.kwonlyargs)}
        own |= {name: value for name, value in named.items() if name in known}
        if given.kwarg is not None:
            own[given.kwarg.arg] = {name: value for name, value in named.items() if name not in known}
        outer = closure.names.maps if isinstance(closure.names, ChainMap) else [closure.names]
        env = ChainMap(own, *outer)
        if isinstance(closure.body, ast.expr):
            return self.value(closure.body, env)
        return self._body(closure.body, env)


_HIGHER = frozenset(("map", "filter", "reduce", "vmap", "checkpoint"))


def _for_tensors(name: str, args: Sequence[Any]) -> bool:
    """Whether a call that Python and PyTorch both have is PyTorch's."""
    if name in ("range", "len", "list", "tuple", "zip", "enumerate", "float", "int") or name not in CALLS:
        return False
    return bool(args) and isinstance(args[0], Array)


def _plain_math(name: str, args: Sequence[Any]) -> bool:
    if name in ("factorial", "comb", "perm") and not all(isinstance(arg, int) and abs(arg) < 99 for arg in args):
        return False
    return hasattr(math, name) and not any(map(of_data, args)) and not any(isinstance(arg, Array) for arg in args)


def is_module(node: ast.expr, env: Mapping[str, Any]) -> bool:
    """Whether an expression names a module of PyTorch or Python."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES and node.id not in env
