"""A task, and one sample of the program at it with its outcome: frozen values, for records and listeners.

Invariants: an attempt is scored, with the metric's verdict, or unscored, because there was no answer, no verdict, or an
unknown verdict; an unscored attempt never counts as a wrong answer and enters no success rate. Only a user's
`failure_score` scores it.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import enum
import inspect
import math
import os
import pickle
import tempfile
from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import comb
from typing import Any, SupportsFloat, overload

import dspy

from optimizers.errors import MetricError
from optimizers.ledger import TokenCount

# --- JSON data of a field ---------------------------------------------------------------------------------------------
# Hand-written where `pydantic_core.to_jsonable_python` exists, since tasks are named by a digest of this text: here
# sets are sorted, whose order there differs between processes, and DSPy's examples are supported.


def _text(value: Any) -> Any:
    return to_jsonable(value.value) if isinstance(value, enum.Enum) else str(value)


def to_jsonable(value: Any, other: Callable[[Any], Any] = _text) -> Any:
    """`value` as dict, list, str, int, float, bool and None.

    Pydantic models and dataclasses become dicts, a DSPy example or prediction becomes the dict of its fields, an array
    becomes a list, and an object with `__jsonable__` what that gives. Anything else becomes what `other` returns for
    it, by default its `str`, or an Enum's value: a record that lacks a detail is better than a run that ends over it.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if (own := getattr(value, "__jsonable__", None)) is not None and not isinstance(value, type):
        return own()
    if hasattr(value, "model_dump"):
        try:
            return value.model_dump(mode="json")
        except ValueError:  # it contains values outside JSON
            return other(value)
    if hasattr(value, "toDict"):
        return to_jsonable(value.toDict(), other)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name), other) for field in dataclasses.fields(value)}
    return _elements(value, other)


def _elements(value: Any, other: Callable[[Any], Any]) -> Any:
    """A container, or anything else."""
    if hasattr(value, "tolist"):  # arrays, whose text omits the middle of long ones, and their numbers
        return to_jsonable(value.tolist(), other)
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item, other) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((to_jsonable(item, other) for item in value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [to_jsonable(item, other) for item in value]
    return other(value)


# --- the metric, in every form that DSPy's optimizers accept ----------------------------------------------------------
# Invariant: a metric is handed no more than it asks for.

Metric = Callable[..., Any]

JUDGE = "LM judge"
"""The name in records for requests of a metric; its space keeps it apart from names of predictors."""

ARGUMENTS = 5
"""The most arguments of a metric, as for DSPy's GEPA: example, prediction, trace, predictor's name, its trace."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checked_metric(metric: Any, traced: bool = True) -> Metric:
    """The metric as a function of an example, a prediction and a trace.

    A metric that requires more than an example and a prediction gets the trace, and None for what only DSPy's GEPA has.
    One with an optional `trace` gets it if `traced`: by it DSPy's metrics, such as `SemanticF1`, know that they select
    demonstrations, and say whether an answer is right in place of how good it is. A coroutine is awaited.

    Raises:
        TypeError: It is not a function, or not one of an example and a prediction.
    """
    expected = "expected a function of an example and a prediction"
    if not callable(metric):
        raise TypeError(f"metric: {expected}, found {type(metric).__name__}")
    try:
        named = inspect.signature(metric.forward if isinstance(metric, dspy.Module) else metric).parameters
    except (AttributeError, TypeError, ValueError):  # some functions written in C have no signature
        return lambda example, prediction, trace: resolved(metric(example, prediction))
    parameters = named.values()
    required = [each for each in parameters if each.default is each.empty]
    positional = sum(each.kind in _POSITIONAL for each in required)
    accepted = sum(each.kind in _POSITIONAL for each in parameters)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        accepted = ARGUMENTS
    only_named = [each.name for each in required if each.kind is each.KEYWORD_ONLY]
    if accepted < 2 or positional > ARGUMENTS or only_named:
        raise TypeError(f"metric: {expected}, found one of ({', '.join(named)})")
    trace_of = named.get("trace")
    unset = trace_of is not None and trace_of.default is None and trace_of.kind is not _POSITIONAL[0]
    optional = traced and positional <= 2 and unset

    def judge(example: dspy.Example, prediction: Any, trace: Any) -> Any:
        arguments = (example, prediction, trace, None, None)
        return resolved(metric(*arguments[: max(2, positional)], **({"trace": trace} if optional else {})))

    return judge


def resolved(value: Any) -> Any:
    """The value, or the result of awaiting it; also within a running event loop, as in a notebook."""
    if not inspect.isawaitable(value):
        return value
    awaiting = _awaited(value)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaiting)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, awaiting).result()


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def read_verdict(verdict: Any) -> tuple[float | None, dict[str, Any]]:
    """The score, and the metric's further fields; None for a verdict with the field `unscored` true.

    A metric that gives None, as a function without a `return` does, says that the answer is wrong.

    Raises:
        MetricError: It returned no score.
        ValueError: The score is not a finite number.
    """
    if verdict is None:
        return 0.0, {}
    feedback = dict(verdict.items()) if hasattr(verdict, "items") else {}
    score = feedback.pop("score", None) if feedback else verdict
    if not isinstance(score, SupportsFloat) or isinstance(score, dspy.Prediction):
        found = " ".join(repr(verdict).split())
        raise MetricError(f"it gave {found:.80}, expected a number, a bool, or a prediction with a score")
    if not math.isfinite(score):
        raise ValueError(f"it gave a score of {score}, expected a finite number")
    return None if feedback.get("unscored") else float(score), feedback


# --- a task, and an attempt at it -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskExample:
    """One example to solve: its index in its set, its name, and the example itself."""

    index: int
    key: str
    example: dspy.Example = field(compare=False)


Calls = Mapping[str, tuple[Mapping[str, Any], ...]]
"""The fields of calls, by predictor."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sample.

    Attributes:
        iteration: Index of the iteration, from 0; negative for one on the validation set.
        task: Index of the task in its set.
        task_key: The task's name.
        temperature: Sampling temperature.
        sample: Index among the samples of this task at this temperature, from 0.
        seed: Seed of the sample's first call, from which those of further calls derive; unique to the sample, the same
            in every run of one seed.
        outputs: Fields of the prediction; empty where there is none.
        text: The LM's answer, if it could not be parsed into a prediction; else None.
        score: The metric's score, 0.0 for an answer that could not be parsed; None if unscored.
        passed: Whether the score reached the threshold.
        feedback: Everything else that the metric returned (verdict stage, diagnostics, …).
        tokens: Tokens per predictor.
        seconds: Wall time of the program.
        metric_seconds: Wall time of the metric.
        error: Class and message of the exception in the program, or after `metric: ` in the metric; None if there was
            none.
        calls: For a right answer, by predictor that gets demonstrations: the fields of its chosen calls, in order of
            completion; none if it was not called. A predictor with one call that has the same fields as the task's
            inputs and `outputs` is omitted.
        left_out: Number of demonstrations omitted from the end, because the LM rejected longer prompts.
    """

    iteration: int
    task: int
    task_key: str
    temperature: float
    sample: int
    seed: int
    outputs: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    score: float | None = None
    passed: bool = False
    feedback: Mapping[str, Any] = field(default_factory=dict)
    tokens: Mapping[str, TokenCount] = field(default_factory=dict)
    seconds: float = 0.0
    metric_seconds: float = 0.0
    error: str | None = None
    calls: Calls = field(default_factory=dict)
    left_out: int = 0

    @property
    def scored(self) -> bool:
        """Whether it has a score, which enters success rates."""
        return self.score is not None

    @property
    def failed(self) -> bool:
        """Whether the program or the metric failed; an answer that could not be parsed is a wrong one."""
        return not self.unknown and (self.score is None or (self.error is not None and self.text is None))

    @property
    def unknown(self) -> bool:
        """Whether the metric could not say if the answer is right: its verdict is `unscored`."""
        return self.score is None and bool(self.feedback.get("unscored"))

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {**to_jsonable(self), "calls": calls_to_data(self.calls)}

    @property
    def too_long(self) -> bool:
        """Whether the LM rejected the prompt as too long even without demonstrations."""
        return self.failed and (self.error or "").startswith("ContextWindowExceededError")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attempt:
        """The attempt that `to_dict` wrote; outputs and feedback stay as JSON has them."""
        tokens = {name: TokenCount.from_dict(count) for name, count in data["tokens"].items()}
        return cls(**{**data, "tokens": tokens, "calls": calls_from_data(data["calls"])})


def calls_to_data(calls: Calls, encode: Callable[[Mapping[str, Any]], Any] = to_jsonable) -> dict[str, Any]:
    """Calls as data: one call as its fields, none as no fields, several as a list."""
    encoded = {name: [encode(call) for call in own] for name, own in calls.items()}
    return {name: own if len(own) > 1 else (own[0] if own else {}) for name, own in encoded.items()}


def calls_from_data(data: Mapping[str, Any], decode: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict) -> Calls:
    """The calls that `calls_to_data` wrote."""
    several = {name: own if isinstance(own, Sequence) else ([own] if own else []) for name, own in data.items()}
    return {name: tuple(decode(call) for call in own) for name, own in several.items()}


# --- pass@k (paper, Equation 1) ---------------------------------------------------------------------------------------


def counted(passed: Sequence[bool], stop_after: int | None = None) -> tuple[int, int]:
    """Right samples and samples, of samples in order, from which pass@k is unbiased.

    Where sampling ends at the `stop_after`-th right sample, that one does not count (inverse sampling, Haldane 1945),
    nor do those behind it, which were in flight.
    """
    places = [place for place, right in enumerate(passed) if right]
    if stop_after is None or len(places) < stop_after:
        return len(places), len(passed)
    return stop_after - 1, places[stop_after - 1]


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the share of subsets of k out of n samples that contain a correct one.

    One division of two integers, so that the ends are exact: c/n at k = 1, and 1.0 or 0.0 at k = n.

    Args:
        n: Samples.
        c: Correct samples among them.
        k: Samples in a subset.

    Raises:
        ValueError: Unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    subsets = comb(n, k)
    return (subsets - comb(n - c, k)) / subsets


# --- attempts in a file -----------------------------------------------------------------------------------------------
# Invariants: a log reads like a list and grows only at its end; an attempt that is read equals the one appended, with
# the types of its fields; the file has no name and is deleted with the log; an attempt that cannot be pickled, or that
# does not fit on a full disk, stays in memory.
#
# A record on disk cannot replace it: JSON drops the fields' types, and a compressed file gives no access at random.


class AttemptLog(Sequence[Attempt]):
    """A growing sequence of attempts, from its first ones; a slice of it is a tuple."""

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        # The file is closed with the log, as long as an experience holds it.
        self._file = tempfile.TemporaryFile(prefix="attempts-", buffering=0)  # noqa: SIM115
        self._end = 0
        self._starts, self._sizes = array("Q"), array("L")
        self._held: dict[int, bytes | Attempt] = {}
        for attempt in attempts:
            self.append(attempt)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def append(self, attempt: Attempt) -> None:
        """Adds an attempt at the end."""
        data = _packed(attempt)
        try:
            written = os.pwrite(self._file.fileno(), data, self._end)
        except OSError:
            written = 0
        if not data or written < len(data):
            self._held[self._end] = data or attempt
        self._starts.append(self._end)
        self._sizes.append(len(data))
        self._end += len(data) or 1  # each has a place of its own

    def arrange(self, start: int, places: Sequence[int]) -> None:
        """Sorts the attempts from index `start` on by `places`, one number each."""
        order = sorted(range(len(places)), key=places.__getitem__)
        for column in (self._starts, self._sizes):
            column[start:] = array(column.typecode, (column[start + index] for index in order))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Attempt: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Attempt, ...]: ...

    def __getitem__(self, index: int | slice) -> Attempt | tuple[Attempt, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        start, size = self._starts[index], self._sizes[index]
        data = self._held.get(start) or os.pread(self._file.fileno(), size, start)
        if isinstance(data, Attempt):
            return data
        # Written by this process, to a file that no other process can open.
        attempt: Attempt = pickle.loads(data)
        return attempt

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(Attempt.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return AttemptLog, (tuple(self),)

    def __repr__(self) -> str:
        return f"<{len(self):,} attempts>"


def _packed(attempt: Attempt) -> bytes:
    """The attempt as bytes; none if it cannot be pickled, or not be read again."""
    try:
        data = pickle.dumps(attempt, pickle.HIGHEST_PROTOCOL)
        pickle.loads(data)  # some classes can be pickled and not read
    except Exception:
        return b""
    return data
