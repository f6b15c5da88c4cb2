"""The record of a run: solved tasks, every iteration, every attempt.

Invariants: one entry per solved task; iterations and attempts are in the order of the algorithm, not of completion;
every figure of a run follows from this record alone; a record is immutable, and JSON keeps all of it except the Python
types of the fields' values, which `decode` restores.

Written by hand and read by Pydantic: writing omits zero columns of token counts and turns values of any type into
text, for which Pydantic's serializers would need as many lines.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from optimizers.attempt import Attempt, Calls, calls_from_data, calls_to_data, pass_at_k, to_jsonable
from optimizers.domain import HeldOutVerdict, Quadrants
from optimizers.ledger import TokenCount, Whole

Codec = Callable[[Mapping[str, Any]], Mapping[str, Any]]
FORMAT = 1
Samples = Annotated[int, Field(gt=0, le=10**7)]
Temperature = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class Entry:
    """A solved task with the answer chosen by the filter (paper, Section 3.1).

    Attributes:
        task_key: The task's name.
        inputs: The task's input fields.
        outputs: The fields of the chosen answer.
        successes: c, correct answers at the best temperature.
        samples: n, scored samples at that temperature.
        temperature: The temperature whose rate c/n is the highest; the first of equals.
        iteration: Index of the iteration that solved the task, from 0, in the run that solved it.
        answer_temperature: Temperature at which the chosen answer was sampled.
        answer_sample: Index of its sample; with task, iteration and temperature it names the attempt.
        tokens: Spent on the task until it was solved, all predictors together.
        calls: `calls` of the attempt that gave the answer.
        answer_iteration: Index of the iteration that gave the answer; None for `iteration`. It differs where a cheaper
            answer has replaced the first one.
        cost: The cost of the answer, if the domain has costs.
        dearer: Cost and fields of the dearest right answer, if it costs more: demonstrations show it, too.
        pooled_successes: Correct answers at all temperatures together; None where no LM was sampled.
        pooled_samples: Scored samples at all temperatures together; None likewise.
        held_out: The verdict on the answer on held-out data; None if it was not judged once more.
        teacher: The solver of the task in the LM's place, without `successes` of the LM; None if the LM did.
        composed_from: Keys of the sub-tasks that compose it; empty for a sampled answer. Its counts are then those of
            the hardest of them, and `answer_temperature` and `answer_sample` name nothing.
    """

    task_key: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    successes: Whole
    samples: Samples
    temperature: Temperature
    iteration: Whole
    answer_temperature: Temperature
    answer_sample: Whole
    tokens: TokenCount
    calls: Calls = field(default_factory=dict)
    answer_iteration: Whole | None = None
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    dearer: tuple[float, Mapping[str, Any]] | None = None
    pooled_successes: Whole | None = None
    pooled_samples: Samples | None = None
    held_out: HeldOutVerdict | None = None
    teacher: str | None = None
    composed_from: tuple[str, ...] = ()

    def counts(self, pooled: bool = False) -> tuple[int, int]:
        """Scored samples and correct ones: at the best temperature, or at all together where these are known."""
        if pooled and self.pooled_samples is not None and self.pooled_successes is not None:
            return self.pooled_samples, self.pooled_successes
        return self.samples, self.successes

    @property
    def rate(self) -> float:
        """The success rate c/n, in (0, 1]; 0 for tasks that a teacher solved."""
        return self.successes / self.samples

    @property
    def fallen(self) -> bool:
        """Whether the answer failed the held-out verdict; it is then never shown as a demonstration."""
        return self.held_out is not None and self.held_out.answer == "failed"


def _possible(entry: Entry) -> Entry:
    """Refuses counts that no run can have."""
    pooled = (entry.pooled_successes, entry.pooled_samples)
    for right, of in ((entry.successes, entry.samples), *([pooled] if pooled != (None, None) else [])):
        if right is None or of is None or not (entry.teacher is None) <= right <= of:
            raise ValueError(f"expected 0 < successes <= samples, found {right} and {of}")
    return entry


@dataclass(frozen=True, slots=True)
class TaskCount:
    """Counts of one task in one iteration at one temperature: `successes` of `samples` scored ones."""

    task_key: str
    temperature: float
    successes: int
    samples: int


@dataclass(frozen=True, slots=True)
class IterationResult:
    """One iteration over all tasks that were unsolved when it started.

    Attributes:
        index: From 0.
        label: The selection strategy's name for it: `None`, `H_1`, `HM_2`, … for `adaptive`; or the name of another
            optimizer, whose program is sampled.
        cycle: From 1; 0 for the pass without demonstrations.
        level: Index j of d_j in its cycle; -1 for the pass without demonstrations.
        demos: Keys of the tasks shown as demonstrations, in the order of the prompt.
        left_out: Keys of demonstrations that do not fit the context window, last in the prompt's order first.
        tasks: Keys of the tasks that were sampled.
        counts: Per task and temperature, in the order of `tasks`.
        solved: Keys of the tasks solved here, in task order.
        solved_total: Tasks of this run solved so far.
        pass_at_1: Over all tasks of the run, each with the figures of the iteration that solved it, at its best
            temperature; so it is biased upward.
        pass_at_8: The same for k = 8, or for all samples where there are fewer.
        pass_at_n: The same for all samples: the share of tasks solved.
        tokens: Tokens of this iteration, per predictor.
        tokens_prompt_per_task: Input tokens since the run started, averaged over all tasks; a task stops counting once
            solved, and answers from the cache count like paid ones (paper, Figure 7, x-axis).
        samples: Attempts made.
        failures: Attempts at which the program or the metric failed.
        unknown: Attempts whose verdict is unknown; like failures, they are in no success rate.
        seconds: Wall time.
        seconds_sampling: Time spent in the program, summed over samples.
        seconds_verifying: Time spent in the metric, summed over samples.
        complete: False if the run stopped within this iteration.
        reasons: By task, the keys of the demonstrations that it alone was shown and why, in the order of the prompt;
            empty where all tasks were shown `demos`, which is otherwise their union.
        improved: Keys of the tasks, solved before, that got a cheaper answer here.
        costs: The cost of each solved task's answer after this iteration, if the domain has costs.
        pass_at_1_pooled: As `pass_at_1`, over the samples of all temperatures together, which is unbiased.
        pass_at_8_pooled: The same for k = 8.
        solved_parts: Keys of the sub-tasks solved here, which `solved` and `solved_total` leave out.
        composed: The sub-tasks that compose an answer, by task of `solved` with a composed answer.
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
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    improved: tuple[str, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)
    pass_at_1_pooled: float = 0.0
    pass_at_8_pooled: float = 0.0
    solved_parts: tuple[str, ...] = ()
    composed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: int = 0

    @property
    def learned(self) -> bool:
        """Whether a task or a sub-task was solved here."""
        return bool(self.solved or self.solved_parts)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Keys of the tasks without an answer to any sample, in task order; none if the iteration was cut short."""
        answered = {count.task_key for count in self.counts if count.samples}
        return tuple(key for key in self.tasks if key not in answered) if self.complete else ()


@dataclass(frozen=True, slots=True)
class LevelScore:
    """Score of one level of the final D: the mean success rate over the validation set."""

    level: int
    label: str
    demos: tuple[str, ...]
    score: float


def mean_pass_at(entries: Iterable[Entry], tasks: Collection[str], k: int | None, *, pooled: bool = False) -> float:
    """pass@k averaged over `tasks`; those without an entry count 0; k is at most an entry's own samples.

    An entry counts with its best temperature; with `pooled`, with all temperatures together. A composed answer, which
    no sample gave, counts for all samples together (k of None) alone.
    """
    own = set(tasks)
    counts = [each.counts(pooled) for each in entries if each.task_key in own and not (k and each.composed_from)]
    return sum(pass_at_k(n, c, min(k or n, n)) for n, c in counts) / len(tasks)


def in_task_order(entries: Mapping[str, Entry], tasks: Collection[str]) -> dict[str, Entry]:
    """Entries of an earlier run's other tasks first, in their order, then this run's in task order."""
    prior = {key: entry for key, entry in entries.items() if key not in tasks}
    return prior | {key: entries[key] for key in tasks if key in entries}


@dataclass(frozen=True, slots=True)
class Experience:
    """The record of a run.

    Attributes:
        tasks: Keys of the run's tasks, in the order of the training set.
        entries: D at the end: first what an earlier run contributed, then in task order.
        iterations: In order.
        attempts: By iteration, task, temperature, sample; those on the validation set last. After a run they are in
            a file (`AttemptLog`), so that iterating over them takes no memory.
        stopped: Why the run ended: `solved`, `exhausted` (the last level solved nothing), `score` (`stop_at_score` is
            reached), `budget`, `interrupted` or `failed` (the LM or the metric became unusable).
        message: One line about `stopped`, for people.
        demos: Keys of the demonstrations that the compiled program carries, in the order of the prompt.
        validation: Scores of the levels, if a validation set chose among them.
        refused: By task, the held-out verdict on the closest wrong answer; those that were judged.
        tokens: All tokens of the run, validation included, per predictor.
        overhead: The part of `tokens` spent by another optimizer within the run, not on samples.
        seconds: Wall time.
        settings: Samples, temperatures, granularity, selection, seed and budget of the run.
        carried: Whether a compiled program carries it; it is then pickled as None, so that a saved program is a plain
            DSPy program. `dump` keeps it, and so does pickling `dataclasses.replace(experience, carried=False)`.
    """

    tasks: tuple[str, ...]
    entries: tuple[Annotated[Entry, AfterValidator(_possible)], ...] = ()
    iterations: tuple[IterationResult, ...] = ()
    attempts: Sequence[Attempt] = ()
    stopped: str = "exhausted"
    message: str = ""
    demos: tuple[str, ...] = ()
    validation: tuple[LevelScore, ...] = ()
    refused: Mapping[str, HeldOutVerdict] = field(default_factory=dict)
    tokens: Mapping[str, TokenCount] = field(default_factory=dict)
    overhead: Mapping[str, TokenCount] = field(default_factory=dict)
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    carried: bool = field(default=False, compare=False, repr=False)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # No `super()`: a dataclass with slots is another class than the one that the method is defined in.
        return (type(None), ()) if self.carried else object.__reduce_ex__(self, protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Experience:
        return self  # immutable, and too large to be copied with every copy of a compiled program

    @property
    def solved(self) -> tuple[str, ...]:
        """Keys of this run's tasks that have an answer of the LM's, in task order."""
        known = {entry.task_key for entry in self.entries if entry.teacher is None}
        return tuple(key for key in self.tasks if key in known)

    @property
    def taught(self) -> tuple[str, ...]:
        """Keys of this run's tasks that a teacher solved, in task order."""
        known = {entry.task_key for entry in self.entries if entry.teacher is not None}
        return tuple(key for key in self.tasks if key in known)

    @property
    def solved_earlier(self) -> tuple[str, ...]:
        """Keys of the solved tasks that no iteration of this run solved, but the run that it continues."""
        own = {key for result in self.iterations for key in result.solved}
        return tuple(key for key in self.solved if key not in own)

    @property
    def unsolved(self) -> tuple[str, ...]:
        """Keys of this run's tasks that have no answer, in task order."""
        known = {entry.task_key for entry in self.entries}
        return tuple(key for key in self.tasks if key not in known)

    @property
    def costs(self) -> dict[str, float]:
        """The costs of the answers to this run's tasks, if they have costs."""
        own = set(self.tasks)
        return {e.task_key: e.cost for e in self.entries if e.task_key in own and e.cost is not None}

    @property
    def quadrants(self) -> Quadrants:
        """The answers to this run's tasks by the run's verdict and by the held-out verdict."""
        own = set(self.tasks)
        solutions = [entry.held_out for entry in self.entries if entry.task_key in own]
        return Quadrants.of(solutions, tuple(self.refused.values()))

    def pass_at(self, k: int | None = None) -> float:
        """pass@k over this run's tasks (paper, Equation 1), unsolved ones counting 0; pass@n without `k`.

        A task counts with its best temperature, as in the paper, so the figure is biased upward.
        """
        return mean_pass_at(self.entries, self.tasks, k)

    def pass_at_pooled(self, k: int | None = None) -> float:
        """The same over the samples of all temperatures together, which is unbiased: compare runs by this one."""
        return mean_pass_at(self.entries, self.tasks, k, pooled=True)

    def to_dict(self, *, attempts: bool = True, encode: Codec = to_jsonable) -> dict[str, Any]:
        """As JSON data.

        Args:
            attempts: Whether to include the attempts, by far the largest part.
            encode: Turns an entry's inputs, its outputs, and the fields of a call, into JSON data.
        """
        named = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("entries", "attempts", "carried")
        }
        data: dict[str, Any] = {"format": FORMAT, **to_jsonable(named)}
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
            ValueError: The record has a format that this version does not read, or a part of it has the wrong type;
                one line names the part.
        """
        if data.get("format") != FORMAT:
            raise ValueError(f"the experience has format {data.get('format')!r}; this version reads {FORMAT}")
        entries = [_decoded(entry, decode) for entry in data["entries"]]
        attempts = tuple(Attempt.from_dict(attempt) for attempt in data["attempts"])
        try:
            return replace(_reader().validate_python({**data, "entries": entries, "attempts": ()}), attempts=attempts)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            expected = first["msg"].replace("Input should be", "expected")
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {expected}") from None

    def dump(self, path: str | Path, *, attempts: bool = True, encode: Codec = to_jsonable) -> None:
        """Writes the record as JSON; arguments as for `to_dict`."""
        text = json.dumps(self.to_dict(attempts=attempts, encode=encode), ensure_ascii=False, indent=1)
        # Half of a pair of UTF-16, which LMs give at times, becomes its escape in JSON.
        Path(path).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")

    @classmethod
    def load(cls, path: str | Path, *, decode: Codec = dict) -> Experience:
        """Reads the output of `dump`; raises as `from_dict`, and `OSError` or `json.JSONDecodeError`."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")), decode=decode)


@functools.cache
def _reader() -> TypeAdapter[Experience]:
    return TypeAdapter(Experience)


def _entry_as_dict(entry: Entry, encode: Codec) -> dict[str, Any]:
    fields = {"inputs": encode(entry.inputs), "outputs": encode(entry.outputs)}
    data: dict[str, Any] = to_jsonable(replace(entry, inputs={}, outputs={}, calls={}))
    return {**data, **fields, "calls": calls_to_data(entry.calls, encode)}


def _decoded(entry: Mapping[str, Any], decode: Codec) -> dict[str, Any]:
    calls = calls_from_data(entry["calls"], decode)
    return {**entry, "inputs": decode(entry["inputs"]), "outputs": decode(entry["outputs"]), "calls": calls}
