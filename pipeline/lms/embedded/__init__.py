"""The embedded proposers: offline stand-ins for an LM that write STeP programs by search.

They are engines for `dspy.LM`, so they use the same adapter, parsing, accounting and tracking as
any LM:

    engine = engine_named("embedded")  # or "embedded/small"
    dspy.LM(engine.model, engine=engine)

They see the text of a request: the instructions with their solved examples, the demonstrations, the task (its
functions' code and its PyTorch reference as text, never a solution), the temperature and the seed. They never run a
candidate, the reference, a function or `global`; never verify; never interpret names; and keep nothing between
requests except what can be recomputed from the same texts.

What both proposers share:

    engine        requests in, responses out, in this process or in workers
    answering     from a request's text to the answer's, in any process; the guardian's repair
    prompt/       parsing (request → question, examples, task), python_tasks (a task written as a Python script)
    task_view     a task → what can be applied in it: functions, and routings (functions among which an index chooses)
    routings      which routings the functions' types allow
    types/        coercions (one stream type → another by structural primitives: keep, insert, drop, merge and split
                  dims), type_table (the types of one task; at which shape they join, how they fold)
    operands      which streams can be the operands of a function
    draft         a program as a list of moves: applications of a function, or of a routing, to earlier streams
    lowering      a draft → a program: equal nodes once, without dead nodes, Copies inserted
    kinds         types, dims and nodes as statistical models see them, without names
    randomness    a sample's seeded choices, and how sharply scores decide them
    retrieval/    fingerprints (what a function does, independent of names), applications (a solved example without
                  structural primitives), precedents (which of its applications resemble one that is possible now),
                  recommender (what precedents suggest next, while a program grows), habits (what solved tasks suggest
                  about folds, joins and routings), skills (mined patterns as sub-programs), skill_guide (applies them)

The strong proposer interprets the reference and follows it:

    symbolic/     algebra (sums of products over operations), operations, definitions and identities (what calls of
                  PyTorch mean in it), interpreter (code → terms), interpretation (a task's reference and functions →
                  which applications are steps towards the outputs)
    dependence/   paths (by which operations a value depends on its parts), vocabulary (what calls do to paths),
                  reader (code → paths), recurrences (loops and folds), dependences (of a task's outputs, and of what a
                  program computes)
    influence/    arrays (from which positions of the inputs elements get anything), shape_calls, value_calls,
                  layer_calls and calls (what PyTorch does to them), language and reader (code → arrays), functions and
                  streams (the same of what programs compute), task_influence (compared with a task's outputs)
    strong/       draft_search (samples drafts, function first, until all functions are used and only the outputs are
                  left over), reference_guide (a draft's progress along the interpretation), dependence_guide (its
                  dependences, compared with the reference's), dim_guide (its positions), operand_ranking,
                  move_builder (a function and its operands → a move, with coercions and folds), routing_choice (which
                  routings a draft has), output_binding (which streams are the outputs), repetition (functions that
                  are applied again), slicing (drops moves that the outputs do not need), edge_model (n-grams over the
                  edges of programs), beam_search (drafts side by side, with stream_pool, operand_beam, outlook and
                  replay), strong_proposer (one sample: several drafts, one chosen by score)

Most samples follow the interpretation of the reference; some ignore it, as it may be wrong. Temperature flattens or
sharpens every choice. Budgets are counts of steps, so the same seed gives the same answer on any machine.

The small proposer interprets nothing. It sees a function's types and how similar it is to others:

    small/        actions (types → what one primitive can do next), action_model (which action follows which, counted in
                  examples and demonstrations), planning (actions that lead to what a precedent shows), small_proposer
                  (random walks over actions, until one ends in a program)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.lms.embedded.engine import EmbeddedEngine
    from pipeline.lms.embedded.small.small_proposer import SmallProposer
    from pipeline.lms.embedded.strong.strong_proposer import StrongProposer

__all__ = ["EmbeddedEngine", "SmallProposer", "StrongProposer", "engine_named"]
_HOMES = {
    "EmbeddedEngine": "engine",
    "SmallProposer": "small.small_proposer",
    "StrongProposer": "strong.strong_proposer",
}


def engine_named(model: str) -> EmbeddedEngine:
    """Returns the engine for `embedded` or `embedded/small`, with or without a version suffix."""
    from pipeline.lms.embedded.answering import proposer_named
    from pipeline.lms.embedded.engine import EmbeddedEngine

    return EmbeddedEngine(proposer_named(model))


def __getattr__(name: str) -> Any:
    """The classes in `__all__`, imported on first use: a worker process that samples needs no DSPy."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
