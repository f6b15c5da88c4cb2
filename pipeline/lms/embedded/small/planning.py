"""How the small proposer reaches a goal: it plans a path of actions first, and follows it if it leads there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import How, how_applied
from pipeline.lms.embedded.retrieval.recommender import Recommendation
from pipeline.lms.embedded.small.action_model import ActionModel, CountedAction, History
from pipeline.lms.embedded.small.actions import Action, ActionTable, Goal
from pipeline.lms.embedded.types.type_table import TypeId

_LONGEST = 10
_THERE = 2.5
"""Score of the function itself against another structural primitive."""


class PathPlanner:
    """Finds paths for one sample, each action weighted by the model."""

    def __init__(self, actions: ActionTable, action_model: ActionModel, choice: SeededChoice) -> None:
        self._actions = actions
        self._action_model = action_model
        self._choice = choice

    def application(
        self, recommendations: Recommendation, all_streams: Sequence[TypeId], all_histories: Sequence[History]
    ) -> list[Action] | None:
        """Structural primitives, then the function as recommended; None if they do not lead there.

        Results of the path are numbered after the existing streams.
        """
        streams, histories = list(all_streams), list(all_histories)
        goal = Goal(recommendations.callee, recommendations.routing, *recommendations.operands)
        seen = {source: {streams[source]} for source in goal.sources}
        path: list[Action] = []
        while len(path) < _LONGEST:
            actions = [
                action
                for action in self._actions.towards(goal, streams)
                if (
                    self.how(action, streams) == recommendations.how
                    if action.fns
                    else action.result not in seen[action.sources[0]]
                )
            ]
            if not actions:
                return None
            taken = [
                CountedAction(action.kind, tuple(histories[source] for source in action.sources)) for action in actions
            ]
            likely = [math.log(self._action_model.weight(one)) for one in taken]
            scores = [score + _THERE * bool(action.fns) for score, action in zip(likely, actions, strict=True)]
            place = self._choice.pick(range(len(actions)), scores)
            path.append(actions[place])
            if path[-1].fns:
                return path
            source, made = path[-1].sources[0], path[-1].result
            seen[len(streams)] = {*seen[source], made}
            goal = goal.moved(source, len(streams))
            streams.append(made)
            histories.append(taken[place].result)
        return None

    def output(self, stream: int, streams: Sequence[TypeId]) -> list[Action] | None:
        """The structural primitives that make a stream an output; none if it is one; None if they cannot."""
        type_, number = streams[stream], stream
        path: list[Action] = []
        while type_ not in self._actions.table.outputs:
            actions = list(self._actions.towards_outputs(number, type_))
            if not actions or len(path) == _LONGEST:
                return None
            path.append(self._choice.any_of(actions))
            type_, number = path[-1].result, len(streams) + len(path) - 1
        return path

    def how(self, action: Action, streams: Sequence[TypeId]) -> How:
        """How an action applies its function."""
        return how_applied(action.op, self._actions.table.types[streams[action.sources[0]]].shape)
