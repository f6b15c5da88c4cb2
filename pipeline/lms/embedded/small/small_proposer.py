"""The small proposer: a random walk over typed actions, weighted by its examples.

Any action that types allow may be next, weighted by the `ActionModel`. Only where a solved example shows a similar
function applied to similar streams (`Recommender`) does the walk aim there, with a probability that grows with the
similarity. A walk ends when every function is applied and the unused streams are the outputs; a walk that takes too
long is abandoned, and another starts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.kinds import Context
from pipeline.lms.embedded.lowering import ProgramBuilder, route, tidy, zipped
from pipeline.lms.embedded.prompt.parsing import Examples, SolvedExample, as_graph
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.precedents import Precedents, precedents_for
from pipeline.lms.embedded.retrieval.recommender import Recommendation, Recommender, choose_order
from pipeline.lms.embedded.retrieval.skill_guide import SkillGuide
from pipeline.lms.embedded.small.action_model import INPUT, ActionModel, CountedAction, History
from pipeline.lms.embedded.small.actions import Action, ActionTable
from pipeline.lms.embedded.small.planning import PathPlanner
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.type_table import TypeId
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.primitives import Merge, RepeatRef
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import Scope

_TRIES = 5
_OFFERED = 5
"""Steps that weighting an action counts for."""
_STEPS = 400_000
"""Steps that a sample may take, see `StepLimit`."""
_SPARE = 8
"""The number of actions that a walk may take in addition to two per function."""
_GIVES_UP = 0.3
"""The probability that a walk ends which has applied every function but has streams left over."""
_FOLLOWED = 0.95
"""The probability of following a perfect precedent."""
_KEEN = 5.0
"""How strongly the better one of several is preferred."""
_LEAST = 1e-3
"""The lower bound of support."""

# Its knowledge of its goal, as scores.
_EAGER = 2.5
"""For a function that is not applied yet."""
_HOPELESS = -4.0
"""For an action after which the remaining functions could not join all streams."""
_WAITS = 1.5
"""For a stream that such a function could take."""


class SmallProposer:
    """The small proposer."""

    name = "small-10"
    """Changes whenever a request may get another answer under the same seed, as it is part of the LM's name."""
    how = (
        "I write one primitive after the other, any that types allow, weighted by what followed what in the examples,"
        " and do as they do where functions and streams are like theirs; nothing is run."
    )

    def __init__(self, steps: int = _STEPS) -> None:
        self._steps = steps

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        """A program's text; None if no walk ends."""
        choice = SeededChoice(seed, 1.0 / (0.3 + temperature))
        actions, learned = _actions_of(view), learned_for(view, read)
        limit = StepLimit(self._steps)
        for _ in range(_TRIES):
            walk = Walk(actions, learned, choice, limit)
            try:
                results = walk.run()
                if results is not None:
                    return print_program(view.divided.written(tidy(walk.program(results))))
            except StepsExhausted:
                return None
            except RuleError:
                continue  # A primitive rejects the types after all: the walk is dropped.
        return None


class LearnedActions(NamedTuple):
    """What was learned, weighted by relevance to one task."""

    action_model: ActionModel
    precedents: Precedents


@lru_cache(maxsize=256)
def _actions_of(view: TaskView) -> ActionTable:
    return ActionTable(view)


@lru_cache(maxsize=128)
def learned_for(view: TaskView, read: Examples) -> LearnedActions:
    """What instructions and relevant demonstrations teach about a task."""
    precedents = precedents_for(view, read)
    return LearnedActions(action_model_of(precedents.weights(read)), precedents)


def action_model_of(weights: Mapping[SolvedExample, float]) -> ActionModel:
    """The model of solved tasks, each with its weight."""
    action_model = ActionModel()
    for solved, weight in weights.items():
        if (found := as_graph(solved)) is not None:
            program, types, scope = found
            action_model.learn(program, types, Context.of(scope.outputs, frozenset()), weight)
            for listed in _routings_as_listed(program, scope):
                action_model.note_order(listed, weight)
    return action_model


def _routings_as_listed(program: Program, scope: Scope) -> list[bool]:
    """For each Merge, whether the functions that made its streams are in the order in which the task lists them."""
    makers = {stream: fn for node in program.nodes for fn in node.op.functions() for stream in node.outputs}
    listing = list(scope.fns.values())
    merges = (node for node in program.nodes if isinstance(node.op, Merge))
    found = ([listing.index(makers[stream]) for stream in node.inputs if stream in makers] for node in merges)
    return [places == sorted(places) for places in found]


class Walk:
    """One attempt at a program."""

    def __init__(self, actions: ActionTable, learned: LearnedActions, choice: SeededChoice, limit: StepLimit) -> None:
        self._limit = limit
        self._actions = actions
        self._action_model = action_model = learned.action_model
        self._precedents = learned.precedents
        self._choice = choice
        self._taken: list[Action] = []
        self._orders: list[Sequence[Fn | None]] = []
        self._streams: list[TypeId] = []
        self._histories: list[History] = []
        self._uses: list[int] = []
        self._heads = list(range(len(actions.table.inputs)))
        """The inputs and the results of functions; other streams are reshapes of these."""
        self._open: list[list[tuple[Action, float]]] = []
        """For each stream the actions that take it, alone or with older ones."""
        self._waiting: list[int] = []
        """Streams made since actions were last collected."""
        self._passed: list[frozenset[TypeId]] = []
        """For each stream the types passed through by structural primitives since a function made it."""
        self._left = set(actions.view.fns)
        self._done: dict[tuple[object, ...], int] = {}
        """The actions taken, and their results."""
        self._logs = {name: math.log(action_model.share(name)) for name in ("applied", "used", "older")}
        self._paths = PathPlanner(actions, action_model, choice)
        self._recommender = Recommender(learned.precedents, self._streams, actions.callees_given, limit)
        self._skills = SkillGuide(learned.precedents, actions.callees_given, self._streams, self._uses, choice)
        for type_ in actions.table.inputs:
            self._add(type_, INPUT, frozenset())

    def run(self) -> tuple[int, ...] | None:
        """Walks; returns the streams that are the outputs, or None if the walk does not end."""
        for _ in range(2 * len(self._actions.view.fns) + _SPARE):
            results = None if self._left else self._results()
            if results is not None:
                return results
            if not self._left and self._choice.happens(_GIVES_UP):
                return None
            advised = self._recommended()
            if advised is not None:
                self._follow(advised)
                continue
            if self._skilled():
                continue
            self._look_around()
            focus = [stream for stream, actions in enumerate(self._open) if actions]
            if not focus:
                return None
            actions = self._open[self._choice.pick(focus, [self._interest(stream) for stream in focus])]
            chosen = self._choice.pick(actions, [self._score(*one) for one in actions])
            actions.remove(chosen)
            if chosen[0].key not in self._done:
                self._take(chosen[0])
        return None if self._left else self._results()

    def _recommended(self) -> list[Action] | None:
        """What precedents recommend next, with a probability by their quality: an application, or an output."""
        recommendations: list[Recommendation | int] = [*self._recommender.recommendations()]
        support = [one.support for one in recommendations if isinstance(one, Recommendation)]
        if not self._left:
            ends = [stream for stream in self._heads if not self._uses[stream]]
            recommendations += ends
            support += [self._recommender.ending(stream) for stream in ends]
        if not recommendations or not self._choice.happens(_FOLLOWED * max(support)):
            return None
        chosen = self._choice.pick(recommendations, [_KEEN * math.log(max(one, _LEAST)) for one in support])
        if not isinstance(chosen, Recommendation):
            return self._paths.output(chosen, self._streams)
        self._recommender.rejected(chosen)
        return self._paths.application(chosen, self._streams, self._histories)

    def _skilled(self) -> bool:
        """Takes the next step of a skill, if there is one that can be taken."""
        step = self._skills.next(set(self._actions.view.fns) - self._left)
        path = None if step is None else self._paths.application(step, self._streams, self._histories)
        if path is None:
            self._skills.drop()
            return False
        self._skills.made(self._follow(path)[-1])
        return True

    def _follow(self, path: Sequence[Action]) -> list[int]:
        """Takes the actions of a path, except for those already taken; returns their results."""
        first, numbers = len(self._streams), list[int]()
        for planned in path:
            sources = (source if source < first else numbers[source - first] for source in planned.sources)
            action = planned._replace(sources=tuple(sources))
            if action.key not in self._done:
                self._take(action)
            numbers.append(self._done[action.key])
        return numbers

    def _interest(self, stream: int) -> float:
        """The probability that a stream is used next."""
        waits = any(action.fns and action.fns[0] in self._left for action, _ in self._open[stream])
        newest = stream == len(self._streams) - 1 or not self._taken
        return _WAITS * waits + self._logs["used"] * bool(self._uses[stream]) + (0 if newest else self._logs["older"])

    def _score(self, action: Action, score: float) -> float:
        taken = sum(bool(self._uses[source]) for source in action.sources)
        score += self._logs["used"] * (taken + 2 * (len(action.sources) - len(set(action.sources))))
        score += _HOPELESS * self._scatters(action)
        return score + (_EAGER if action.fns[0] in self._left else self._logs["applied"]) if action.fns else score

    def _scatters(self, action: Action) -> bool:
        """Whether an action leaves more streams than the remaining functions could join."""
        fresh = sum(not self._uses[source] for source in set(action.sources))
        strays = self._uses.count(0) - fresh + 1
        joining = sum(self._actions.arity[fn] - 1 for fn in self._left if fn not in action.fns)
        return strays - joining > len(self._actions.table.outputs)

    def _take(self, action: Action) -> None:
        for source in set(action.sources):
            self._uses[source] += 1
        self._taken.append(action)
        self._done[action.key] = newest = len(self._streams)
        waited = bool(self._left)
        self._left.difference_update(action.fns)
        self._orders.append(() if action.routing is None else self._order(action.routing))
        self._add(
            action.result, self._as_taken(action).result, frozenset() if action.fns else self._passed[action.sources[0]]
        )
        if action.fns:
            self._heads.append(newest)
            how = self._paths.how(action, self._streams)
            self._recommender.applied(action.routing or action.fns[0], how, action.sources, newest)
        else:
            self._recommender.reshaped(action.sources[0], newest)
        if waited and not self._left:
            for stream, used in enumerate(self._uses):
                if stream in self._waiting:
                    continue
                self._offer(stream, () if used else self._actions.towards_outputs(stream, self._streams[stream]))

    def _order(self, routing: Routing) -> tuple[Fn | None, ...]:
        """An order of branches: like that of precedents, or as listed, with the observed frequency."""
        share = self._action_model.share("listed")
        others = max(math.factorial(routing.bits) - 1, 1)
        return choose_order(routing, self._precedents, self._choice, math.log(others * share / (1 - share)))

    def _add(self, type_: TypeId, history: History, passed: frozenset[TypeId]) -> None:
        self._streams.append(type_)
        self._histories.append(history)
        self._uses.append(0)
        self._passed.append(passed | {type_})
        self._open.append([])
        self._waiting.append(len(self._streams) - 1)

    def _look_around(self) -> None:
        """Collects the actions on the streams made since the last time, except for those within a path."""
        waiting, self._waiting = self._waiting, []
        for stream in waiting:
            if not self._uses[stream] or stream in self._heads:
                self._offer(stream, self._actions.with_newest(self._streams[: stream + 1], self._uses, self._limit))
                if not self._left:
                    self._offer(stream, self._actions.towards_outputs(stream, self._streams[stream]))

    def _offer(self, stream: int, actions: Iterable[Action]) -> None:
        for action in actions:
            self._limit.spend(_OFFERED)
            if action.fns or action.result not in self._passed[action.sources[0]]:
                weight = self._action_model.weight(self._as_taken(action))
                self._open[stream].append((action, math.log(weight)))

    def _as_taken(self, action: Action) -> CountedAction:
        return CountedAction(action.kind, tuple(self._histories[source] for source in action.sources))

    def _results(self) -> tuple[int, ...] | None:
        """A stream for every output, including all unused streams."""
        outputs = self._actions.table.outputs
        strays = [stream for stream, used in enumerate(self._uses) if not used]
        if len(strays) > len(outputs):
            return None
        fitting = [[s for s, type_ in enumerate(self._streams) if type_ == output] for output in outputs]
        ways = []
        for way in itertools.product(*fitting):
            self._limit.spend()
            if set(strays) <= set(way):
                ways.append(way)
        return self._choice.any_of(ways) if ways else None

    def program(self, results: tuple[int, ...]) -> Program:
        """The walk as a program; Copies are not yet in it."""
        builder = ProgramBuilder(self._actions.view.scope)
        number = list(range(len(self._actions.table.inputs)))
        for action, order in zip(self._taken, self._orders, strict=True):
            sources = [number[source] for source in action.sources]
            if action.routing is not None:
                number.append(route(builder, order, action.routing.merge, sources))
            elif isinstance(action.op, RepeatRef):
                number.append(builder.add(action.op, *sources)[0])
            elif action.op is not None:
                number.append(builder.add(action.op, zipped(builder, sources))[0])
        return builder.program(tuple(number[stream] for stream in results))
