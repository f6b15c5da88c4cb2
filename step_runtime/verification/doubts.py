"""What makes a task's verdicts doubtful: its code is run, and what a wrong program would pass by is named.

References that a constant matches, random ones, functions that fail or read inputs whole, data that does not
vary, and dims that are equal or of one size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from step_runtime.base.errors import TaskCodeError, TaskWarning
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import Buffer, Element, Multihot, StreamType, components_of
from step_runtime.execution.invocation import BeforeRun, Data, apply, element_layout, initial
from step_runtime.execution.number_formats import element_type, exact, same_numbers
from step_runtime.tasks.task import Task, TensorSpec, declared_shapes
from step_runtime.tasks.yaml_format import Location
from step_runtime.verification.compare import close
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.stress import SAMPLES, is_unstressed

_SAMPLES = 5
"""Inputs that a reference is computed on: if few outcomes are possible, two may agree by chance."""
_RUNS = 6
"""Runs of a reference on one input: one that chooses between two values at random agrees with itself in one of 32."""


_MANY = 4_000_000
"""Numbers of a sample beyond which a task's code is tried at the smallest sizes alone."""


def doubts(task: Task, before_run: BeforeRun | None) -> Iterator[TaskWarning]:
    """Runs the task's code at each set of sizes; returns what makes its verdicts unreliable."""
    every, doubted = instances(task, before_run=before_run), False
    sets = [instance.sizes for instance in every]
    least = min(every, key=lambda instance: sum(instance.sizes.values()))
    tried = [instance for instance in every if instance is least or _numbers(instance) <= _MANY]
    yield from _equal_dims(task, sets)
    yield from _fixed_dims(task, sets)
    yield from _function_trials(task, tried)
    yield from _assumptions(tried[0])
    yield from _unstressed(tried[0])
    for instance in tried:
        for index, (spec, values) in enumerate(zip(task.outputs, zip(*_outcomes(instance), strict=True), strict=True)):
            problem = _constant(values)
            if problem is not None:
                doubted = True
                message = f"output {spec.name} {problem.format(instance.place)}"
                yield TaskWarning("constant-output", message, ("outputs", index))
            elif missing := _missing(values):
                message = (
                    f"output {spec.name} is NaN for some inputs, in {missing} numbers at {instance.place}: a program"
                    " that gives NaN there passes"
                )
                yield TaskWarning("nan-output", message, ("outputs", index))
    random = list(_random(task, min(range(len(tried)), key=lambda at: sum(tried[at].sizes.values())), before_run))
    yield from random
    if not doubted and not random:
        yield from _unread(task, tried[0])
        yield from _unvaried_data(task, tried)


def _outcomes(instance: TaskInstance) -> list[list[Data]]:
    """The references of several inputs; no more of them once every output has two that differ."""
    found: list[list[Data]] = []
    for seed in range(_SAMPLES):
        instance.sample_inputs(seed)
        found.append(instance.reference())
        if not any(map(_agree, found[0], found[-1])):
            break
    return found


def _constant(values: Sequence[Data]) -> str | None:
    """The problem with an output whose values do not distinguish several inputs, or None."""
    pairs = [(a, b) for other in values[1:] for a, b in zip(values[0], other, strict=True)]
    if all(torch.equal(a, b) for a, b in pairs):
        return "does not depend on the inputs at {}: any constant would pass"
    if not all(close(a, b) for a, b in pairs):
        return None
    if all(bool(part.isnan().all()) for value in values for part in value):
        return "is NaN throughout at {} for every input"
    return "changes with the inputs by less than the comparison's tolerance at {}: a constant would pass"


def _missing(values: Sequence[Data]) -> str:
    """How many numbers of an output are NaN, where the inputs decide which; empty where they do not."""
    masks = [[part.isnan() for part in value] for value in values]
    if all(all(map(torch.equal, masks[0], other)) for other in masks[1:]):
        return ""
    count, all_ = max((sum(int(part.sum()) for part in mask), sum(part.numel() for part in mask)) for mask in masks)
    return f"{count} of {all_}"


def _unread(task: Task, instance: TaskInstance) -> Iterator[TaskWarning]:
    """Inputs that no output depends on: a program may treat them as it likes."""
    instance.sample_inputs(0)
    values = instance.reference()
    for index, spec in enumerate(task.inputs):
        if not instance.change_input(spec):
            continue
        try:
            others = instance.reference()
        except TaskCodeError:  # it has read the input, then
            continue
        if all(map(_agree, values, others)):
            message = f"no output depends on input {spec.name}: a program may use it in any way and pass"
            yield TaskWarning("unread-input", message, ("inputs", index))


def _random(task: Task, index: int, before_run: BeforeRun | None) -> Iterator[TaskWarning]:
    """The references whose value changes when they, or `global`, run again on one input, at a set of sizes."""
    runs = []
    for seed, often in ((0, 1), (1, _RUNS - 1)):
        instance = TaskInstance(task, task.size_sets()[index], before_run=before_run)
        instance.sample_inputs(0)
        instance.seed = seed
        runs += [instance.reference() for _ in range(often if _is_small(instance) else 1)]
    for number, spec in enumerate(task.outputs):
        first, *again = (run[number] for run in runs)
        if not all(all(map(same_numbers, first, other)) for other in again):
            message = (
                f"reference of output {spec.name} gives other values for the same inputs when it, or `global`, runs"
                " again, which no program can match: it uses random numbers or the time, or keeps state between calls."
                " `global` may draw by torch, whose seed is set before"
            )
            yield TaskWarning("random-reference", message, ("outputs", number))


def _equal_dims(task: Task, sets: Sequence[dict[str, int]]) -> Iterator[TaskWarning]:
    """The dims that the task uses and that are equal at every set of sizes."""
    used = sorted({symbol.name for dims in declared_shapes(task) for dim in dims for symbol in dim.value.free_symbols})
    for one, other in combinations(used, 2):
        if all(sizes[one] == sizes[other] for sizes in sets):
            values = " and ".join(dict.fromkeys(str(sizes[one]) for sizes in sets))
            equal = f"{one} and {other} are both {values} at every set of sizes"
            yield TaskWarning("equal-dims", f"{equal}: a program that takes one for the other may pass", ("sizes",))


_ELEMENTS = 4
"""Elements that a function has to fail on, each with other numbers, before it counts as one that always fails."""

_OF_NUMBERS = (ValueError, ArithmeticError, AssertionError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
"""What code raises that takes other numbers, such as a matrix that is positive definite."""


def _function_trials(task: Task, tried: Sequence[TaskInstance]) -> Iterator[TaskWarning]:
    """Runs each function on elements of its declared types, at each set of sizes.

    Raises:
        TaskCodeError: A function fails on all elements, or returns something other than it declares.
    """
    inputs = {spec.name for spec in task.inputs}
    for index, spec in enumerate(task.fns):
        location, named, found = ("fns", index, "apply"), set[str](), dict[str, str]()
        for instance in tried:
            instance.sample_inputs(0)
            with instance.reads() as read:
                found = {**dict(_trial(instance, instance.fns[spec.func_name], location)), **found}
            named |= read
        for code, message in found.items():
            yield TaskWarning(code, message, location)
        for name in sorted(inputs & named):
            message = (
                f"function {spec.func_name} reads input {name} by name, and so all of it at once: a program that"
                f" passes too little of it on may pass. Make it an argument of the function"
            )
            yield TaskWarning("input-by-name", message, location)


def _trial(instance: TaskInstance, fn: Fn, location: Location) -> Iterator[tuple[str, str]]:
    """Codes and messages: what is doubtful on the first element on which a function succeeds, or why it fails on all.

    Raises:
        TaskCodeError: It fails on all of them, whatever their numbers.
    """
    generator = torch.Generator().manual_seed(0)
    causes: list[TaskCodeError] = []
    for number in range(_ELEMENTS):
        element = [_sample(part, instance, number, generator) for part in components_of(fn.input)]
        try:
            with instance.author_code(f"function {fn.label}", location):
                first, *again = (_call(fn, element, instance) for _ in range(_RUNS))
        except TaskCodeError as error:
            causes.append(error.__cause__ if isinstance(error.__cause__, TaskCodeError) else error)
            continue
        kinds = zip(first, components_of(fn.output), strict=True)
        if any(part.dtype == torch.bool and declared.format.kind == "float" for part, declared in kinds):
            yield (
                "bool-function",
                (
                    f"function {fn.label} returns a bool; it is converted to 0 or 1, which hardware may not do:"
                    " write .to(input[0].dtype)"
                ),
            )
        if not all(all(map(same_numbers, first, other)) for other in again):
            yield (
                "random-function",
                (
                    f"function {fn.label} gives other results for the same element when it runs again: it uses random"
                    " numbers or the time, or keeps state between calls; no verdict on a program with it is certain"
                ),
            )
        return
    where = f"at {instance.place}, on each element of its declared type that was tried: of random numbers, ones, zeros"
    of_code = [cause for cause in causes if not isinstance(cause.__cause__, _OF_NUMBERS)]
    if len(of_code) == _ELEMENTS:
        raise TaskCodeError(f"{instance.task.name}: {causes[0]}, {where}", location) from causes[0].__cause__
    yield "function-fails", str(TaskCodeError(f"{causes[0]}, {where}", location))


def _call(fn: Fn, element: list[Tensor], instance: TaskInstance) -> Data:
    state: list[Data] = [initial(fn, instance.sizes, instance.dtype)] if fn.stateful else []
    return apply(fn, [*state, [part.clone() for part in element]], instance.sizes, None)


def _sample(element: Element, instance: TaskInstance, number: int, generator: torch.Generator) -> Tensor:
    """A component: random numbers, ones, zeros, then random numbers again; one bit of a Multihot, then another."""
    shape, kind = element_layout(element, instance.sizes), element_type(element, instance.dtype)
    if isinstance(element, Multihot):
        return one_hot(torch.tensor(number % shape[-1]), shape[-1]).expand(shape).to(kind)
    if number in (1, 2):
        return torch.full(shape, 2 - number, dtype=kind)
    uniform = torch.rand(shape, dtype=torch.float64, generator=generator)
    return (uniform if element.format.kind == "float" else uniform < 0.5).to(kind)


UNSTRESSED = "unstressed-input"
"""The code of a warning that matters only where stress inputs do."""

_MOST_SAMPLES = 20
"""Samples that have to agree before data counts as unvaried: few values are possible where data is small."""


def _agree(one: Data, other: Data) -> bool:
    """Whether two values of an output are close."""
    return all(close(a, b) for a, b in zip(one, other, strict=True))


def _unvaried_data(task: Task, tried: Sequence[TaskInstance]) -> Iterator[TaskWarning]:
    """The inputs and parameters that the references read and whose data is constant: at every seed, or along a dim.

    A program that takes one element for another, or a constant for the input, agrees with the reference on such data.
    A constant input that no reference reads is none of them: a program may count its elements.
    """
    for place, spec, stream in task.tensors():
        dims, parts = [str(dim) for dim in reversed(stream.shape)], range(len(components_of(stream.dtype)))
        fault = next(filter(None, (_unvaried(spec, part, dims, tried) for part in parts)), None)
        if fault and any(_depends(instance, spec, len(stream.shape)) for instance in tried):
            message = f"{place[0][:-1]} {spec.name} {fault}: a program that is wrong for other data may pass"
            yield TaskWarning("constant-input", message, place)


def _unvaried(spec: TensorSpec, part: int, dims: Sequence[str], tried: Sequence[TaskInstance]) -> str | None:
    """How a component of an input is constant, if it is; `dims` are in torch's order."""

    def sample(one: TaskInstance, seed: int) -> Tensor:
        return one.sampled(seed)[spec.name][part]

    # Lazily: what varies shows it in two samples, and samples may be large.
    cases = [(one, seed) for one in tried for seed in range(_MOST_SAMPLES)]
    if all(torch.equal(sample(one, 0), sample(one, seed)) for one, seed in cases if seed):
        return "has the same data at every seed"
    for axis, dim in enumerate(dims):
        longer = [(one, seed) for one, seed in cases if sample(one, 0).shape[axis] > 1]
        if longer and all(_repeats(sample(one, seed), axis) for one, seed in longer):
            return f"has the same data all along {dim}"
    return None


def _repeats(data: Tensor, axis: int) -> bool:
    if not torch.equal(data.select(axis, 0), data.select(axis, 1)):
        return False
    return torch.equal(data, data.narrow(axis, 0, 1).expand(data.shape))


def _depends(instance: TaskInstance, spec: TensorSpec, axes: int) -> bool:
    """Whether an output depends on an input: on the order of its elements, or where they are equal, on their values."""
    instance.sample_inputs(0)
    values = instance.reference()
    instance.replace_input(spec, tuple(_other(part, axes) for part in instance.sampled(0)[spec.name]))
    try:
        others = instance.reference()
    except TaskCodeError:  # it has read the input, then
        return True
    finally:
        instance.sample_inputs(0)
    return not all(map(_agree, values, others))


def _other(data: Tensor, axes: int) -> Tensor:
    """The elements in another order; where all are equal, some of them zero, or ones where they are zeros."""
    generator = torch.Generator().manual_seed(0)
    elements = data.reshape(prod(data.shape[:axes]), *data.shape[axes:])
    shuffled = elements[torch.randperm(len(elements), generator=generator)].reshape(data.shape)
    if not torch.equal(shuffled, data):
        return shuffled
    chosen = torch.rand(data.shape, generator=generator) < 0.5
    numbers = exact(data)
    other = numbers * ~chosen if bool(numbers.any()) else chosen
    return other.to(data.dtype)


def _fixed_dims(task: Task, sets: Sequence[dict[str, int]]) -> Iterator[TaskWarning]:
    """The dims of streams and their Buffers, and the symbols of code alone, that have one size in every set.

    What Multihots have, the number of experts, may: programs name each of them; so may what only parameters have.
    """
    streams = (*task.input_types, *task.output_types)
    used = {symbol.name for stream in streams for dim in _all_dims(stream) for symbol in dim.free_symbols}
    types = [*(stream.dtype for stream in streams), *(dtype for pair in task.fn_types for dtype in pair)]
    elements = [getattr(element, "elem", element) for dtype in types for element in components_of(dtype)]
    used -= {each.name for one in elements if isinstance(one, Multihot) for each in one.length.free_symbols}
    typed = {symbol.name for dims in declared_shapes(task) for dim in dims for symbol in dim.value.free_symbols}
    for name in sorted(used | (task.used_symbols - typed)):
        if name in sets[0] and len({sizes[name] for sizes in sets}) == 1:
            where = "" if name in used else ", and no stream has it"
            fixed = f"{name} is {sets[0][name]} at every set of sizes{where}"
            message = f"{fixed}: a program that is right for this size only passes"
            yield TaskWarning("fixed-dim", message, ("sizes", name))


def _all_dims(stream: StreamType) -> tuple[Dim, ...]:
    """The dims of a stream, and those of its Buffers."""
    elements = components_of(stream.dtype)
    return (*stream.shape, *(dim for element in elements if isinstance(element, Buffer) for dim in element.dims))


def _unstressed(instance: TaskInstance) -> Iterator[TaskWarning]:
    """Inputs without stress values: an expression gives their data, and its range is unknown."""
    for index, spec in enumerate(instance.task.inputs):
        samples = [instance.sampled(seed)[spec.name] for seed in range(SAMPLES)]
        if any(is_unstressed(spec, [exact(part) for part in parts]) for parts in zip(*samples, strict=True)):
            message = (
                f"input {spec.name} is not stressed: its data_gen does not show which other numbers may occur; use a"
                " generator such as normal or uniform, or declare the reference's assumptions in assumes"
            )
            yield TaskWarning(UNSTRESSED, message, ("inputs", index, "data_gen"))


def _assumptions(instance: TaskInstance) -> Iterator[TaskWarning]:
    """Inputs whose data breaks the assumptions that the task states."""
    data = instance.sampled(0)
    for place, spec, stream in instance.task.tensors():
        elements = components_of(stream.dtype)
        for name in spec.assumes:
            if not all(_holds(name, *each) for each in zip(data[spec.name], elements, strict=True)):
                message = f"{place[0][:-1]} {spec.name} is assumed {name}, and its data_gen gives other numbers"
                yield TaskWarning("assumption", message, (*place, "assumes"))


def _holds(assumption: str, data: Tensor, element: Element) -> bool:
    part = exact(data)
    if assumption == "sums_to_1":
        return torch.allclose(part.sum(-1), torch.ones((), dtype=part.dtype), rtol=max(element.format.rtol, 1e-5))
    return bool((part > 0).all() if assumption == "positive" else (part >= 0).all())


_LARGEST = 2**20
"""The most numbers of a task's data with which its references may run often."""


def _is_small(instance: TaskInstance) -> bool:
    return _numbers(instance) <= _LARGEST


def _numbers(instance: TaskInstance) -> int:
    """The numbers of all data of a sample."""
    return sum(part.numel() for data in instance.sampled(0).values() for part in data)
