"""The learning algorithm as an optimizer of MLflow's prompts: `mlflow.genai.optimize_prompts(optimizer=…)`.

A record that the user's function answers rightly becomes a demonstration in the prompt, by the same algorithm as for
DSPy programs. What makes the answers is MLflow's evaluation function, which runs the user's own: DSPy makes no request.

Invariants: MLflow's evaluation function is called in the thread that called `optimize`, once at a time, as it is not
thread-safe and switches DSPy's autologging on; records that wait for it with the same prompts share a call.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from queue import SimpleQueue
from statistics import fmean
from typing import Any, cast

import dspy
import mlflow
from mlflow.entities.model_registry import PromptVersion
from mlflow.genai.optimize.optimizers import BasePromptOptimizer
from mlflow.genai.optimize.types import EvaluationResultRecord, PromptOptimizerOutput

from optimizers import AdaptiveFewShot, BaseObserver, Domain, Experience, IterationResult, Observer
from optimizers.jsonable import to_jsonable
from optimizers.sampling_loop import CANCELLED
from pipeline.record.mlflow_metrics import curves, iteration_metrics

logger = logging.getLogger(__name__)

Evaluate = Callable[[dict[str, str], list[dict[str, Any]]], list[EvaluationResultRecord]]
Prompts = Mapping[str, str]
"""Templates by the prompts' names; that of a chat prompt is the JSON of its messages."""

RECORD = "mlflow_record"
"""The input that says which record an example is."""
ANSWER = "response"
"""The output field of a demonstration."""
TEMPERATURE = 1.0
"""In the record of the run; the user's function decides about its LM's own."""
_UNQUOTABLE = re.compile(r"\{\{\s*[A-Za-z_][\w.]*\s*\}\}|\{[%#]")
"""What MLflow reads as a variable, or as Jinja, wherever it stands in a template."""


class AdaptivePromptOptimizer(BasePromptOptimizer):
    """Adds to prompts, as demonstrations, the records that their program has answered rightly.

    A text prompt gets them before its own text; a chat prompt as pairs of messages before its last one. The program
    is asked several times for each record, so the LM behind it must not repeat itself: no temperature of 0, no cache.

    Args:
        num_samples: Answers to each unsolved record in an iteration.
        prompts: Names of the prompts that get the demonstrations; None: the only one there is.
        metric_threshold: The lowest score of a right answer, where several scorers give their mean.
        **options: Further options of `AdaptiveFewShot`, such as `granularity`, `selection`, `num_threads`, `budget` and
            `max_demos`; temperatures are those of the user's function.

    Raises:
        TypeError: An option has the wrong type, or is unknown.
        ValueError: An option is out of its range.
    """

    def __init__(
        self,
        num_samples: int = 4,
        prompts: Sequence[str] | None = None,
        *,
        metric_threshold: float = 1.0,
        observers: Sequence[Observer] = (),
        **options: Any,
    ) -> None:
        if refused := {"temperatures", "domain"} & options.keys():
            raise TypeError(f"{type(self).__name__}: no option {', '.join(sorted(refused))}: MLflow's records decide")
        domain = Domain(task_key=_record_name, threshold=metric_threshold, traced_demos=False)
        self._options = {**options, "num_samples": num_samples, "temperatures": (TEMPERATURE,), "domain": domain}
        self._prompts, self._observers = prompts, tuple(observers)
        self.experience: Experience | None = None
        self._optimizer()  # raises what is wrong with the options

    def _optimizer(self, *observers: Observer) -> AdaptiveFewShot:
        return AdaptiveFewShot(_score, observers=[*self._observers, *observers], **self._options)

    def optimize(
        self,
        eval_fn: Evaluate | None,
        train_data: list[dict[str, Any]],
        target_prompts: dict[str, str],
        enable_tracking: bool = True,
    ) -> PromptOptimizerOutput:
        """The prompts with their demonstrations; the record of the run is this optimizer's `experience`.

        The scores are means over the records that no demonstration shows: those of the first iteration, and those of
        as many answers with the new prompts. Both are None where all records are shown.

        Raises:
            ValueError: There are no records or no scorers, or it is not said which of several prompts gets them.
        """
        if eval_fn is None or not train_data:
            raise ValueError("train_data: the optimizer learns from records, and got none")
        names = self._taught(target_prompts)
        evaluations = Evaluations(eval_fn)
        fields = {name: None for record in train_data for name in record["inputs"]}
        student = Prompted(evaluations, target_prompts, names, train_data, list(fields))
        examples = [
            dspy.Example({**record["inputs"], RECORD: index}).with_inputs(*record["inputs"], RECORD)
            for index, record in enumerate(train_data)
        ]
        run = mlflow.active_run() if enable_tracking else None
        optimizer = self._optimizer(*([_Progress(run.info.run_id)] if run else []))
        with dspy.context(lm=_Unasked("predict_fn"), callbacks=[]):
            compiled = evaluations.serve(partial(optimizer.compile, student, trainset=examples))
        experience: Experience = compiled.experience
        self.experience = experience
        texts = compiled.prompts()
        shown = {entry.task_key for entry in experience.entries if entry.task_key in experience.demos}
        left = [index for index, example in enumerate(examples) if _record_name(example) not in shown]
        return PromptOptimizerOutput(dict(texts), *self._scores(experience, evaluations, texts, train_data, left))

    def _taught(self, prompts: Prompts) -> list[str]:
        if self._prompts is None and len(prompts) > 1:
            raise ValueError(
                f"prompts: the answers are those of the whole program; say which of {', '.join(prompts)} ask for them"
            )
        if unknown := [name for name in self._prompts or () if name not in prompts]:
            raise ValueError(f"prompts: no prompt {', '.join(unknown)} is optimized, only {', '.join(prompts)}")
        return list(self._prompts or prompts)

    def _scores(
        self,
        experience: Experience,
        evaluations: Evaluations,
        prompts: Prompts,
        records: Sequence[dict[str, Any]],
        left: Sequence[int],
    ) -> tuple[Any, ...]:
        """Both scores, and both by scorer."""
        before = [each for each in experience.attempts if each.iteration == 0 and each.task in left]
        if not before:
            return None, None, {}, {}
        again = [records[each.task] for each in before]
        after = evaluations.run(dict(prompts), again) if experience.demos else []
        first = [(each.score, each.feedback.get("scores", {})) for each in before if each.score is not None]
        second = [(each.score, each.individual_scores) for each in after if each.score is not None] or first
        (initial, initial_each), (final, final_each) = _mean(first), _mean(second)
        return initial, final, initial_each, final_each


class Evaluations:
    """MLflow's evaluation function, for several threads.

    Args:
        evaluate: Answers and scores records by prompts, in their order.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self.run, self._requests, self._ended = evaluate, SimpleQueue[_Request | None](), threading.Event()

    def ask(self, prompts: Prompts, record: dict[str, Any]) -> EvaluationResultRecord:
        """One record's answer and score, by a call that all requests share that wait with the same prompts."""
        request = _Request(dict(prompts), record)
        self._requests.put(request)
        if self._ended.is_set():
            raise RuntimeError("the optimization was interrupted")
        return request.result.result()

    def serve(self, work: Callable[[], Any]) -> Any:
        """The result of work in another thread, whose requests are answered in this one.

        An exception here, such as an interrupt, ends the work: no further sample starts.
        """
        token = CANCELLED.set(cancelled := threading.Event())
        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(copy_context().run, work)
            CANCELLED.reset(token)
            working.add_done_callback(lambda _: self._requests.put(None))
            try:
                while requests := self._arrived():
                    for _, group in groupby(sorted(requests, key=_prompts_of), _prompts_of):
                        self._answer(list(group))
            finally:
                self._ended.set()
                cancelled.set()
                for request in self._arrived() if not working.done() else ():
                    request.result.cancel()
            return working.result()

    def _arrived(self) -> list[_Request]:
        """The requests that have come, after a wait for the first; none once the work is done."""
        first = self._requests.get()
        arrived = [first, *(self._requests.get() for _ in range(self._requests.qsize()))]
        return [request for request in arrived if request is not None]

    def _answer(self, group: Sequence[_Request]) -> None:
        try:
            results = self.run(dict(group[0].prompts), [each.record for each in group])
        except BaseException as error:
            for each in group:
                each.result.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            if not isinstance(error, Exception):
                raise
            return
        for each, result in zip(group, results, strict=True):
            each.result.set_result(result)


@dataclass(frozen=True)
class _Request:
    prompts: dict[str, str]
    record: dict[str, Any]
    result: Future[EvaluationResultRecord] = field(default_factory=Future)


def _prompts_of(request: _Request) -> list[tuple[str, str]]:
    return sorted(request.prompts.items())


class Prompted(dspy.Module):
    """A program of prompts as a DSPy module, whose one predictor is never called and carries the demonstrations.

    Args:
        evaluations: Answers and scores.
        templates: Of all prompts that are optimized.
        names: The prompts that get the demonstrations.
        records: MLflow's.
        fields: The names of their inputs.
    """

    def __init__(
        self,
        evaluations: Evaluations,
        templates: Prompts,
        names: Sequence[str],
        records: Sequence[dict[str, Any]],
        fields: Sequence[str],
    ) -> None:
        super().__init__()
        inputs: dict[str, Any] = {name: (Any, dspy.InputField()) for name in fields}
        self.answer = dspy.Predict(dspy.Signature({**inputs, ANSWER: (Any, dspy.OutputField())}))
        self._evaluations, self._templates, self._names, self._records = evaluations, templates, names, records

    def __deepcopy__(self, memo: dict[int, Any]) -> Prompted:
        twin = copy.copy(self)
        twin.answer = self.answer.deepcopy()
        return twin

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """The answer to a record and its score.

        Raises:
            ValueError: There is no score.
        """
        made = self._evaluations.ask(self.prompts(), self._records[inputs[RECORD]])
        if made.score is None:
            raise ValueError("scorers: the optimizer learns from scores, and got none")
        rationale = "; ".join(f"{name}: {text}" for name, text in made.rationales.items() if text)
        return dspy.Prediction(
            {ANSWER: made.outputs}, score=made.score, scores=made.individual_scores, feedback=rationale
        )

    def prompts(self) -> dict[str, str]:
        """The templates with the demonstrations."""
        demos = [{name: value for name, value in demo.items() if name != "augmented"} for demo in self.answer.demos]
        return {
            name: with_demonstrations(text, demos) if name in self._names else text
            for name, text in self._templates.items()
        }


def with_demonstrations(template: str, demos: Sequence[Mapping[str, Any]]) -> str:
    """A prompt's template with demonstrations, each with the inputs of a record and its `response`.

    A demonstration that MLflow would read as a part of the template, since its text has a variable, is left out.
    """
    kept = [demo for demo in demos if not _UNQUOTABLE.search(_listed(demo))]
    if len(kept) < len(demos):
        logger.warning("%d demonstrations are left out: their text has variables of templates", len(demos) - len(kept))
    if not kept:
        return template
    messages = _messages(template)
    if messages is None:
        return "\n\n".join(["Examples:", *map(_listed, kept), "---", template])
    pairs: list[dict[str, Any]] = []
    for demo in kept:
        pairs += [_filled(messages[-1], demo), {"role": "assistant", "content": _text(demo[ANSWER])}]
    return json.dumps([*messages[:-1], *pairs, messages[-1]])


def _messages(template: str) -> list[dict[str, Any]] | None:
    """A chat prompt's messages; None for a text prompt."""
    try:
        messages = json.loads(template)
    except ValueError:
        return None
    chat = (
        isinstance(messages, list) and messages and all(isinstance(each, dict) and "role" in each for each in messages)
    )
    return messages if chat else None


def _filled(message: dict[str, Any], demo: Mapping[str, Any]) -> dict[str, Any]:
    """A message with a demonstration's inputs; these alone where it has variables that no input fills."""
    prompt: Any = cast(Any, PromptVersion)("message", 1, [message])
    if prompt.variables <= demo.keys():
        (filled,) = prompt.format(**{name: _text(value) for name, value in demo.items() if name != ANSWER})
        return dict(filled)
    return {**message, "content": _listed({name: value for name, value in demo.items() if name != ANSWER})}


def _listed(demo: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {_text(value)}" for name, value in demo.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(to_jsonable(value), ensure_ascii=False)


def _record_name(example: dspy.Example) -> str:
    return f"record {example[RECORD]}"


def _score(example: dspy.Example, prediction: Any) -> dspy.Prediction:
    """The score that MLflow's scorers gave the answer."""
    return dspy.Prediction(score=prediction.score, scores=prediction.scores, feedback=prediction.feedback)


def _mean(scores: Sequence[tuple[float, Mapping[str, float]]]) -> tuple[float | None, dict[str, float]]:
    """The mean score, and the means by scorer."""
    if not scores:
        return None, {}
    names = {name: None for _, each in scores for name in each}
    return fmean(score for score, _ in scores), {
        name: fmean(each[name] for _, each in scores if name in each) for name in names
    }


class _Progress(BaseObserver):
    """Logs the curves of the iterations in a run of MLflow's."""

    def __init__(self, run_id: str) -> None:
        self._run_id, self._known = run_id, set[str]()

    def iteration_finished(self, result: IterationResult) -> None:
        """One point of every curve."""
        points = curves(iteration_metrics(result), self._known)
        self._known |= points.keys()
        mlflow.log_metrics(points, step=result.index + 1, run_id=self._run_id)


class _Unasked(dspy.BaseLM):
    """Stands for the LM of the user's function, which DSPy does not ask."""
