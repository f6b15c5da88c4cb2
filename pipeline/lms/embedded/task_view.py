"""A proposal's view of a task: its functions as callees, and possible routings. Nothing of the task is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from pipeline.lms.embedded.code_features import constant_indices, crosses, in_order, loop_sizes, sizes_in
from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.dependence.recurrences import rounds_of
from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.influence.task_influence import TaskInfluence
from pipeline.lms.embedded.kinds import Context
from pipeline.lms.embedded.operands import Callee
from pipeline.lms.embedded.prompt.parsing import find_task
from pipeline.lms.embedded.quotients import divided
from pipeline.lms.embedded.routings import find_routings, find_selections, index_makers
from pipeline.lms.embedded.symbolic.interpretation import Interpretation
from pipeline.lms.embedded.types.coercions import cut, dims_of, factors, without_ones
from pipeline.lms.embedded.types.type_table import Need, TypeId, TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, STuple, components_of
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task


def _normalizes(task: Task) -> bool:
    """Whether the reference normalizes exponentials, which has two interpretations, and can take a maximum."""
    codes = "\n".join(code for spec in task.outputs for code in spec.data_transform)
    return ("softmax" in codes or "logsumexp" in codes) and any(
        spec.init is not None and "max" in spec.apply for spec in task.fns
    )


class TaskView:
    """Everything about a task that its samples share."""

    def __init__(self, task: Task) -> None:
        self.divided = divided(task)
        self.task = task = self.divided.task
        self._influence: TaskInfluence | None = None
        scopes = [static_scope(task, index) for index in range(len(task.size_sets()))]
        fixed = {name: size for name, size in scopes[0].sizes.items() if all(s.sizes.get(name) == size for s in scopes)}
        self.scope, self.fixed = scopes[0], fixed
        self.table = TypeTable(self.scope, fixed)
        self.fns = tuple(self.scope.fns.values())
        self.callees = [Callee(fn, components_of(fn.input), self.table) for fn in self.fns]
        self.routings = find_routings(self.scope, self.table)
        self.selections = find_selections(self.scope, self.table, self.routings)
        self.routing_callees = {
            id(r): Callee(r.merge, (*components_of(r.branches[0].input), r.index), self.table, branches=r.branches)
            for r in self.routings
        }
        self.routing_callees |= {
            id(r): Callee(r.merge, (*(r.merge.input,) * r.bits, r.index), self.table, selects=True)
            for r in self.selections
        }
        self._tuples = [(fn.output, len(fn.output.components)) for fn in self.fns if isinstance(fn.output, STuple)]
        self.all_callees = [*self.callees, *self.routing_callees.values()]
        taken = {fn.input for fn in self.fns} | {fn.output for fn in self.fns if fn.stateful}
        given = {fn.output for fn in self.fns} - ({stream.dtype for stream in self.scope.outputs} - taken)
        self._made_tuples = {components_of(dtype) for dtype in given if isinstance(dtype, STuple)}
        self._widths = sorted(map(len, self._made_tuples), reverse=True)
        self._tupled: dict[int, tuple[bool, ...]] = {}
        self._removable: dict[frozenset[Fn], frozenset[Dim] | None] = {}
        self._lacking: dict[frozenset[Fn], tuple[tuple[DType, int], ...]] = {}
        self._stranded: dict[frozenset[Fn], int] = {}
        outputs = {stream.dtype for stream in self.scope.outputs}
        self._final = {id(fn): any(_serves(fn.output, output) for output in outputs) for fn in self.fns}
        self._takers = {id(fn): {id(taker) for taker in self.fns if _takes(taker, fn)} for fn in self.fns}
        self._apart: dict[tuple[int, TypeId, TypeId], bool] = {}
        self._needed = {part for fn in self.fns for part in components_of(fn.input)}
        self._specs = {spec.func_name: spec for spec in task.fns}
        self._counted: dict[int, frozenset[Dim]] = {}
        self._counted_after: dict[int, tuple[frozenset[Dim], ...]] = {}
        self._agreements: dict[tuple[int, int, int], bool] = {}
        self._parts: dict[TypeId, frozenset[Dim]] = {}
        self._plain: dict[TypeId, tuple[Dim, ...]] = {}
        self._shapes: list[tuple[Dim, ...]] = []
        self._shape_numbers: dict[TypeId, int] = {}

    def callees_given(
        self, routings: Sequence[Routing], *, also_alone: bool = False
    ) -> list[tuple[Callee, Routing | None]]:
        """What may be applied with these routings: the routings, and functions that none of them uses, or all.

        What merges is applied alone, too, where nothing else can fold what has to be folded.
        """
        taken = {fn for routing in routings for fn in (*routing.branches, routing.merge) if not also_alone}
        taken -= self._folding(frozenset(routing.merge for routing in routings))
        alone: list[tuple[Callee, Routing | None]] = [
            (callee, None) for callee in self.callees if callee.fn not in taken
        ]
        return [*alone, *((self.routing_callees[id(routing)], routing) for routing in routings)]

    def _folding(self, merging: frozenset[Fn]) -> frozenset[Fn]:
        """Functions that merge, if the inputs have dims that nothing else can fold.

        What makes an index comes before its routing, so that it takes no dim from what is routed.
        """
        makers = index_makers(self.fns)
        removable = self.removable(frozenset(self.fns) - merging - makers)
        if removable is None or any(fn.stateful for fn in makers):
            return frozenset()
        dims = (dim for type_ in self.table.inputs for dim in without_ones(dims_of(self.table.types[type_])))
        return frozenset() if removable.issuperset(dims) else merging

    # The members below interpret the task's code, on first access; the others use only types.

    @cached_property
    def interpretation(self) -> Interpretation:
        """The first of the interpretations."""
        return Interpretation(self.task, self.scope)

    @cached_property
    def interpretations(self) -> tuple[Interpretation, ...]:
        """All interpretations of the task."""
        shifts = (False, True) if _normalizes(self.task) else (False,)
        flats = (False, True) if self.interpretation.ambiguous else (False,)
        ways = [(shifted, flat) for shifted in shifts for flat in flats]
        more = (Interpretation(self.task, self.scope, shifted=shifted, flat=flat) for shifted, flat in ways[1:])
        return (self.interpretation, *more)

    @cached_property
    def dependences(self) -> Dependences:
        """How the outputs, and the functions' results, depend on what they are made of."""
        return Dependences(self.task, self.fixed)

    @property
    def influence(self) -> TaskInfluence:
        """From which positions of the inputs the elements of the outputs, and of streams, get anything."""
        self._influence = (self._influence or TaskInfluence(self.task, self.divided.wholes)).for_sample()
        return self._influence

    @cached_property
    def mixed(self) -> frozenset[Dim]:
        """As `TaskInfluence.mixed`."""
        return self.influence.mixed

    @cached_property
    def pairing(self) -> frozenset[Dim]:
        """The dims along which each element of some streams may meet all those of others, as in the reference."""
        return self.influence.paired or (self.mixed if self.crosses else frozenset())

    @cached_property
    def rounds(self) -> tuple[int, ...]:
        """How often the loops of the reference run, where that is a constant, or a size that only counts steps."""
        sizes = {str(dim): self.fixed[str(dim)] for dim in self.step_dims if str(dim) in self.fixed}
        return rounds_of(self.task, sizes)

    @cached_property
    def step_dims(self) -> frozenset[Dim]:
        """The dims that count steps: a loop of the reference runs along them, and no input or weight has them.

        A function that takes one step folds what is repeated along them.
        """
        codes = (code for spec in self.task.outputs for code in spec.data_transform)
        counted = {name for code in codes for name in loop_sizes(code)}
        given = {
            symbol.name
            for type_ in (*self.task.input_types, *self.task.parameter_types)
            for dim in (*type_.shape, *(inner for part in components_of(type_.dtype) for inner in cut(part)[1]))
            for symbol in dim.free_symbols
        }
        symbols, own = self.task.symbols(), counted - given - self.divided.wholes.keys()
        return frozenset(symbols[name] for name in own & symbols.keys())

    @cached_property
    def crosses(self) -> bool:
        """Whether the reference brings all elements of one value together in pairs, or in order."""
        return any(crosses(code) for spec in self.task.outputs for code in spec.data_transform)

    @cached_property
    def sequential(self) -> bool:
        """Whether the reference does something in an order: in a loop over elements, by positions, or cumulatively."""
        return any(in_order(code) for spec in self.task.outputs for code in spec.data_transform)

    @cached_property
    def context(self) -> Context:
        """What the kinds of this task's programs depend on."""
        return Context.of(self.scope.outputs, frozenset(fn.label for fn in self.fns if self.emits(fn)))

    @cached_property
    def _emits(self) -> dict[int, bool]:
        return {id(fn): self.interpretation.emits(fn) for fn in self.fns}

    @cached_property
    def _projects(self) -> dict[int, bool]:
        return {id(fn): self.interpretation.projects(fn) for fn in self.fns}

    def emits(self, fn: Fn) -> bool:
        """As `Interpretation.emits`."""
        return self._emits[id(fn)]

    def projects(self, fn: Fn) -> bool:
        """As `Interpretation.projects`."""
        return self._projects[id(fn)]

    def tupled(self, callee: Callee) -> tuple[bool, ...]:
        """For each component that a callee needs, whether a function of the task gives it as part of a tuple.

        Such a tuple mostly arrives in one piece, as it was made.
        """
        known = self._tupled.get(id(callee))
        if known is None:
            need = callee.need[: len(callee.need) - callee.routed]
            marks = [False] * len(callee.need)
            place = 0
            while place < len(need):
                width = next((w for w in self._widths if self._in_one_piece(need, place, w)), 1)
                marks[place : place + width] = [width > 1] * width
                place += width
            known = self._tupled[id(callee)] = tuple(marks)
        return known

    def removable(self, left: frozenset[Fn]) -> frozenset[Dim] | None:
        """The dims that a stream may have if only these functions are left to apply; None for any dim."""
        if left not in self._removable:
            consumed = {dim for fn in left for part in components_of(fn.input) for dim in cut(part)[1]}
            folding = any(fn.stateful for fn in left)
            self._removable[left] = None if folding else self.table.kept_dims | consumed
        return self._removable[left]

    def joins(self, left: frozenset[Fn]) -> bool:
        """Whether any of these functions takes several streams, so that a fold may meet its source again."""
        return any(len(need := components_of(fn.input)) > 1 and need not in self._made_tuples for fn in left)

    def counted_after(self, fn: Fn) -> tuple[frozenset[Dim], ...]:
        """The dims whose sizes the functions that can take a function's results compute with, where they do."""
        found = self._counted_after.get(id(fn))
        if found is None:
            takers = (taker for taker in self.fns if id(taker) in self._takers[id(fn)])
            found = self._counted_after[id(fn)] = tuple(dims for taker in takers if (dims := self.counted(taker)))
        return found

    def counted(self, fn: Fn) -> frozenset[Dim]:
        """The dims whose sizes a function computes with, other than those of its own Buffers.

        It mostly averages over them, so they have been folded.
        """
        found = self._counted.get(id(fn))
        if found is None:
            own = {str(part) for dim in self._buffered(fn) for part in (dim, *factors(dim))}
            names = sizes_in(self._specs[fn.label].apply) - own
            dims = {**self.scope.dims, **self.divided.wholes}
            parts = (dims[name].free_symbols for name in names & dims.keys())
            found = self._counted[id(fn)] = frozenset().union(*parts)
        return found

    @staticmethod
    def _buffered(fn: Fn) -> set[Dim]:
        return {dim for dtype in (fn.input, fn.output) for part in components_of(dtype) for dim in cut(part)[1]}

    def dismantles(self, callee: Callee, place: int, type_: TypeId) -> bool:
        """Whether a callee takes elements out of a Buffer that a function takes as it is."""
        dtype = self.table.types[type_].dtype
        return dtype in self._needed and len(cut(callee.need[place])[1]) < len(cut(dtype)[1])

    def diverts(self, callee: Callee, type_: TypeId) -> bool:
        """Whether a callee takes a tuple of equal components that is just what another function takes.

        Other functions take such components by chance, unless they take whole such tuples and nothing else.
        """
        parts = components_of(self.table.types[type_].dtype)
        if len(set(parts)) > 1 or parts == callee.need or callee.need == parts * (len(callee.need) // len(parts)):
            return False
        return any(other.need == parts for other in self.callees)

    def apart(self, fn: Fn, one: TypeId, other: TypeId) -> bool:
        """Whether a function takes streams of these two types of tuples, which can't be brought to one shape.

        A tuple can't be collected in Buffers, so no dim can be inserted outside those that it has.
        """
        key = (id(fn), one, other)
        known = self._apart.get(key)
        if known is None:
            known = self._apart[key] = self._find_apart(components_of(fn.input), one, other)
        return known

    def _find_apart(self, need: Need, one: TypeId, other: TypeId) -> bool:
        dtypes = self.table.types[one].dtype, self.table.types[other].dtype
        parts = [components_of(dtype) for dtype in dtypes]
        places = [{place for place in range(len(need)) if need[place : place + len(part)] == part} for part in parts]
        together = any(a + len(parts[0]) <= b or b + len(parts[1]) <= a for a in places[0] for b in places[1])
        return together and not self.table.joins((one, other), dtypes, self.table.number(parts[0] + parts[1]))

    def stranded(self, left: frozenset[Fn]) -> int:
        """How many of the functions that are left have results that are no outputs and that no other can take."""
        known = self._stranded.get(left)
        if known is None:
            known = self._stranded[left] = sum(
                not self._final[id(fn)] and not any(id(other) in self._takers[id(fn)] for other in left) for fn in left
            )
        return known

    def _in_one_piece(self, need: Need, place: int, width: int) -> bool:
        """Whether components are a tuple that a function gives, and no others of their types by chance."""
        components = need[place : place + width]
        distinct = len(set(components)) > 1 or (width > 2 and components == need)
        return distinct and components in self._made_tuples

    def shortage(self, left: frozenset[Fn], made: Counter[DType]) -> int:
        """How many tuples the functions that are left lack, if each is applied once and each tuple used once."""
        lacking = self._lacking.get(left)
        if lacking is None:
            lacking = self._lacking[left] = tuple(self._find_lacking(left))
        return max((0, *(wanted - made[tuple_] for tuple_, wanted in lacking)))

    def _find_lacking(self, left: frozenset[Fn]) -> Iterator[tuple[DType, int]]:
        """The tuples that functions which are left take and do not give each other, with how many they take."""
        for fn in left:
            need = components_of(fn.input)
            for tuple_, width in self._tuples:
                if len(set(tuple_.components)) < 2 and (width < 3 or tuple_.components != need):
                    continue  # Single elements serve as well.
                wanted = sum(need[place : place + width] == tuple_.components for place in range(len(need)))
                wanted -= sum(other.output == tuple_ for other in left if other is not fn)
                if wanted > 0:
                    yield tuple_, wanted

    def branch_order(self, routing: Routing) -> tuple[Fn | None, ...]:
        """The branches in the order of the indices that only they mention; in the listed order if there are none."""
        if routing.selects:
            return routing.passing()
        indices = [constant_indices(self._specs[fn.label].apply) for fn in routing.branches]
        shared = frozenset.intersection(*indices)
        own = [sorted(mine - shared) for mine in indices]
        if not all(own) or len({tuple(mine) for mine in own}) < len(own):
            return routing.passing()
        ordered = [fn for _, fn in sorted(zip(own, routing.branches, strict=True), key=lambda pair: pair[0])]
        return (*ordered, *routing.passing()[len(ordered) :])

    def agrees(self, fn: Fn, place: int, stream: int) -> bool:
        """As `Interpretation.agrees`; streams that are not inputs agree with everything."""
        if stream >= len(self.table.inputs):
            return True
        key = (id(fn), place, stream)
        if key not in self._agreements:
            self._agreements[key] = self.interpretation.agrees(fn, place, stream)
        return self._agreements[key]

    def plain_shape(self, type_: TypeId) -> tuple[Dim, ...]:
        """A type's stream dims without ones."""
        known = self._plain.get(type_)
        if known is None:
            known = self._plain[type_] = without_ones(self.table.types[type_].shape)
        return known

    def shape_number(self, type_: TypeId) -> int:
        """A number for a type's stream dims without ones."""
        known = self._shape_numbers.get(type_)
        if known is None:
            if (shape := self.plain_shape(type_)) not in self._shapes:
                self._shapes.append(shape)
            known = self._shape_numbers[type_] = self._shapes.index(shape)
        return known

    def shape_numbered(self, number: int) -> tuple[Dim, ...]:
        """The dims that `shape_number` numbers so."""
        return self._shapes[number]

    @cached_property
    def outer_shapes(self) -> tuple[tuple[Dim, ...], ...]:
        """The stream dims of inputs and outputs, without ones, and each of those that count steps."""
        shapes = map(self.plain_shape, (*self.table.inputs, *self.table.outputs))
        return tuple(dict.fromkeys((*shapes, *((dim,) for dim in sorted(self.step_dims, key=str)))))

    def parts(self, type_: TypeId) -> frozenset[Dim]:
        """A type's stream dims without ones, with the factors of products."""
        known = self._parts.get(type_)
        if known is None:
            known = frozenset(part for dim in self.plain_shape(type_) for part in (dim, *factors(dim)))
            self._parts[type_] = known
        return known


def _takes(taker: Fn, maker: Fn) -> bool:
    """Whether a function can take what another one gives, as a tuple or as elements of one kind."""
    if taker is maker:
        return False
    need, given = components_of(taker.input), components_of(maker.output)
    if len(given) > 1:
        return any(need[place : place + len(given)] == given for place in range(len(need)))
    return any(_serves(given[0], part) for part in need)


def _serves(given: DType, need: DType) -> bool:
    """Whether elements of one type, as they are, collected in Buffers or taken out of them, are of another."""
    (element, dims), (wanted, wanted_dims) = cut(given), cut(need)
    width = min(len(dims), len(wanted_dims))
    return element == wanted and dims[:width] == wanted_dims[:width]


@lru_cache(maxsize=256)
def view_of(text: str) -> TaskView | None:
    """The view of the task in a text, shared by its samples; None where the text holds no task."""
    task = find_task(text)
    return None if task is None else TaskView(task)
