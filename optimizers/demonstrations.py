"""Demonstrations: from experience to the `demos` of a program's predictors.

Invariants: only the chosen predictors' demonstrations are replaced, in the order given; a demonstration has fields of
the predictor's signature and no others, an input and an output among them; a predictor that the chosen answer to a task
never called gets no demonstration from it; demonstrations that do not fit the prompt are omitted from the end.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any

import dspy

from optimizers.context_window import Window
from optimizers.experience import Entry
from optimizers.jsonable import to_jsonable
from optimizers.metering import held_lms
from optimizers.prompt_sizes import prompt_size
from optimizers.sampling import TaskExample
from optimizers.usage import estimate_tokens


def copy_program(student: dspy.Module) -> dspy.Module:
    """A deep copy of the student that shares its LMs, whose engines may be expensive or unsafe to copy."""
    shared = {id(lm): lm for lm in held_lms(student)}
    try:
        return copy.deepcopy(student, shared)
    except (TypeError, ValueError, AttributeError, copy.Error):
        return student.deepcopy()  # attribute by attribute, sharing what cannot be copied


def taught_predictors(
    program: dspy.Module, inputs: Sequence[str], names: Sequence[str] | None, traced: bool = True
) -> list[str]:
    """The names of the predictors that get the demonstrations: those chosen, or all.

    `inputs` are the names of the examples' input fields; `traced` says whether predictors are shown their own calls.

    Raises:
        ValueError: The program has no such predictor, or none at all, or takes other inputs; or a predictor takes other
            inputs and is not to be shown its own calls.
    """
    fields = {name: set(predictor.signature.input_fields) for name, predictor in program.named_predictors()}
    if names is None:
        if not fields:
            raise ValueError("the program has no predictor that could get demonstrations")
        own = inspect.signature(forward_of(program)).parameters
        if not {*own, *chain.from_iterable(fields.values())} & set(inputs):
            taken = "; ".join(f"{name} takes {', '.join(needed)}" for name, needed in fields.items())
            raise ValueError(f"the program takes none of the examples' inputs ({', '.join(inputs)}): {taken}")
        names = list(fields)
    if unknown := [name for name in names if name not in fields]:
        raise ValueError(f"the program has no predictor {', '.join(unknown)}; it has {', '.join(fields)}")
    if not traced and (bare := [name for name in names if not fields[name] & set(inputs)]):
        taken = f"{', '.join(bare)} takes none of the examples' inputs ({', '.join(inputs)})"
        raise ValueError(f"{taken}, but Domain(traced_demos=False) shows only these")
    return list(names)


def forward_of(program: dspy.Module) -> Callable[..., Any]:
    """The method that a program's class defines to run it.

    Raises:
        ValueError: It defines none.
    """
    for name in ("forward", "aforward"):
        if method := getattr(type(program), name, None):
            return method  # type: ignore[no-any-return]
    raise ValueError(f"the program {type(program).__name__} defines neither forward nor aforward")


def set_demos(
    program: dspy.Module, names: Sequence[str], entries: Sequence[Entry], most: int | None = None
) -> list[str]:
    """Gives the predictors `names` of `program` the `entries` as their demonstrations, in order, at most `most` each.

    Returns:
        Those predictors for which no entry has a demonstration.
    """
    without = []
    for name, predictor in program.named_predictors():
        if name in names:
            predictor.demos = _demos(name, predictor, entries)[:most]
            if entries and not predictor.demos:
                without.append(name)
    return without


def fitting(
    program: dspy.Module,
    names: Sequence[str],
    entries: Sequence[Entry],
    examples: Sequence[dspy.Example],
    window: Window,
) -> int:
    """How many of `entries`, from the first, fit into the context window with the longest of `examples`."""
    fits = len(entries)
    for name, predictor in program.named_predictors():
        if name in names:
            longest = max(examples, key=partial(prompt_size, predictor, ()))
            while fits and not window.holds(prompt_size(predictor, _demos(name, predictor, entries[:fits]), longest)):
                fits -= 1
    return fits


def demo_tokens(program: dspy.Module, names: Sequence[str], entry: Entry) -> int:
    """Estimated tokens that the entry's demonstration adds to a prompt: those of the predictor where it is largest."""
    size = partial(prompt_size, measure=estimate_tokens)
    example, sizes = dspy.Example(entry.inputs).with_inputs(*entry.inputs), [0]
    for name, predictor in program.named_predictors():
        if name in names and (demos := _demos(name, predictor, [entry])):
            sizes.append(size(predictor, demos, example) - size(predictor, (), example))
    return max(sizes)


def within(limit: int, sizes: Iterable[int]) -> int:
    """How many sizes, from the first, sum to at most `limit`."""
    return sum(total <= limit for total in accumulate(sizes))


def _demos(name: str, predictor: dspy.Predict, entries: Sequence[Entry]) -> list[dspy.Example]:
    """The demonstrations of a predictor; adapters silently omit those without an input or an output."""
    signature, demos = predictor.signature, []
    shown = (call for entry in entries for call in entry.calls.get(name, ({**entry.inputs, **entry.outputs},)))
    for known in shown:
        if known.keys() & signature.input_fields.keys() and known.keys() & signature.output_fields.keys():
            fields = {field: known[field] for field in signature.fields if field in known}
            demos.append(dspy.Example(augmented=True, **fields))
    return demos


def demonstrated_tasks(program: dspy.Module, tasks: Iterable[TaskExample]) -> tuple[str, ...]:
    """The task key of each of a program's demonstrations; `?` if unknown."""
    inputs = {task.key: to_jsonable(dict(task.example.inputs().items())) for task in tasks}
    return tuple(
        next((key for key, known in inputs.items() if known.items() <= demo.items()), "?")
        for predictor in program.predictors()
        for demo in ({field: to_jsonable(value) for field, value in shown.items()} for shown in predictor.demos)
    )
