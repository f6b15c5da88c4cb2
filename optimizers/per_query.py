"""Programs that show each query the demonstrations that suit it, as selections per task do while they learn.

A compiled program shows every query the same, and needs DSPy alone. `PerQuery` carries the run's solutions, and needs
this package wherever it is loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

import dspy

from optimizers.demonstrations import copy_program, demo_tokens, set_demos
from optimizers.domain import Domain, Outputs
from optimizers.experience import Entry, Experience, IterationResult
from optimizers.iteration_counts import Trials
from optimizers.metering import mix_in, name_of, predictor_names, replace_lms
from optimizers.sampling import TaskExample
from optimizers.strategies.base import DemoSet, Progress, Trial
from optimizers.strategies.per_task import Chooser, PerTask
from optimizers.strategies.registry import SELECTIONS, make_selection
from optimizers.strategies.structure import utilities
from optimizers.typed_fields import ProgramTypes


@dataclass(frozen=True)
class Solved:
    """A finished run as a strategy sees it."""

    program: dspy.Module
    names: Sequence[str]
    domain: Domain
    entries: Mapping[str, Entry] = field(default_factory=dict)
    tasks: Mapping[str, TaskExample] = field(default_factory=dict)
    unsolved: Sequence[TaskExample] = ()
    iterations: Sequence[IterationResult] = ()
    trials: Sequence[Trial] = ()
    nearest_misses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_demo_tokens: int | None = None
    seed: int = 0

    def structures(self, inputs: Outputs, outputs: Outputs | None) -> frozenset[Hashable]:
        """See `Progress.structures`."""
        return self.domain.structures(inputs, outputs)

    def demo_tokens(self, entry: Entry) -> int:
        """See `Progress.demo_tokens`."""
        return demo_tokens(self.program, self.names, entry)


@dataclass(frozen=True)
class DemoPool:
    """Solved tasks from which the demonstrations of each query are chosen; as a `Selection`, one pass that does so.

    Attributes:
        strategy: Chooses.
        entries: The solved tasks.
        utilities: What showing each has helped, by task key, as `structure.utilities` learns it; 0 for others.
        tokens: Estimated tokens of all demonstrations of a query; None: as many as the strategy has by default.
    """

    strategy: PerTask
    entries: tuple[Entry, ...]
    utilities: Mapping[str, float]
    tokens: int | None = None

    @classmethod
    def of(
        cls, experience: Experience, selection: str | PerTask, domain: Domain, tokens: int | None = None
    ) -> DemoPool:
        """What a run solved, and what its attempts say of each solution's use; none if they are not known.

        Raises:
            ValueError: The strategy does not choose per task.
        """
        trials, attempts = Trials(domain.closeness), groupby(experience.attempts, lambda attempt: attempt.iteration)
        made = {index: list(group) for index, group in attempts}
        for result in experience.iterations if made else ():
            for attempt in made.get(result.index, ()):
                trials.add(attempt)
            trials.finish_iteration({task: tuple(result.reasons.get(task, result.demos)) for task in result.tasks})
        entries = tuple(entry for entry in experience.entries if not entry.fallen)
        return cls(per_task(selection), entries, dict(utilities(trials.finished)), tokens)

    @property
    def name(self) -> str:
        """The strategy's."""
        return self.strategy.name

    def demo_set(self, progress: Progress) -> DemoSet:
        """The demonstrations of each task."""
        chooser = Chooser(self.strategy, progress, self.entries, self.utilities)

        def select(task: TaskExample, experience: Sequence[Entry], token_budget: int | None) -> Sequence[Entry]:
            limits = [limit for limit in (token_budget, self.tokens) if limit is not None]
            return chooser.for_task(task, self.entries, min(limits, default=None))

        return DemoSet(self.name, select=select, reason=chooser.reason)

    def demo_sets(self, progress: Progress) -> Iterator[DemoSet]:
        """That alone."""
        yield self.demo_set(progress)

    def candidates(self, progress: Progress) -> Sequence[DemoSet]:
        """None: what a program shows stays as it is."""
        return ()


def per_task(selection: str | PerTask) -> PerTask:
    """The strategy of a name.

    Raises:
        ValueError: It does not choose per task.
    """
    strategy = make_selection(selection)
    if not isinstance(strategy, PerTask):
        names = ", ".join(name for name in SELECTIONS if isinstance(make_selection(name), PerTask))
        raise ValueError(f"selection: {strategy.name} shows every query the same; expected one of {names}")
    return strategy


class PerQuery(dspy.Module):
    """A compiled program that chooses demonstrations for each query from the solved tasks.

    Args:
        program: The compiled program.
        selection: A strategy that chooses per task, or its name: `similar`, `mmr`, `coverage`, `utility` or `hybrid`.
            The last two use what helped during the run, from the attempts of its record.
        experience: The record of the run; None: the program's own `experience`.
        domain: As for the optimizer.
        token_budget: Estimated tokens of all demonstrations of a query; None: as many as the strategy has by default.

    Raises:
        ValueError: The strategy does not choose per task, or nothing was solved.
    """

    def __init__(
        self,
        program: dspy.Module,
        selection: str | PerTask = "coverage",
        *,
        experience: Experience | None = None,
        domain: Domain | None = None,
        token_budget: int | None = None,
    ) -> None:
        super().__init__()
        strategy = per_task(selection)
        experience = getattr(program, "experience", None) if experience is None else experience
        if experience is None or not experience.entries:
            raise ValueError("experience: it has no solved task to show")
        self.program = copy_program(program)
        self.program._compiled = False  # else DSPy hides its predictors, from listeners to streams and `set_lm`
        for record in ("candidate_programs", "experience"):
            vars(self.program).pop(record, None)
        self._domain = domain or Domain()
        set_demos(self.program, self._names, ())
        self._pool = DemoPool.of(experience, strategy, self._domain, token_budget)
        self._compiled = True

    def forward(self, **inputs: Any) -> Any:
        """The program's prediction, shown what suits these inputs."""
        with dspy.context(adapter=self._showing(inputs)):
            return self.program(**inputs)

    async def aforward(self, **inputs: Any) -> Any:
        """The same, awaited."""
        with dspy.context(adapter=self._showing(inputs)):
            return await self.program.acall(**inputs)

    def choose(self, **inputs: Any) -> list[Entry]:
        """The solved tasks that a query with these inputs is shown, hardest first."""
        task = TaskExample(0, "", dspy.Example(**inputs).with_inputs(*inputs))
        select = self._pool.demo_set(Solved(self.program, self._names, self._domain)).select
        return list(select(task, (), None)) if select else []

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state of the program, and the solved tasks."""
        entries = self._pool.entries
        record = Experience(tuple(entry.task_key for entry in entries), entries)
        own = {"solved": record.to_dict(attempts=False), "utilities": dict(self._pool.utilities)}
        return {**super().dump_state(json_mode=json_mode), **own}

    def load_state(self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Takes over a state of `dump_state`."""
        rest = {name: value for name, value in state.items() if name not in ("solved", "utilities")}
        super().load_state(rest, allow_unsafe_lm_state=allow_unsafe_lm_state)
        types = ProgramTypes(self.program)
        entries = tuple(map(types.entry, Experience.from_dict(state["solved"]).entries))
        self._pool = replace(self._pool, entries=entries, utilities=state["utilities"])

    @property
    def _names(self) -> list[str]:
        """The predictors that get demonstrations."""
        own = self._domain.demo_predictors
        return [name for name, _ in self.program.named_predictors() if own is None or name in own]

    def _showing(self, inputs: Mapping[str, Any]) -> Any:
        """The adapter in use, with the demonstrations of a query, for its thread alone.

        Streams are of the program's own predictors, not of copies.
        """
        twin: dspy.Module = replace_lms(self.program, lambda lm: lm)
        set_demos(twin, self._names, self.choose(**inputs))
        adapter = mix_in(copy.copy(dspy.settings.adapter or dspy.ChatAdapter()), _Showing)
        adapter._names = predictor_names(self.program)
        adapter._chosen = {name: predictor.demos for name, predictor in twin.named_predictors()}
        return adapter


class _Showing:
    """What an adapter that shows chosen demonstrations adds to the class it is mixed into."""

    _names: Mapping[Any, str] = MappingProxyType({})
    _chosen: Mapping[str, Sequence[Any]] = MappingProxyType({})

    def __call__(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> Any:
        return super().__call__(lm, lm_kwargs, signature, self._instead_of(demos), inputs)  # type: ignore[misc]

    async def acall(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> Any:
        return await super().acall(lm, lm_kwargs, signature, self._instead_of(demos), inputs)  # type: ignore[misc]

    def _instead_of(self, demos: Any) -> Any:
        """The chosen demonstrations, unless the running predictor has some, of an optimizer or of its call."""
        *_, predictor = dspy.settings.caller_modules or [None]
        given = demos or getattr(predictor, "demos", None) is not demos
        return demos if given else self._chosen.get(name_of(predictor, self._names) or "", demos)
