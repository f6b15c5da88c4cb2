"""A program whose success rates are known: a scripted engine behind `dspy.LM`, which keeps its own books."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy import lm15

from optimizers import AdaptiveFewShot, BaseObserver, Domain, IterationResult, IterationStarted
from tests.support.scripted_lm import respond

# Of a task, the tasks shown as demonstrations, and how often this was asked before: how many of the n samples
# at each temperature are right.
Script = Callable[[str, tuple[str, ...], int], int]
Say = Callable[[lm15.Request, str, bool], str]

FIELD = re.compile(r"\[\[ ## task ## \]\]\n(.*?)\s*(?:\n\n|\Z)", re.DOTALL)


def answer(text: str) -> str:
    """A completion that the chat adapter parses into the field `answer`."""
    return f"[[ ## answer ## ]]\n{text}\n\n[[ ## completed ## ]]"


class ScriptedEngine:
    """Answers by script, at once; counts requests and tokens as a server would."""

    def __init__(self, script: Script, n: int, say: Say | None = None) -> None:
        self.script, self.n = script, n
        self.say = say or (lambda request, task, right: answer(f"right {task}" if right else "wrong"))
        self.calls = self.prompt = self.completion = 0
        self.requests: list[lm15.Request] = []
        self.drawn: Counter[Any] = Counter()
        self.lock = threading.Lock()

    def complete(self, request: lm15.Request) -> lm15.Response:
        users = [message.text or "" for message in request.messages if message.role == "user"]
        *demos, task = [found.group(1).strip() for text in users if (found := FIELD.search(text))]
        with self.lock:
            key = (task, tuple(demos), request.config.temperature)
            visit, position = divmod(self.drawn[key], self.n)
            self.drawn[key] += 1
            self.calls += 1
            self.requests.append(request)
        text = self.say(request, task, position < self.script(task, tuple(demos), visit))
        usage = lm15.Usage(input_tokens=sum(map(len, users)), output_tokens=len(text))
        with self.lock:
            self.prompt += usage.input_tokens or 0
            self.completion += usage.output_tokens or 0
        return respond(request, text, usage)


class Asynchronous:
    """An engine's asynchronous counterpart."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine

    async def complete(self, request: lm15.Request) -> lm15.Response:
        return self.engine.complete(request)


class Solver(dspy.Module):
    """The smallest student: one predictor."""

    def __init__(self) -> None:
        super().__init__()
        self.solve = dspy.Predict("task -> answer")

    def forward(self, task: str) -> dspy.Prediction:
        return self.solve(task=task)


def is_right(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(prediction.answer == f"right {example.task}")


def tasks(names: Sequence[str]) -> list[dspy.Example]:
    return [dspy.Example(task=name).with_inputs("task") for name in names]


def by_task(example: dspy.Example) -> str:
    return str(example.task)


class Heard(BaseObserver):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.started: list[IterationStarted] = []
        self.finished: list[IterationResult] = []
        self.attempts: list[Any] = []
        self.others: list[Any] = []
        self.threads: set[int] = set()

    def run_started(self, event: Any) -> None:
        self.others.append(event)

    def iteration_started(self, event: IterationStarted) -> None:
        self.started.append(event)

    def sample_done(self, attempt: Any) -> None:
        self.attempts.append(attempt)
        self.threads.add(threading.get_ident())

    def iteration_finished(self, result: IterationResult) -> None:
        self.finished.append(result)

    def run_finished(self, experience: Any) -> None:
        self.others.append(experience)


def learn(
    names: Sequence[str],
    script: Script,
    *,
    n: int = 4,
    engine: Any = None,
    student: dspy.Module | None = None,
    optimizer: type[AdaptiveFewShot] = AdaptiveFewShot,
    compiling: dict[str, Any] | None = None,
    lm: dict[str, Any] | None = None,
    **options: Any,
) -> dspy.Module:
    """Compiles the student (a `Solver`) on tasks called `names`, one temperature, n samples."""
    engine = engine or ScriptedEngine(script, n)
    options = {"metric": is_right, "temperatures": (0.7,), "domain": Domain(task_key=by_task), **options}
    with dspy.context(lm=dspy.LM("scripted", engine=engine, **{"cache": False, **(lm or {})})):
        return optimizer(num_samples=n, **options).compile(
            student or Solver(), trainset=tasks(names), **(compiling or {})
        )


def story(compiled: dspy.Module) -> list[str]:
    """One line an iteration: label, demonstrations, tasks solved."""
    return [
        f"{result.label}: {''.join(result.demos) or '-'} -> {''.join(result.solved) or '-'}"
        for result in compiled.experience.iterations
    ]


def some(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 2}.get(task, 0)


def failing(error: Exception, after: int) -> ScriptedEngine:
    """An engine that raises `error` after so many answers."""

    class Failing(ScriptedEngine):
        asked = 0

        def complete(self, request: Any) -> Any:
            with self.lock:
                self.asked += 1
                if self.asked > after:
                    raise error
            return super().complete(request)

    return Failing(some, 4)


class Refusing(ScriptedEngine):
    """Never answers a task called `r`, as a filter of contents would; answers no other once `dead` says so."""

    error: Exception = lm15.InvalidRequestError("not allowed")
    dead: Exception | None = None
    after = 0

    def complete(self, request: Any) -> Any:
        if "\nr\n" in (request.messages[-1].text or ""):
            with self.lock:
                self.calls += 1
            raise self.error
        response = super().complete(request)
        if self.dead and self.calls > self.after:
            raise self.dead
        return response


def shown_two(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 1, "c": 2}.get(task, 0) if task != "x" else 4 * (len(demos) == 3)
