"""One sample: several drafts, scored by the interpretation and by the examples, of which one is chosen."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.kinds import Context
from pipeline.lms.embedded.lowering import lower, structure, tidy
from pipeline.lms.embedded.prompt.parsing import Examples, SolvedExample, as_graph
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.precedents import precedents_for
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.draft_search import DraftSearch, LearnedEdges
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.repetition import in_rounds
from pipeline.lms.embedded.strong.routing_choice import choose_callees
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.symbolic.interpretation import Interpretation
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.errors import RuleError
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope

_PER_NODE = 0.3
_READ = 12.0
"""For a draft that computes the interpreted reference; otherwise a longer program is less likely."""
_SIMILAR = 60.0
"""For a draft whose results depend on the inputs exactly as the outputs do,"""
_SIMILAR_DOUBTED = 10.0
_UNDOUBTED = 0.9
"""and, in half of the samples, where no draft is as similar as this: then the dependences may be misread."""
_REGARDLESS = 0.12
"""How often similarity does not count where the moves of drafts are compared, as it may be misread anywhere."""
_ALIKE = 0.95
"""The similarity from which results depend on the inputs much as the outputs do."""
_AGREES = 0.95
"""The part of its elements' origins from which on a draft may be right. Others do not count as finished."""
_MOSTLY = 0.4
"""From this share of steps along the interpretation on, drafts are made by it."""
_CONTENT = 0.5
"""How often a sample is content with drafts that were sampled one by one, where enough were finished: made by the
interpretation, or some of which depend on the inputs much as the reference does."""
_WIDELY = 0.8
"""How often a beam search follows where drafts that are sampled one by one do not compute the reference,"""
_FOLLOWING = 0.15
_LED = 0.35
"""and the part of the steps for them: at first, and where the interpretation leads somewhere or none need follow."""
_TRUST = (1.0, 0.3)
"""How much a beam search trusts the dependences, one of these at random."""
_MOST_FINISHED = 40
"""How many of its drafts are compared with others."""
_ORDERED = 0.7
"""How often it trusts that functions are listed in the order in which they are applied first."""
_ONCE = 0.5
"""How often the first one applies every function once,"""
_ONCE_LOOPED = 0.15
"""where a loop of the reference says how often something is done,"""
_CHOOSY = 0.5
"""and how often it then considers more choices of operands for each function."""
_HABIT, _ALIKENESS, _WORTH = 0.2, 3.0, 1.6
"""How much the examples, similarity and the moves of drafts count where the moves are compared,"""
_UNWEIGHED = -8.0
"""and what the moves of a draft that was sampled on its own are worth there."""
_ALONE = 0.7
"""How often a draft then follows only one of interpretation and dependences, mostly the dependences."""
_PLACED = 5.0
"""For a draft whose elements come from just where those of the reference do, as those of nearly all right ones."""
_IN_ROUNDS = 3.0
"""For a draft that applies a function as often as a loop of the reference runs."""
_SUPPORTED = 8.0
"""For a draft each of whose moves has a perfect precedent."""


@dataclass(frozen=True)
class Effort:
    """The effort of one sample; limits are counts, not seconds, so that the seed decides everything.

    A sample chooses from `drafts` finished drafts, or `enough` that compute the reference, out of at most `tries`,
    and from up to `unlike` as long as none computes the reference or depends on the inputs much as it does. In most
    samples, these take a part of the `steps`, and beam searches follow where none computes the reference: up to
    `searches`, until one finds a draft whose elements come from where those of the reference do, or up to `readable`
    where its formulas are known, until one finds a draft that has them; `following` is the
    share of samples that follow the interpretation of the reference, which may be wrong; after `trusted` drafts
    that do not compute the reference, a sample doubts it.
    """

    drafts: int = 8
    unlike: int = 20
    enough: int = 3
    tries: int = 40
    following: float = 0.9
    trusted: int = 4
    searches: int = 2
    readable: int = 4
    steps: int = 380_000


@lru_cache(maxsize=128)
def learned_for(view: TaskView, read: Examples) -> LearnedEdges:
    """What instructions and relevant demonstrations teach about a task."""
    precedents = precedents_for(view, read)
    return LearnedEdges(edge_model_of(precedents.weights(read)), precedents)


def edge_model_of(weights: Mapping[SolvedExample, float]) -> EdgeModel:
    """The model of solved tasks, each with its weight."""
    edge_model = EdgeModel()
    for solved, weight in weights.items():
        if (found := as_graph(solved)) is not None:
            program, types, _ = found
            edge_model.learn(program, types, _context_of(solved), weight)
    return edge_model


@lru_cache(maxsize=1024)
def _context_of(solved: SolvedExample) -> Context:
    scope = static_scope(solved.task)
    interpretation = Interpretation(solved.task, scope)
    return Context.of(scope.outputs, frozenset(name for name, fn in scope.fns.items() if interpretation.emits(fn)))


class StrongProposer:
    """The strong proposer."""

    name = "19"
    """Changes whenever a request may get another answer under the same seed, as it is part of the LM's name."""
    how = (
        "I read the PyTorch code as text, draw programs function by function along that reading, with the structural"
        " primitives that types ask for, and choose among a few by the examples; nothing is run."
    )

    def __init__(self, effort: Effort | None = None) -> None:
        self._effort = effort or Effort()

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        """A program's text; None if no draft is finished."""
        return propose(view, learned_for(view, read), seed, temperature, self._effort)


def propose(view: TaskView, learned: LearnedEdges, seed: int, temperature: float, effort: Effort) -> str | None:
    """As `StrongProposer.propose`, given what was learned."""
    return _Sample(view, learned, SeededChoice(seed, 1.0 / (0.3 + temperature)), effort).answer()


def _promise(draft: Draft) -> float:
    """What a draft of a beam search promises before its program is known."""
    return _ALIKENESS * _SIMILAR * draft.similarity + _WORTH * draft.worth


class _Found(NamedTuple):
    """A draft's program.

    Attributes:
        program: The program.
        habit: How usual it is.
        fit: How it fits the reference, similarity left out.
        similarity: How much its results depend on the inputs as the outputs do, from 0 to 1.
        worth: What its moves are worth, if that is known.
    """

    program: Program
    habit: float
    fit: float
    similarity: float
    worth: float | None

    def score(self, similar: float, *, compared: bool) -> float:
        """Its score, among drafts whose moves' worth is `compared`, or not; `similar` is what similarity counts."""
        alike = similar * self.similarity
        if not compared:
            return self.habit + self.fit + alike
        worth = _UNWEIGHED if self.worth is None else self.worth
        return _HABIT * self.habit + self.fit + _ALIKENESS * alike + _WORTH * worth


class _Sample:
    """One sample: the drafts that it found, and their scores."""

    def __init__(self, view: TaskView, learned: LearnedEdges, choice: SeededChoice, effort: Effort) -> None:
        self._view = view
        self._learned = learned
        self._choice = choice
        self._effort = effort
        self._steps = StepLimit(effort.steps)
        self._found: list[_Found] = []
        self._sure = 0
        self._agreeing = 0
        """Drafts whose elements come from where those of the reference do;"""
        self._alike = False
        self._plenty = False
        self._followed = 0.0
        self._computing: Program | None = None

    def answer(self) -> str | None:
        """A program's text; None if no draft is finished."""
        interpretations: Sequence[Interpretation | None] = (
            self._view.interpretations if self._choice.happens(self._effort.following) else (None,)
        )
        dependences = self._view.dependences if self._choice.happens(self._effort.following) else None
        widely = self._choice.happens(_WIDELY)
        self._follow(interpretations, dependences, widely=widely)
        widely = widely or not self._agreeing or self._readable
        if self._computing is None and widely and not self._sure and not self._content():
            self._search_widely()
        if self._computing is not None:
            return print_program(self._view.divided.written(tidy(self._computing)))
        if not self._found:
            return None
        compared = any(found.worth is not None for found in self._found)
        undoubted = max(found.similarity for found in self._found) >= _UNDOUBTED
        similar = _SIMILAR if undoubted else self._choice.any_of((_SIMILAR, _SIMILAR_DOUBTED))
        if compared and self._choice.happens(_REGARDLESS):
            similar = 0.0
        best: dict[Hashable, tuple[float, Program]] = {}
        for found in self._found:
            key, score = structure(found.program), found.score(similar, compared=compared)
            if key not in best or best[key][0] < score:
                best[key] = score, found.program
        scores, programs = zip(*best.values(), strict=True)
        return print_program(self._view.divided.written(tidy(self._choice.pick(programs, scores))))

    def _content(self) -> bool:
        """Whether drafts that were sampled one by one suffice: in some samples, where enough of them may be right."""
        followed = self._followed / max(len(self._found), 1) > _MOSTLY
        plenty = self._plenty and not self._readable
        return plenty and (followed or self._alike) and self._choice.happens(_CONTENT)

    @property
    def _readable(self) -> bool:
        """Whether the formulas of the outputs are known, so that a draft that computes them is recognized."""
        return self._view.influence.needs is not None

    def _follow(
        self, interpretations: Sequence[Interpretation | None], dependences: Dependences | None, *, widely: bool
    ) -> None:
        """Samples drafts one by one, with a part of the steps where drafts are then searched for `widely`."""
        at_first, most = (int(self._effort.steps * share) for share in (_FOLLOWING, _LED))
        self._steps.most = at_first if widely else most
        common = (self._view, self._learned, self._choice, self._steps)
        searches = [DraftSearch(*common, one, dependences) for one in interpretations]
        others = [DraftSearch(*common, one, None) for one in interpretations]
        others += [DraftSearch(*common, None, dependences)] * 2 * len(interpretations)
        for turn in range(self._effort.tries):
            # Where interpretation and dependences together have led nowhere yet, either alone may.
            doubted = dependences is not None and turn >= self._effort.trusted and not self._sure
            search = self._choice.any_of(others if doubted and self._choice.happens(_ALONE) else searches)
            try:
                draft = search.sample()
            except StepsExhausted:
                draft = search.best
                if search.followed > _MOSTLY and self._steps.most < most:
                    self._steps.most = most  # The interpretation leads somewhere.
                elif draft is None:
                    break
            if draft is not None:
                self._keep(draft)
                self._followed += search.followed
            if self._computing is not None:
                break
            self._plenty = self._agreeing >= (self._effort.drafts if self._alike else self._effort.unlike)
            if self._plenty or self._sure == self._effort.enough:
                break
        self._steps.most = self._effort.steps

    def _search_widely(self) -> None:
        """Beam searches, where drafts one by one do not compute the reference, until one finds a draft that may.

        One that applies every function once is followed by another, as the reference may need more.
        """
        once = self._choice.happens(_ONCE_LOOPED if self._view.rounds else _ONCE)
        for number in range(self._effort.readable if self._readable else self._effort.searches):
            search = self._beam_search(once=once and number == 0)
            with suppress(StepsExhausted):
                search.run()
            if search.finished and search.finished[-1].computes:
                self._keep(search.finished[-1], search.finished[-1].worth)
                return
            for draft in heapq.nlargest(_MOST_FINISHED, search.finished, key=_promise):
                self._keep(draft, draft.worth)
            agreeing = any(draft.agreement > _AGREES for draft in search.finished) and not search.style.once
            if (agreeing and not self._readable) or self._steps.used > self._steps.most:
                return

    def _beam_search(self, *, once: bool) -> BeamSearch:
        given = choose_callees(self._view, self._learned.precedents.habits, self._choice)
        style = SearchStyle(
            trust=self._choice.any_of(_TRUST),
            ordered=self._choice.happens(_ORDERED),
            once=once,
            choosy=once and self._choice.happens(_CHOOSY),
        )
        return BeamSearch(
            self._view,
            self._learned.edge_model,
            self._choice,
            self._steps,
            tuple(routing for _, routing in given if routing is not None),
            style=style,
            memory=self._learned.memory,
        )

    def _keep(self, draft: Draft, worth: float | None = None) -> None:
        """Adds the program of a draft, whose moves are `worth` a score, if that is known."""
        edge_model = self._learned.edge_model
        try:
            program, types = lower(self._view.table, draft, lambda: self._choice.happens(edge_model.reference_share()))
        except RuleError:
            return  # A primitive rejects the types after all: the draft is dropped.
        if draft.computes:
            self._computing = program
        habit = edge_model.score(program, types, self._view.context) - _PER_NODE * len(program.nodes)
        habit *= 1.0 - draft.repeated  # A section counts once.
        fit = _READ * draft.read
        fit += _PLACED * (draft.agreement == 1.0)
        fit += _IN_ROUNDS * in_rounds(draft, self._view.rounds)
        fit += _SUPPORTED * sum(draft.support) / max(len(draft.support), 1)
        self._found.append(_Found(program, habit, fit, draft.similarity, worth))
        self._sure += draft.read
        self._agreeing += draft.agreement > _AGREES
        self._alike = self._alike or draft.read or draft.similarity > _ALIKE
