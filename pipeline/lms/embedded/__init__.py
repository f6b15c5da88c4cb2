"""The embedded LM: an offline stand-in for an LM that samples STeP programs from the search's space of programs.

It is an engine for `dspy.LM`, so it uses the same adapter, parsing, accounting and tracking as any LM:

    engine = engine_named("embedded")  # or "embedded/50": so many candidates a sample
    dspy.LM(engine.model, engine=engine)

    engine     requests in, responses out; answers are made in isolated workers
    answering  from a request's text, its question, examples and task, to the answer's; the guardian's repair

It sees the text of a request: the instructions with their solved examples, the demonstrations, the task, the
temperature and the seed. It runs the functions and the reference of the task that is asked for, in workers as those
that verify; the code of examples and demonstrations is read and never run. It never asks the verifier. The programs
come from `pipeline.synthesis`: a chart of the task, costs learned from the solved tasks shown, and samples from both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.lms.embedded.engine import EmbeddedEngine

__all__ = ["CANDIDATES", "EmbeddedEngine", "engine_named"]

CANDIDATES = 8
"""The dial: streams that a sample may try between one landmark of the reference and the next. With 8, the benchmark
has tasks that only demonstrations bring within reach."""


def engine_named(model: str) -> EmbeddedEngine:
    """The engine of `embedded`, or of `embedded/N`, whose samples may try N candidates."""
    from pipeline.lms.embedded.engine import EmbeddedEngine

    dial = model.partition("/")[2]
    return EmbeddedEngine(int(dial) if dial else CANDIDATES)


def __getattr__(name: str) -> Any:
    """The engine's class, imported on first use: a worker process that samples needs no DSPy."""
    if name == "EmbeddedEngine":
        return import_module(f"{__name__}.engine").EmbeddedEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
