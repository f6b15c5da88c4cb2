"""The machinery of settings: fields with options, checked values, and the settings that a resumed run may change."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WrapValidator

from pipeline.base.errors import UsageError

# --- the values that options accept by name ---------------------------------------------------------------------------

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


# --- fields with options, checked values, and the settings that a resumed run may change ------------------------------


@dataclass(frozen=True)
class Option:
    """The properties of a command-line option beyond its field's type and default.

    Attributes:
        resume: Whether the option of a resumed run is `fixed`, so that only the same value may be given, may be
            `changed`, or names an `input` that `request.json` holds a copy of, and can't be given again.
        flags: The option's names; empty for `--` and the field's name.
        nargs: As in argparse, where an option takes several values.
        repeated: Whether the option may be given several times, with a value each.
        check: Checks, and may convert, the text on the command line only.
    """

    help: str
    group: str = ""
    metavar: str | None = None
    resume: Literal["fixed", "changed", "input"] = "fixed"
    flags: tuple[str, ...] = ()
    nargs: str | None = None
    repeated: bool = False
    positional: bool = False
    required: bool = False
    check: Callable[[str], str | None] | None = None

    @classmethod
    def of(cls, model: type[BaseModel], name: str) -> Option:
        """The option of a model's field."""
        return next(each for each in model.model_fields[name].metadata if isinstance(each, cls))


@dataclass(frozen=True)
class OptionGroup:
    """Options that `--help` lists together, under a title."""

    title: str = ""

    def option(self, default: Any, text: str, metavar: str | None = None, **details: Any) -> Any:
        """A field with a default, `...` for none, and an option; `details` are further fields of `Option`."""
        field = Field(default)
        field.metadata.append(Option(text, self.title, metavar, **details))
        return field


option = OptionGroup().option
"""A field in no group; see `OptionGroup.option`."""


def flag(name: str) -> str:
    """A field's name as it is typed on the command line."""
    return f"--{name.replace('_', '-')}"


def _expecting(expected: str) -> WrapValidator:
    """Replaces Pydantic's messages by one that says what was expected and what was found."""

    def validate(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise ValueError(f"expected {expected}, got {value!r}") from None

    return WrapValidator(validate)


def _split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if not values or len(set(values)) < len(values):
        raise ValueError(f"expected distinct numbers, got {','.join(map(str, values))!r}")
    return values


Count = Annotated[int, Field(ge=1), _expecting("a whole number of 1 or more")]
Several = Annotated[int, Field(ge=2), _expecting("a whole number of 2 or more")]
Natural = Annotated[int, Field(ge=0), _expecting("a whole number of 0 or more")]
Repairs = Annotated[int, Field(ge=0, le=MOST_REPAIRS), _expecting(f"a whole number from 0 to {MOST_REPAIRS}")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), _expecting("a number greater than 0")]
Temperatures = Annotated[
    tuple[Annotated[float, Field(ge=0, le=2)], ...],
    AfterValidator(_distinct),
    BeforeValidator(_split),
    _expecting("distinct numbers from 0 to 2, separated by commas"),
]

Price = Annotated[
    tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...],
    Field(min_length=2, max_length=4),
    BeforeValidator(_split),
    _expecting("two to four numbers of 0 or more, separated by commas"),
]


class Config(BaseModel):
    """Frozen settings; every field has an `Option`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def names(cls) -> Iterator[str]:
        """The fields' names, a class's own before those that it inherits."""
        for base in cls.__mro__:
            if issubclass(base, Config):
                yield from (name for name in inspect.get_annotations(base) if name in cls.model_fields)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The settings among given options, with defaults for the rest.

        Raises:
            UsageError: A value is invalid.
        """
        try:
            return cls.model_validate({name: given[name] for name in cls.model_fields if name in given})
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            message = found["msg"].removeprefix("Value error, ")
            raise UsageError(f"{'.'.join(map(str, found['loc']))}: {message}") from None

    def params(self) -> dict[str, object]:
        """The settings that have a value, for MLflow."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if v is not None}

    def resumed(self, given: Mapping[str, Any]) -> Self:
        """These settings, recorded earlier, with the changes that the options on the command line make.

        Options of other models are ignored.

        Raises:
            UsageError: An option contradicts the recorded settings.
        """
        changed = {}
        for name in sorted(given.keys() & type(self).model_fields.keys()):
            resume, recorded = Option.of(type(self), name).resume, getattr(self, name)
            if resume == "input":
                raise UsageError(f"{flag(name)}: the resumed run has its own; omit the option, or start a new run")
            if resume == "changed":
                changed[name] = given[name]
            elif type(self).model_validate({**dict(self), name: given[name]}) != self:
                raise UsageError(f"{flag(name)}: the resumed run has {recorded}; omit the option, or start a new run")
        return self.model_copy(update=changed)
