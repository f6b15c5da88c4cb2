"""The record of a run: what was solved, how every iteration went, every attempt.

Invariants: one entry a solved task; iterations and attempts stand in the order of the algorithm, not of
completion; every figure of a run follows from this record alone; a record is immutable, and JSON keeps it
whole but for the Python types of the fields' values, which `decode` brings back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from optimizers.attempt import Attempt
from optimizers.ledger import TokenCount
from optimizers.pass_at_k import pass_at_k
from optimizers.plain import plain

Codec = Callable[[Mapping[str, Any]], Mapping[str, Any]]
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One earned experience: a solved task with the answer chosen by the filter (paper, Section 3.1).

    Attributes:
        task_key: The task's name.
        inputs: The task's input fields.
        outputs: The fields of the chosen answer.
        successes: c, correct answers at the best temperature.
        samples: n, scored samples at that temperature.
        temperature: The temperature whose rate c/n is the highest; the first of equals.
        iteration: Index of the iteration that solved the task, from 0, in the run that did.
        answer_temperature: Temperature at which the chosen answer was drawn.
        answer_sample: Index of its sample; with task, iteration and temperature it names the attempt.
        tokens: What the task took until it was solved, all predictors together.
        calls: What the answer's attempt has as its `calls`.
    """

    task_key: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    successes: int
    samples: int
    temperature: float
    iteration: int
    answer_temperature: float
    answer_sample: int
    tokens: TokenCount
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """The success rate c/n, in (0, 1]."""
        return self.successes / self.samples


@dataclass(frozen=True, slots=True)
class TaskCount:
    """How one task fared in one iteration at one temperature: `successes` of `samples` scored ones."""

    task_key: str
    temperature: float
    successes: int
    samples: int


@dataclass(frozen=True, slots=True)
class IterationResult:
    """One iteration over all tasks that were unsolved when it began.

    Attributes:
        index: From 0.
        label: `None`, `H_1`, `HM_2`, …: levels and cycle; or the name of another optimizer, whose program it is.
        cycle: From 1; 0 for the pass without demonstrations.
        level: Index j of d_j in its cycle; -1 for the pass without demonstrations.
        demos: Keys of the tasks that served as demonstrations, hardest first.
        left_out: Keys of demonstrations that would not have fitted the context window, easiest first.
        tasks: Keys of the tasks that were tried.
        counts: Per task and temperature, in the order of `tasks`.
        solved: Keys of the tasks solved here, in task order.
        solved_total: Tasks of this run solved so far.
        pass_at_1: Over all tasks of the run, each with the figures of the iteration that solved it.
        pass_at_8: Likewise; with fewer than 8 samples, of all there are.
        pass_at_n: Likewise, of all samples: the share of tasks solved.
        tokens: Tokens of this iteration, per predictor.
        tokens_prompt_per_task: Input tokens since the run began, averaged over all tasks; a task stops
            counting once solved, and answers out of the cache count as if paid for (paper, Figure 7, x-axis).
        samples: Attempts made.
        failures: Attempts that stayed unscored.
        seconds: Wall time.
        seconds_sampling: Time spent in the program, summed over samples.
        seconds_verifying: Time spent in the metric, summed over samples.
        complete: False if the run stopped within this iteration.
    """

    index: int
    label: str
    cycle: int
    level: int
    demos: tuple[str, ...]
    left_out: tuple[str, ...]
    tasks: tuple[str, ...]
    counts: tuple[TaskCount, ...]
    solved: tuple[str, ...]
    solved_total: int
    pass_at_1: float
    pass_at_8: float
    pass_at_n: float
    tokens: Mapping[str, TokenCount]
    tokens_prompt_per_task: float
    samples: int
    failures: int
    seconds: float
    seconds_sampling: float
    seconds_verifying: float
    complete: bool = True

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Keys of the tasks of which not one sample got an answer, in task order; none if it was cut short."""
        answered = {count.task_key for count in self.counts if count.samples}
        return tuple(key for key in self.tasks if key not in answered) if self.complete else ()


@dataclass(frozen=True, slots=True)
class LevelScore:
    """What the validation set says of one level of the final D: the mean success rate over its examples."""

    level: int
    label: str
    demos: tuple[str, ...]
    score: float


def mean_pass_at(entries: Iterable[Entry], tasks: Collection[str], k: int | None) -> float:
    """pass@k averaged over `tasks`, those without an entry counting 0; of at most an entry's own samples."""
    own = set(tasks)
    solved = [entry for entry in entries if entry.task_key in own]
    return sum(pass_at_k(e.samples, e.successes, min(k or e.samples, e.samples)) for e in solved) / len(tasks)


@dataclass(frozen=True, slots=True)
class Experience:
    """The record of a run.

    Attributes:
        tasks: Keys of the run's tasks, in the order of the training set.
        entries: D at the end, what an earlier run brought along included: that first, then in task order.
        iterations: In order.
        attempts: By iteration, task, temperature, sample; those on the validation set last. After a run they
            lie in a file (`AttemptLog`), so that going through them takes no memory.
        stopped: Why the run ended: `solved`, `exhausted` (the last level solved nothing), `budget`,
            `interrupted` or `failed` (the LM could not be used any longer).
        message: One line on `stopped`, for people.
        demos: Keys of the demonstrations the compiled program carries, hardest first.
        validation: Scores of the levels, if a validation set chose among them.
        tokens: All tokens of the run, validation included, per predictor.
        overhead: Of `tokens`, those spent on no sample, such as by another optimizer within the run.
        seconds: Wall time.
        settings: Samples, temperatures, granularity, seed and budget of the run.
    """

    tasks: tuple[str, ...]
    entries: tuple[Entry, ...] = ()
    iterations: tuple[IterationResult, ...] = ()
    attempts: Sequence[Attempt] = ()
    stopped: str = "exhausted"
    message: str = ""
    demos: tuple[str, ...] = ()
    validation: tuple[LevelScore, ...] = ()
    tokens: Mapping[str, TokenCount] = field(default_factory=dict)
    overhead: Mapping[str, TokenCount] = field(default_factory=dict)
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Experience:
        return self  # immutable, and too large to be copied with every copy of a compiled program

    @property
    def solved(self) -> tuple[str, ...]:
        """Keys of this run's tasks that have an answer, in task order."""
        known = {entry.task_key for entry in self.entries}
        return tuple(key for key in self.tasks if key in known)

    @property
    def unsolved(self) -> tuple[str, ...]:
        """Keys of this run's tasks that have none, in task order."""
        known = {entry.task_key for entry in self.entries}
        return tuple(key for key in self.tasks if key not in known)

    def pass_at(self, k: int | None = None) -> float:
        """pass@k over this run's tasks (paper, Equation 1), unsolved ones counting 0; pass@n without `k`."""
        return mean_pass_at(self.entries, self.tasks, k)

    def to_dict(self, *, attempts: bool = True, encode: Codec = plain) -> dict[str, Any]:
        """As JSON can hold it.

        Args:
            attempts: Whether to include the attempts, by far the larger part.
            encode: Turns an entry's inputs, its outputs, and the fields of a call, into what JSON can hold.
        """
        data: dict[str, Any] = {"format": FORMAT, **_as_dict(self)}
        data["entries"] = [_entry_as_dict(entry, encode) for entry in self.entries]
        data["attempts"] = [attempt.to_dict() for attempt in self.attempts] if attempts else []
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, decode: Codec = dict) -> Experience:
        """The record that `to_dict` wrote.

        Args:
            data: The dict.
            decode: Undoes `encode` on an entry's inputs, on its outputs, and on the fields of a call.

        Raises:
            ValueError: The record is of a format that this version does not read.
        """
        if data.get("format") != FORMAT:
            raise ValueError(f"the experience has format {data.get('format')!r}; this version reads {FORMAT}")
        return cls(
            tasks=tuple(data["tasks"]),
            entries=tuple(_entry(item, decode) for item in data["entries"]),
            iterations=tuple(_iteration(item) for item in data["iterations"]),
            attempts=tuple(Attempt.from_dict(item) for item in data["attempts"]),
            stopped=data["stopped"],
            message=data["message"],
            demos=tuple(data["demos"]),
            validation=tuple(LevelScore(**{**v, "demos": tuple(v["demos"])}) for v in data["validation"]),
            tokens=_tokens(data["tokens"]),
            overhead=_tokens(data.get("overhead", {})),
            seconds=data["seconds"],
            settings=data["settings"],
        )

    def dump(self, path: str | Path, *, attempts: bool = True, encode: Codec = plain) -> None:
        """Writes the record as JSON; arguments as for `to_dict`."""
        text = json.dumps(self.to_dict(attempts=attempts, encode=encode), ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, *, decode: Codec = dict) -> Experience:
        """Reads what `dump` wrote; raises as `from_dict`, and `OSError` or `json.JSONDecodeError`."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")), decode=decode)


def _as_dict(value: Any) -> dict[str, Any]:
    """The fields of a record, token counts in their short form; entries, attempts and calls left to the caller."""
    skip = {"entries", "attempts", "calls"}
    return {f.name: _short(getattr(value, f.name)) for f in fields(value) if f.name not in skip}


def _entry_as_dict(entry: Entry, encode: Codec) -> dict[str, Any]:
    data = {**_as_dict(entry), "inputs": encode(entry.inputs), "outputs": encode(entry.outputs)}
    calls = {name: encode(call) for name, call in entry.calls.items()}
    return {**data, "calls": calls} if calls else data


def _short(value: Any) -> Any:
    if isinstance(value, TokenCount):
        return value.to_dict()
    if isinstance(value, IterationResult):
        return _as_dict(value)
    if isinstance(value, tuple):
        return [_short(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return plain(value)


def _tokens(data: Mapping[str, Any]) -> dict[str, TokenCount]:
    return {name: TokenCount.from_dict(count) for name, count in data.items()}


def _entry(data: Mapping[str, Any], decode: Codec) -> Entry:
    fields_of = {name: decode(data[name]) for name in ("inputs", "outputs")}
    calls = {name: decode(call) for name, call in data.get("calls", {}).items()}
    return Entry(**{**data, **fields_of, "calls": calls, "tokens": TokenCount.from_dict(data["tokens"])})


def _iteration(data: Mapping[str, Any]) -> IterationResult:
    counts = tuple(TaskCount(**count) for count in data["counts"])
    names = {name: tuple(data[name]) for name in ("demos", "left_out", "tasks", "solved")}
    return IterationResult(**{**data, **names, "counts": counts, "tokens": _tokens(data["tokens"])})
