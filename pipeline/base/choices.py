"""The values that options accept by name, each written once; the module imports only `typing`."""

from typing import Literal, get_args

GuardianMode = Literal["gated", "paper", "compiler", "none"]
ProposerKind = Literal["predict", "cot", "react", "typed"]
PromptKind = Literal["full", "short", "bare"]
OptimizerName = Literal["adaptive", "none", "bootstrap", "random-search", "mipro", "simba", "gepa"]
SelectionName = Literal["adaptive", "everything", "random", "coverage", "relevance", "savings", "resample"]
FloatType = Literal["float64", "float32"]
Figure = Literal["memory", "traffic", "operations", "time", "queue"]
"""The figures of a program's cost, as `step_runtime.base.units.Figure`, which takes longer to import."""
Objective = Literal["correctness", "memory", "time", "traffic", "operations"]
"""What a run prefers among right answers; by `correctness` alone, the shortest."""

ORIGINAL = "original"
"""The sizes that a task names, in place of sizes."""


def sizes_of(text: str) -> dict[str, int]:
    """Sizes such as `D=16,M=5`; raises `ValueError` for other text."""
    pairs = [[word.strip() for word in part.partition("=")[::2]] for part in text.split(",")]
    if not all(name.isidentifier() and size.isdigit() and int(size) for name, size in pairs):
        raise ValueError(f"expected sizes such as D=16,M=5, got {text!r}")
    return {name: int(size) for name, size in pairs}


def sizes_text(text: str) -> str:
    """The text of sizes, or `original`; raises `ValueError` for other text."""
    if text != ORIGINAL:
        sizes_of(text)
    return text


GUARDIANS: tuple[GuardianMode, ...] = get_args(GuardianMode)
PROPOSERS: tuple[ProposerKind, ...] = get_args(ProposerKind)
PROMPTS: tuple[PromptKind, ...] = get_args(PromptKind)
OPTIMIZERS: tuple[OptimizerName, ...] = get_args(OptimizerName)

SELECTIONS: tuple[SelectionName, ...] = get_args(SelectionName)

MOST_REPAIRS = 100
"""Repairs of one answer, each a request, that a run or a compiled program may ask for."""

RESAMPLE: SelectionName = "resample"
"""The control of the others: it shows nothing, and samples until a limit."""

REFLECTING: tuple[OptimizerName, ...] = ("mipro", "simba", "gepa")
"""Optimizers that have an LM write instructions."""

VALIDATING: tuple[OptimizerName, ...] = ("adaptive", "random-search", "mipro", "gepa")
"""Optimizers that use a validation set."""

EMBEDDED = "embedded"
"""The LM that needs no key and no network."""

SEARCH = "search"
"""Classical synthesis, which `pipeline.generate` accepts in place of a proposer."""

ALL = "all"
"""The LM and classical synthesis, one after the other: the default of `pipeline.generate`."""

NO_PROGRAM = "none"
"""The uncompiled agent, in place of a compiled program's file."""


def is_embedded(model: str) -> bool:
    """Whether a model's name is that of an embedded LM."""
    return model.partition("/")[0] == EMBEDDED
