"""Demonstrations: from experience to the `demos` of a program's predictors.

Invariants: only the chosen predictors' demonstrations are replaced, in the order given; a demonstration has only fields
of the predictor's signature, at least an input and an output; a predictor that the chosen answer to a task never called
gets no demonstration from it; demonstrations that do not fit the prompt are omitted from the end.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any

import dspy

from optimizers.attempt import TaskExample, to_jsonable
from optimizers.budget import Budget
from optimizers.experience import Entry
from optimizers.ledger import estimate_tokens, message_text
from optimizers.predictors import held, signature_types, with_types
from optimizers.sampling import demo_count, with_fewer_demos
from optimizers.strategies import DemoSet, hardest_first

logger = logging.getLogger(__name__)


def copy_program(student: dspy.Module) -> dspy.Module:
    """A deep copy of the student that shares its LMs: their engines may be expensive or unsafe to copy."""
    shared = {id(lm): lm for lm in held(student)}
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
    program: dspy.Module,
    names: Sequence[str],
    entries: Sequence[Entry],
    most: int | None = None,
    own: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> list[str]:
    """Gives the predictors `names` of `program` the `entries` as their demonstrations, in order, at most `most` each.

    A predictor is shown all of its calls in a solution, or none of them. Without entries it gets its `own`
    demonstrations.

    Returns:
        Those predictors for which no entry has a demonstration.
    """
    without = []
    for name, predictor in program.named_predictors():
        if name in names:
            predictor.demos = [] if entries else list(own.get(name, ()))
            for entry in entries:
                solution = _demos(name, predictor, [entry])
                if most is None or len(predictor.demos) + len(solution) <= most:
                    predictor.demos += solution
            if entries and not predictor.demos:
                without.append(name)
    return without


def prompt_room(lm: Any, context: int | None) -> int | None:
    """Tokens that a prompt may have in a context window that also holds the LM's longest answer; None: no limit."""
    settings = getattr(lm, "kwargs", {})
    longest = settings.get("max_tokens") or settings.get("max_completion_tokens") or 0
    return None if context is None else max(0, context - longest)


def prompt_tokens(predictor: dspy.Predict, demos: Sequence[Any], example: dspy.Example) -> int:
    """Estimated tokens of a request.

    An input that the program itself makes counts as the longest one shown.
    """
    inputs = dict(example.inputs().items())
    for name in predictor.signature.input_fields:
        if shown := [demo[name] for demo in demos if name in demo and name not in inputs]:
            inputs[name] = max(shown, key=lambda value: len(str(value)))
    return sum(estimate_tokens(text) for text in _rendered(predictor.signature, list(demos), inputs))


def _rendered(signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[str]:
    """The texts of a request's messages; of one that the adapter cannot render, those of its fields."""
    adapter = copy.copy(dspy.settings.adapter or dspy.ChatAdapter())
    adapter.callbacks = []
    try:
        with dspy.context(callbacks=[]):  # which do not hear of a prompt that is only measured
            return [message_text(message) for message in adapter.format(signature, demos, inputs)]
    except Exception as error:  # such as an input of another type than its field's
        logger.debug("the size of a prompt is estimated: %s", error)
        shown = [value for fields in (*demos, inputs) for value in dict(fields).values()]
        return [signature.instructions, *signature.fields, *map(str, shown)]


def trimmed(
    program: dspy.Module, examples: Sequence[dspy.Example], room: int | None, most: int | None = None
) -> dspy.Module:
    """A program with as many of its demonstrations, from the first, as fit with every example; itself if all do.

    At most `most` are kept; None: any number.
    """
    count = known = demo_count(program)
    count = count if most is None else min(count, most)
    shown = [predictor for predictor in program.predictors() if predictor.demos]
    while count and room is not None:
        if all(prompt_tokens(each, each.demos[:count], example) <= room for each in shown for example in examples):
            break
        count -= 1
    return program if count == known else with_fewer_demos(program, count)


def fitting(
    program: dspy.Module,
    names: Sequence[str],
    entries: Sequence[Entry],
    examples: Sequence[dspy.Example],
    room: int | None,
) -> int:
    """How many of `entries`, from the first, fit into a prompt of so many tokens with the longest of `examples`."""
    fits = len(entries)
    for name, predictor in program.named_predictors():
        if name in names and room is not None:
            longest = max(examples, key=partial(prompt_tokens, predictor, ()))
            while fits and prompt_tokens(predictor, _demos(name, predictor, entries[:fits]), longest) > room:
                fits -= 1
    return fits


def demo_tokens(program: dspy.Module, names: Sequence[str], entry: Entry) -> int:
    """Estimated tokens that the entry's demonstration adds to a prompt: those of the predictor where it is largest."""
    example, sizes = dspy.Example(entry.inputs).with_inputs(*entry.inputs), [0]
    for name, predictor in program.named_predictors():
        if name in names and (demos := _demos(name, predictor, [entry])):
            sizes.append(prompt_tokens(predictor, demos, example) - prompt_tokens(predictor, (), example))
    return max(sizes)


def within(limit: int, sizes: Iterable[int]) -> int:
    """How many sizes, from the first, sum to at most `limit`."""
    return sum(total <= limit for total in accumulate(sizes))


def _demos(name: str, predictor: dspy.Predict, entries: Sequence[Entry]) -> list[dspy.Example]:
    """The demonstrations of a predictor; adapters silently omit those without an input or an output."""
    signature, types, demos = predictor.signature, signature_types(predictor.signature), []
    for entry in entries:
        for known in entry.calls.get(name, ({**entry.inputs, **entry.outputs},)):
            if known.keys() & signature.input_fields.keys() and known.keys() & signature.output_fields.keys():
                fields = {field: known[field] for field in signature.fields if field in known}
                demos.append(dspy.Example(augmented=True, **with_types(fields, types)))
                demos[-1]._solution = entry.task_key  # see `with_fewer_demos`
                if entry.dearer is not None:
                    cost, outputs = entry.dearer
                    demos[-1].dearer = to_jsonable(outputs) | {"cost": f"{cost:g}", "saving": f"{entry.cost:g}"}
    return demos


def demonstrated_tasks(program: dspy.Module, tasks: Iterable[TaskExample]) -> tuple[str, ...]:
    """The task key of each of a program's demonstrations; `?` if unknown."""
    inputs = {task.key: to_jsonable(dict(task.example.inputs().items())) for task in tasks}
    return tuple(
        next((key for key, known in inputs.items() if known.items() <= demo.items()), "?")
        for predictor in program.predictors()
        for demo in ({field: to_jsonable(value) for field, value in shown.items()} for shown in predictor.demos)
    )


@dataclass(frozen=True)
class ShownDemos:
    """The demonstrations that fit an iteration's prompts, and those that do not.

    Attributes:
        demos: Those shown to any task, hardest first.
        left_out: Those shown to none.
        own_programs: By task, the program with its own demonstrations, where they are chosen per task.
        reasons: By task, and by key of its own demonstrations, why each was chosen.
    """

    demos: Sequence[Entry]
    left_out: Sequence[Entry] = ()
    own_programs: Mapping[str, dspy.Module] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class DemoFitter:
    """Sets demonstrations in programs.

    Attributes:
        names: Names of the predictors that get them; a warning names, once, each that gets none.
        max_demos: Demonstrations of a predictor, at most; a solution with several calls of it counts as so many.
        own: The student's own demonstrations by predictor, shown until the run has demonstrations.
    """

    names: Sequence[str]
    budget: Budget
    max_demos: int | None = None
    own: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)
    _tokens: dict[str, int] = field(default_factory=dict)

    def tokens(self, program: dspy.Module, entry: Entry) -> int:
        """Estimated tokens of a task's demonstration; the first answer holds for the run."""
        if entry.task_key not in self._tokens:
            self._tokens[entry.task_key] = demo_tokens(program, self.names, entry)
        return self._tokens[entry.task_key]

    def set(self, program: dspy.Module, demos: Sequence[Entry]) -> None:
        """Sets a program's demonstrations, whether they fit or not."""
        for name in set_demos(program, self.names, demos, self.max_demos, self.own):
            if name not in self._warned:
                self._warned.add(name)
                why = "the chosen solutions contain no call of it"
                if set_demos(copy_program(program), [name], demos) == []:
                    why = f"each of the chosen solutions has more than max_demos={self.max_demos} calls of it"
                logger.warning("%s gets no demonstrations, as %s", name, why)

    def fit(
        self,
        program: dspy.Module,
        demos: Sequence[Entry],
        tasks: Sequence[TaskExample],
        room: int | None,
        most: int | None = None,
    ) -> ShownDemos:
        """The demonstrations within the limits for prompts with any of the tasks, and the rest, last first."""
        count = len(demos[: self.budget.demos][: self.max_demos][:most])
        if self.budget.demo_tokens is not None:
            sizes = (self.tokens(program, entry) for entry in demos[:count])
            count = within(self.budget.demo_tokens, sizes)
        count = fitting(program, self.names, demos[:count], [task.example for task in tasks], room) if tasks else 0
        return ShownDemos(demos[:count], demos[count:][::-1])

    def show(
        self,
        program: dspy.Module,
        demo_set: DemoSet,
        tasks: Sequence[TaskExample],
        room: int | None = None,
        most: int | None = None,
    ) -> ShownDemos:
        """Sets what fits; demonstrations chosen per task are set in copies of the program, and their union in it."""
        if demo_set.select is None:
            shown = self.fit(program, demo_set.demos, tasks, room, most)
            self.set(program, shown.demos)
            return shown
        kept: dict[str, Entry] = {}
        left_out: dict[str, Entry] = {}
        programs: dict[str, dspy.Module] = {}
        reasons: dict[str, dict[str, str]] = {}
        limits = [limit for limit in (self.budget.context, self.budget.demo_tokens) if limit is not None]
        for task in tasks:
            picks = demo_set.select(task, min(limits, default=None))
            own = self.fit(program, [pick.entry for pick in picks], [task], room, most)
            kept |= {entry.task_key: entry for entry in own.demos}
            left_out |= {entry.task_key: entry for entry in own.left_out}
            programs[task.key] = copy_program(program)
            self.set(programs[task.key], own.demos)
            why = {pick.entry.task_key: pick.reason for pick in picks}
            reasons[task.key] = {entry.task_key: why[entry.task_key] for entry in own.demos}
        union = hardest_first(kept.values())
        self.set(program, union)
        return ShownDemos(union, [entry for key, entry in left_out.items() if key not in kept], programs, reasons)


def entry_keys(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The keys of the entries' tasks, in order."""
    return tuple(entry.task_key for entry in entries)
