"""The lines that may legally follow in a program, by types: for whoever chooses a program line by line.

A line is one function, or one routing, applied to inputs and to what earlier lines made, with the structural primitives
that its operands need: they stand above it in the same choice. Copies are left to the pass that inserts them. Listed
are only lines after which the program can still be finished:

- every output can be made, and every function that has not been applied can be, on the way to one;
- whatever nothing uses yet can be used on the way to an output, by the applications that are left: how often functions
  may be applied again is bounded by the caller, and by types where they demand more;
- `return` is the only choice as soon as the outputs are there, every function is applied and nothing is left over.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, permutations, product
from typing import NamedTuple

from pipeline.synthesis.bidirectional_search import TYPES
from pipeline.synthesis.rules import (
    Consumer,
    OrderedRouting,
    ProgramBuilder,
    Rule,
    RuleTable,
    follow,
    index_bits,
    without_placeholder,
)
from pipeline.synthesis.type_space import TypeId, TypeSpace, cut
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.language.parser import parse
from step_runtime.primitives import Accum, Copy, Flatten, Map, Merge, Partition, Primitive, Rules, Scan
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.program.printer import print_node
from step_runtime.tasks.scope import Scope

_MOST_TYPES = 64
_MOST_MEETINGS = 4_000
"""Types of streams, and ways to choose operands by type, that are followed."""
_MOST_STATES = 100
"""States that one search for a way looks at, in each of its orders."""
_FEW_MOVES = 250
_MOST_FRUITLESS = 5
"""Where there are more moves, how many searches may find no way; from then on only the least distance counts."""


class _Move(NamedTuple):
    """What a rule does to types; functions by their places in the task."""

    fns: tuple[int, ...]
    sources: tuple[TypeId, ...]
    result: TypeId


class Outlook(NamedTuple):
    """A program that is begun, by types alone.

    Attributes:
        types: Those of the streams that there are.
        unused: Those of the streams that nothing uses yet, in order.
        times: How often each function is applied, in the order of the task.
    """

    types: frozenset[TypeId]
    unused: tuple[TypeId, ...]
    times: tuple[int, ...]

    def after(self, move: _Move) -> Outlook:
        """The program after an application to streams that nothing uses yet, as far as there are some."""
        unused = [*self.unused, move.result]
        for source in move.sources:
            if source in self.unused and source in unused[:-1]:
                unused.remove(source)
        times = [*self.times]
        for fn in move.fns:
            times[fn] += 1
        return Outlook(self.types | {move.result}, tuple(sorted(unused)), tuple(times))


def functions_in(rule: Rule) -> tuple[Fn, ...]:
    """The functions that a rule applies: its own, and a routing's on branches."""
    branches = rule.apply.branches if isinstance(rule.apply, OrderedRouting) else ()
    return (*(fn for fn in branches if fn is not None), rule.fn)


def consumers_of(table: RuleTable, types: Iterable[TypeId]) -> Iterator[Consumer]:
    """What can take streams of these types: the functions, and the routings by the indices among them."""
    yield from table.functions
    indices = dict.fromkeys(cut(table.space.types[type_].dtype)[0] for type_ in types)
    for index in indices:
        if index_bits(index, table.space.scope.sizes):
            yield from table.routings(index)


def least(rules: Iterable[Rule], more: int = 0) -> list[Rule]:
    """The rules with the fewest choices of structure, or so many more, the fewest first."""
    listed = sorted(rules, key=lambda rule: rule.choices)
    return [rule for rule in listed if rule.choices <= listed[0].choices + more]


class Reachability:
    """What programs of a task can still reach.

    Args:
        table: The rules.
        most_times: How often a function may be applied.

    Attributes:
        needed: The functions that every program applies: all, unless types admit some nowhere on the way to an output.
        usable: The types of streams that can be used on the way to an output, from the inputs on.
        complete: Whether all outputs can be made, and all functions are needed.
    """

    def __init__(self, table: RuleTable, most_times: int) -> None:
        self._table, self._space, self._most_times = table, table.space, most_times
        self._types: dict[TypeId, None] = {}
        self._moves: dict[_Move, None] = {}
        self._met: set[tuple[Consumer, tuple[TypeId, ...]]] = set()
        self._finishing: dict[tuple[int, Outlook], bool] = {}
        self._goals: dict[TypeId, frozenset[int]] = {}
        self._applicable: dict[frozenset[TypeId], tuple[tuple[_Move, ...], frozenset[int]]] = {}
        self._fruitless = 0
        self._fns = [*self._space.scope.fns.values()]
        self._places = {fn: place for place, fn in enumerate(self._fns)}
        self._left: dict[TypeId, int] = {}
        self._extend(self._space.inputs)
        self.usable = frozenset(self._left)
        self._arity = [1] * len(self._fns)
        for move in self._moves:
            self._arity[move.fns[-1]] = max(self._arity[move.fns[-1]], len(move.sources))
        self._needed = sorted({fn for move in self._moves if move.result in self.usable for fn in move.fns})
        self.needed = tuple(self._fns[place] for place in self._needed)
        made = frozenset[int]().union(*map(self._goals_of, self._types))
        self.complete = len(made) == len(self._space.outputs) and len(self.needed) == len(self._fns)

    def outlook(self, types: Iterable[TypeId], unused: Iterable[TypeId], times: Mapping[Fn, int]) -> Outlook:
        """A program that is begun: the types of its streams, of those that nothing uses yet, and what it applies."""
        return Outlook(frozenset(types), tuple(sorted(unused)), tuple(times.get(fn, 0) for fn in self._fns))

    def can_finish(self, now: Outlook, most: int) -> bool:
        """Whether a program can still be finished with so many applications in all, as far as searches find a way."""
        if (most, now) not in self._finishing:
            self._extend(now.types)
            if sum(now.times) + self._distance(now) > most:
                found = False
            elif self._fruitless < _MOST_FRUITLESS or len(self._moves) <= _FEW_MOVES:
                found = self._search(now, most, deep=True) or self._search(now, most, deep=False)
            else:
                found = self.usable.issuperset(now.unused)
            self._finishing[most, now] = found
        return self._finishing[most, now]

    def _moves_from(self, types: frozenset[TypeId]) -> tuple[tuple[_Move, ...], frozenset[int]]:
        """The moves whose operands there are, and the functions that they apply."""
        if types not in self._applicable:
            moves = tuple(move for move in self._moves if types.issuperset(move.sources))
            self._applicable[types] = moves, frozenset(fn for move in moves for fn in move.fns)
        return self._applicable[types]

    def _search(self, start: Outlook, most: int, *, deep: bool) -> bool:
        """Whether there is a way; of all states on it, it is noted.

        A deep search goes on from where the least is left to do, the other one from where the whole is least.
        """
        before: dict[Outlook, Outlook | None] = {start: None}
        steps = {start: 0}
        open_: list[tuple[int, int, int, Outlook]] = [(0, 0, 0, start)]
        for _ in range(_MOST_STATES):
            if not open_:
                return False
            *_, now = heapq.heappop(open_)
            if self._finishing.get((most, now), False) or self._finished(now):
                state: Outlook | None = now
                while state is not None:
                    self._finishing[most, state] = True
                    state = before[state]
                return True
            for after in self._next(now):
                distance = self._distance(after)
                if after in before or sum(after.times) + distance > most:
                    continue
                before[after], steps[after] = now, steps[now] + 1
                rank = (distance, self._detours(after)) if deep else (steps[after] + distance, steps[after])
                heapq.heappush(open_, (*rank, len(before), after))
        self._fruitless += not deep
        return False

    def _next(self, now: Outlook) -> Iterator[Outlook]:
        """The states after applications that bring something new: a function, or a use of what nothing uses yet."""
        unused = set(now.unused)
        for move in self._moves_from(now.types)[0]:
            if all(now.times[fn] < self._most_times for fn in move.fns) and (
                not unused.isdisjoint(move.sources) or not all(now.times[fn] for fn in move.fns)
            ):
                yield now.after(move)

    def _distance(self, now: Outlook) -> int:
        """The least applications that are left: of functions that are missing, and to use what nothing uses yet."""
        missing = [fn for fn in self._needed if not now.times[fn]]
        over = len(now.unused) - len(self._space.outputs) - sum(self._arity[fn] - 1 for fn in missing)
        return len(missing) + max(over, 0)

    def _detours(self, now: Outlook) -> int:
        """Missing functions that can't be applied yet, and applications between unused streams and outputs."""
        applicable = self._moves_from(now.types)[1]
        missing = [fn for fn in self._needed if not now.times[fn] and fn not in applicable]
        return len(missing) + sum(self._left.get(type_, len(self._moves)) for type_ in now.unused)

    def _finished(self, now: Outlook) -> bool:
        """Whether every function is applied, and whatever nothing uses yet is an output."""
        outputs = range(len(self._space.outputs))
        if not all(now.times[fn] for fn in self._needed) or len(now.unused) > len(outputs):
            return False
        goals = [self._goals_of(type_) for type_ in now.unused]
        made = frozenset[int]().union(*map(self._goals_of, now.types))
        return len(made) == len(outputs) and any(
            all(output in own for output, own in zip(order, goals, strict=True))
            for order in permutations(outputs, len(goals))
        )

    def _goals_of(self, type_: TypeId) -> frozenset[int]:
        """The outputs that a stream of a type can be turned into."""
        if type_ not in self._goals:
            goals = enumerate(self._space.outputs)
            self._goals[type_] = frozenset(
                place for place, goal in goals if self._space.path(type_, self._space.types[goal]) is not None
            )
        return self._goals[type_]

    def _to_outputs(self) -> dict[TypeId, int]:
        """How many applications, one after the other, lead from each type to an output; other types are absent."""
        left, depth = {type_: 0 for type_ in self._types if self._goals_of(type_)}, 0
        while sources := {
            source for move in self._moves if move.result in left for source in move.sources if source not in left
        }:
            depth += 1
            left |= dict.fromkeys(sources, depth)
        return left

    def _extend(self, types: Iterable[TypeId]) -> None:
        """Adds types, and what rules make of them."""
        new = [type_ for type_ in types if type_ not in self._types]
        while new:
            self._types |= dict.fromkeys(new)
            made = dict.fromkeys(move.result for move in self._new_moves())
            new = [type_ for type_ in made if type_ not in self._types][: max(_MOST_TYPES - len(self._types), 0)]
            self._left = self._to_outputs()
            self._applicable.clear()

    def _new_moves(self) -> Iterator[_Move]:
        for consumer in consumers_of(self._table, self._types):
            options = [[type_ for type_ in self._types if self._table.serves(type_, part)] for part in consumer.parts]
            for sources in product(*options):
                if (consumer, sources) in self._met:
                    continue
                if len(self._met) >= _MOST_MEETINGS:
                    return
                self._met.add((consumer, sources))
                for rule in least(self._table.rules(consumer, sources)):
                    move = _Move(tuple(self._places[fn] for fn in functions_in(rule)), sources, rule.result)
                    self._moves[move] = None
                    yield move


@dataclass(frozen=True)
class Value:
    """An input, or what a function or a routing makes: a stream, and what flattens the placeholders in its shape."""

    stream: StreamId
    flatten: tuple[Flatten, ...]
    type: TypeId
    is_input: bool
    mapped: Fn | None = None
    """The function whose Map made it, if one did."""


class PartialProgram:
    """The lines of a program so far; Copies in them are left out, as the streams that they give are the same.

    Attributes:
        values: What the next line can use: the inputs, and the results of functions and routings.
        unused: The values that no function, routing or `return` uses.
        times: How often each function is applied.
        returned: Whether the program has ended.
    """

    def __init__(self, scope: Scope, space: TypeSpace) -> None:
        self._rules, self._space = Rules(scope.sizes), space
        self._builder = ProgramBuilder(scope)
        self._names: dict[StreamId, str] = dict(enumerate(scope.inputs))
        self._taken = set(scope.inputs)
        self._origins: dict[StreamId, tuple[Value, ...]] = {}
        self._pieces = set[StreamId]()
        self._values: dict[StreamId, Value] = {}
        self._used = set[Value]()
        self.times = Counter[Fn]()
        self.returned = False
        for stream, type_ in enumerate(space.inputs):
            self._add_value(Value(stream, (), type_, is_input=True))

    @classmethod
    def read(cls, text: str, scope: Scope, space: TypeSpace) -> PartialProgram:
        """The beginning of a program.

        Raises:
            ValueError: It is not the beginning of a well-typed program, or gives two streams one name.
        """
        program, found = parse(text, scope)
        if wrong := [each for each in found if each.code != "return"]:
            raise ValueError(wrong[0].render(text))
        read = cls(scope, space)
        read._read(program)
        return read

    @property
    def values(self) -> tuple[Value, ...]:
        """In the order of their lines."""
        return tuple(self._values.values())

    @property
    def unused(self) -> tuple[Value, ...]:
        """In the order of their lines."""
        return tuple(value for value in self.values if value not in self._used)

    def lines(self) -> Lines:
        """Further lines, none so far."""
        return Lines(self._builder.fork(), dict(self._names), frozenset(self._taken))

    def _read(self, program: Program) -> None:
        numbers = {stream: stream for stream in range(len(program.inputs))}
        for name in program.names.values():
            if name in self._taken:
                raise ValueError(f"the name {name} is given to two streams")
            self._taken.add(name)
        for node in program.nodes:
            inputs = tuple(numbers[stream] for stream in node.inputs)
            if isinstance(node.op, Copy):
                outputs = inputs * 2
            else:
                try:
                    outputs = self._builder.add(node.op, *inputs)
                except RuleError as error:
                    raise ValueError(f"line {node.span.line if node.span else '?'}: {error}") from None
                self._follow(node.op, inputs, outputs)
            numbers |= zip(node.outputs, outputs, strict=True)
            for old, new in zip(node.outputs, outputs, strict=True):
                self._names.setdefault(new, program.name(old))
        self.returned = bool(program.results)
        for result in program.results:
            self._used.update(self._origins.get(numbers[result], ()))

    def _follow(self, op: Primitive, inputs: Sequence[StreamId], outputs: Sequence[StreamId]) -> None:
        """Notes what a primitive uses and makes."""
        origins = tuple(value for stream in inputs for value in self._origins.get(stream, ()))
        if isinstance(op, Map | Accum | Scan | Merge):
            self.times[op.fn] += 1
        if isinstance(op, Map | Accum | Scan | Merge | Partition):
            self._used.update(origins)
        if isinstance(op, Partition) or (not isinstance(op, Merge) and not self._pieces.isdisjoint(inputs)):
            self._pieces.update(outputs)
        elif isinstance(op, Map | Accum | Scan | Merge):
            self._add_value(self._value(outputs[0], op.fn if isinstance(op, Map) else None))
        else:
            self._origins |= dict.fromkeys(outputs, origins)

    def _value(self, stream: StreamId, mapped: Fn | None) -> Value:
        type_ = self._builder.types[stream]
        flatten = tuple(without_placeholder(type_.shape))
        for op in flatten:
            type_ = op.infer((type_,), self._rules)[0]
        return Value(stream, flatten, self._space.intern(type_), is_input=False, mapped=mapped)

    def _add_value(self, value: Value) -> None:
        self._values[value.stream] = value
        self._origins[value.stream] = (value,)


@dataclass
class Lines:
    """Lines that follow a partial program: a backend of rules that shares the program's streams."""

    _builder: ProgramBuilder
    _names: dict[StreamId, str]
    _taken: frozenset[str]
    _before: int = field(init=False)

    def __post_init__(self) -> None:
        self._before = len(self._builder.nodes)

    def add(self, op: Primitive, *inputs: StreamId) -> tuple[StreamId, ...]:
        """The results of a primitive on streams; those of an equal one if there is one already."""
        return self._builder.add(op, *inputs)

    def stream(self, value: Value) -> StreamId:
        """A value's stream without placeholders in its shape."""
        stream = value.stream
        for op in value.flatten:
            stream = self.add(op, stream)[0]
        return stream

    @property
    def nodes_added(self) -> Sequence[Node]:
        """The primitives that are new."""
        return self._builder.nodes[self._before :]

    def text(self, *more: str) -> str:
        """The lines, and more after them."""
        fresh = self._fresh()
        return "\n".join([*(print_node(node, self._names, fresh) for node in self.nodes_added), *more])

    def returning(self, results: Sequence[StreamId]) -> str:
        """The lines, and a `return` of streams after them."""
        lines = self.text()
        last = f"return {', '.join(self._names[stream] for stream in results)}"
        return f"{lines}\n{last}" if lines else last

    def _fresh(self) -> Iterator[str]:
        bases = {name.partition("[")[0] for name in self._taken}
        return (name for number in count() if (name := f"E{number}") not in bases)


MOST_LINES = 256
"""Lines that are listed, the most plausible ones."""
_MORE_CHOICES = 1
"""How many more choices of structure a line may have than the least of those with the same function and operands."""
_MOST_TIMES = 4
"""How often a function may be applied, as in the data's programs."""
_MOST_CANDIDATES = 20_000
_MOST_RETURNS = 24


@dataclass(frozen=True)
class _Application:
    """A rule on values, and how many more choices of structure it makes than needed."""

    rule: Rule
    operands: tuple[Value, ...]
    fns: tuple[Fn, ...]
    excess: int


class NextLines:
    """The legal next lines of one task's programs.

    Args:
        scope: The names of the task; its functions are not called.
        commuting: The functions of two inputs whose order does not matter: lines have one order of them.
    """

    def __init__(self, scope: Scope, commuting: Collection[str] = ()) -> None:
        self._scope, self._commuting = scope, frozenset(scope.fns[name] for name in commuting)
        # Types beyond the declared ones are allowed only where functions and outputs can't be reached without.
        for types in TYPES:
            self._table = RuleTable(TypeSpace(scope, types.spare), types.invented)
            self._space = self._table.space
            self._reach = Reachability(self._table, _MOST_TIMES)
            if self._reach.complete:
                break

    def after(self, text: str, repeats: int | None = None) -> tuple[str, ...]:
        """The lines that may follow the beginning of a program, the most plausible first.

        Each is one or more lines of text, without an end of line at its end. None follow a `return`.

        Args:
            text: The lines so far.
            repeats: The applications of functions that are applied already, over the whole program, if types admit a
                program with so few; by default as many as functions, and one more.

        Raises:
            ValueError: The text is not the beginning of a well-typed program, or of none that can be finished within
                the limits, or it gives two streams one name.
        """
        program = PartialProgram.read(text, self._scope, self._space)
        if program.returned:
            return ()
        returns = dict(sorted(self._returns(program, self._left(program)), key=lambda pair: pair[1]))
        found = [text for text, invented in returns.items() if not invented]
        # Outputs that are constant along a dim are there, but less likely meant: other lines may follow, too.
        found = found or [*returns, *self._applied(program, repeats)]
        # The look-ahead may have been wrong: what is left is then left over.
        found = found or [*dict(self._returns(program, set()))]
        if not found:
            raise ValueError("no line fits: the program can't be finished")
        return tuple(found)[:MOST_LINES]

    def _left(self, program: PartialProgram) -> set[Value] | None:
        """The values that have to be returned, as nothing uses them; None while a function is missing."""
        if any(not program.times[fn] for fn in self._reach.needed):
            return None
        return {value for value in program.unused if self._matters(value)}

    def _returns(self, program: PartialProgram, left: set[Value] | None) -> Iterator[tuple[str, int]]:
        """The ways to return the outputs that take in what is left, each with the dims that it invents."""
        if left is None:
            return
        options = [
            [(value, path) for value in program.values for path in self._space.ways(value.type, output)]
            for output in self._scope.outputs
        ]
        chosen = (each for each in product(*options) if left.issubset(value for value, _ in each))
        for results in islice(chosen, _MOST_RETURNS):
            lines = program.lines()
            text = lines.returning([follow(lines, path, lines.stream(value)) for value, path in results])
            yield text, sum(len(path.invented) for _, path in results)

    def _matters(self, value: Value) -> bool:
        """Whether a value has to be used; an input that types don't admit anywhere has not."""
        return not value.is_input or value.type in self._reach.usable

    def _applied(self, program: PartialProgram, repeats: int | None) -> Iterator[str]:
        count = len(self._reach.needed)
        allowed = count + 1 if repeats is None else min(repeats, count + 1)
        for most in range(count + allowed, 2 * count + 2):
            found = sorted(self._applications(program, most), key=lambda each: _implausibility(each, program))
            # LMs that don't know what to do map a function to its own result, again and again; few programs do.
            others = [each for each in found if not _mapped_to_itself(each)]
            if texts := dict.fromkeys(self._written(program, others)) or [*self._written(program, found)]:
                yield from texts
                return

    def _written(self, program: PartialProgram, applications: Iterable[_Application]) -> Iterator[str]:
        """The lines of applications that make something new."""
        known = {value.stream for value in program.values}
        for each in applications:
            lines = program.lines()
            made = each.rule.write(lines, [lines.stream(value) for value in each.operands])
            if made not in known and lines.nodes_added:
                yield lines.text()

    def _applications(self, program: PartialProgram, most: int) -> Iterator[_Application]:
        types = frozenset(value.type for value in program.values)
        for consumer in consumers_of(self._table, types):
            for operands in self._operands(consumer, program.values):
                rules = least(self._table.rules(consumer, tuple(value.type for value in operands)), _MORE_CHOICES)
                for rule in rules:
                    each = _Application(rule, operands, functions_in(rule), rule.choices - rules[0].choices)
                    if self._can_go_on(program, types, each, most):
                        yield each

    def _operands(self, consumer: Consumer, values: tuple[Value, ...]) -> Iterator[tuple[Value, ...]]:
        options = [[v for v in values if self._table.serves(v.type, part)] for part in consumer.parts]
        found = islice(product(*options), _MOST_CANDIDATES)
        if consumer.index is not None or consumer.fn not in self._commuting or len(set(consumer.parts)) > 1:
            return found
        places = {value: place for place, value in enumerate(values)}
        return (operands for operands in found if [*operands] == sorted(operands, key=places.__getitem__))

    def _can_go_on(self, program: PartialProgram, types: frozenset[TypeId], each: _Application, most: int) -> bool:
        """Whether the program can still be finished after an application, with so many in all."""
        times = program.times + Counter(each.fns)
        if times.total() > most or any(times[fn] > _MOST_TIMES for fn in each.fns):
            return False
        unused = [value.type for value in program.unused if value not in each.operands and self._matters(value)]
        unused.append(each.rule.result)
        return self._reach.can_finish(self._reach.outlook(types | {each.rule.result}, unused, times), most)


def _mapped_to_itself(each: _Application) -> bool:
    return isinstance(each.rule.apply, Map) and any(value.mapped is each.rule.fn for value in each.operands)


def _implausibility(each: _Application, program: PartialProgram) -> int:
    """Choices that types do not force, functions that are applied again, and values that are taken again."""
    again = max(program.times[fn] for fn in each.fns)
    taken = sum(value not in program.unused for value in each.operands)
    return 2 * each.excess + again + taken + len(each.operands) - len(set(each.operands))
