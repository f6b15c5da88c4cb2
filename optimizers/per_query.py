"""Programs that show each query the demonstrations that suit it, as `coverage` does while it learns.

A compiled program shows every query the same, and needs DSPy alone. `PerQuery` carries the run's solutions, and needs
this package wherever it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import dspy

from optimizers.attempt import TaskExample
from optimizers.demonstrations import copy_program, demo_tokens, set_demos
from optimizers.domain import Domain
from optimizers.experience import Entry, Experience
from optimizers.predictors import ProgramTypes, name_of, predictor_names, replace_lms
from optimizers.requests import extended
from optimizers.strategies import DemoPool


class PerQuery(dspy.Module):
    """A compiled program that chooses demonstrations for each query from the solved tasks.

    Args:
        program: The compiled program.
        experience: The record of the run; None: the program's own `experience`.
        domain: As for the optimizer.
        token_budget: Estimated tokens of all demonstrations of a query; None: as many as cover it.

    Raises:
        ValueError: Nothing was solved.
    """

    def __init__(
        self,
        program: dspy.Module,
        *,
        experience: Experience | None = None,
        domain: Domain | None = None,
        token_budget: int | None = None,
    ) -> None:
        super().__init__()
        experience = getattr(program, "experience", None) if experience is None else experience
        if experience is None or not experience.entries:
            raise ValueError("experience: it has no solved task to show")
        self.program = copy_program(program)
        self.program._compiled = False  # else DSPy hides its predictors, from listeners to streams and `set_lm`
        for record in ("candidate_programs", "experience"):
            vars(self.program).pop(record, None)
        self._domain = domain or Domain()
        set_demos(self.program, self._names, ())
        self._pool = DemoPool.of(experience, token_budget)
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
        chooser = self._pool.chooser(self._domain, partial(demo_tokens, self.program, self._names))
        return [pick.entry for pick in chooser.for_task(task)]

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state of the program, and the solved tasks."""
        entries = self._pool.entries
        record = Experience(tuple(entry.task_key for entry in entries), entries)
        return {**super().dump_state(json_mode=json_mode), "solved": record.to_dict(attempts=False)}

    def load_state(self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Takes over a state of `dump_state`."""
        rest = {name: value for name, value in state.items() if name != "solved"}
        super().load_state(rest, allow_unsafe_lm_state=allow_unsafe_lm_state)
        types = ProgramTypes(self.program)
        entries = tuple(map(types.entry, Experience.from_dict(state["solved"]).entries))
        self._pool = replace(self._pool, entries=entries)

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
        adapter = extended(dspy.settings.adapter or dspy.ChatAdapter(), _Showing)
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
