"""One sample: several drafts, scored by the interpretation and by the examples, of which one is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.lms.embedded.kinds import Context
from pipeline.lms.embedded.lowering import lower, tidy
from pipeline.lms.embedded.prompt.parsing import Examples, SolvedExample, as_graph
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.precedents import precedents_for
from pipeline.lms.embedded.step_limit import StepLimit, StepsExhausted
from pipeline.lms.embedded.strong.draft_search import DraftSearch, LearnedEdges
from pipeline.lms.embedded.strong.edge_model import EdgeModel
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
"""For a draft whose results depend on the inputs exactly as the outputs do."""
_ALIKE = 0.95
"""The similarity from which results depend on the inputs much as the outputs do."""
_ALONE = 0.7
"""How often a draft then follows only one of interpretation and dependences, mostly the dependences."""
_SUPPORTED = 8.0
"""For a draft each of whose moves has a perfect precedent."""


@dataclass(frozen=True)
class Effort:
    """The effort of one sample; limits are counts, not seconds, so that the seed decides everything.

    A sample chooses from `drafts` finished drafts, or `enough` that compute the reference, out of at most `tries`, and
    from up to `unlike` as long as none computes the reference or depends on the inputs as it does;
    `following` is the share of samples that follow the interpretation of the reference, which may be wrong; after
    `trusted` drafts that do not compute the reference, a sample doubts it.
    """

    drafts: int = 8
    unlike: int = 20
    enough: int = 3
    tries: int = 40
    following: float = 0.9
    trusted: int = 4
    steps: int = 800_000


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

    name = "7"
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
    choice = SeededChoice(seed, 1.0 / (0.3 + temperature))
    interpretations: Sequence[Interpretation | None] = (
        view.interpretations if choice.happens(effort.following) else (None,)
    )
    edge_model, sure, steps = learned.edge_model, 0, StepLimit(effort.steps)
    dependences = view.dependences if choice.happens(effort.following) else None
    searches = [
        DraftSearch(view, learned, choice, steps, interpretation, dependences) for interpretation in interpretations
    ]
    others = [DraftSearch(view, learned, choice, steps, one, None) for one in interpretations]
    others += [DraftSearch(view, learned, choice, steps, None, dependences)] * 2 * len(interpretations)
    found: list[tuple[float, Program]] = []
    alike = False
    for turn in range(effort.tries):
        # Where interpretation and dependences together have led nowhere yet, either alone may.
        alone = dependences is not None and turn >= effort.trusted and not sure and choice.happens(_ALONE)
        search = choice.any_of(others if alone else searches)
        try:
            draft = search.sample()
        except StepsExhausted:
            if (draft := search.best) is None:
                break
        if draft is None:
            continue
        try:
            program, types = lower(view.table, draft, lambda: choice.happens(edge_model.reference_share()))
        except RuleError:
            continue  # A primitive rejects the types after all: the draft is dropped.
        score = edge_model.score(program, types, view.context) - _PER_NODE * len(program.nodes)
        score += (
            _READ * draft.read
            + _SIMILAR * draft.similarity
            + _SUPPORTED * sum(draft.support) / max(len(draft.support), 1)
        )
        found.append((score, program))
        sure += draft.read
        alike = alike or draft.read or draft.similarity > _ALIKE
        if len(found) >= (effort.drafts if alike else effort.unlike) or sure == effort.enough:
            break
    if not found:
        return None
    chosen = choice.pick([program for _, program in found], [score for score, _ in found])
    return print_program(tidy(chosen))
