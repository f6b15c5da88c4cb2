"""Programs of many kinds learn under every adapter, and go on from the JSON record of an interrupted run."""

# No postponed annotations: signatures of classes defined in a function need the classes themselves.

import enum
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import dspy
import mlflow
import pydantic
import pytest
from dspy import lm15

from optimizers import AdaptiveFewShot, Attempt, BaseObserver, Domain, Experience
from optimizers.attempt import to_jsonable
from tests.support import quick_stores
from tests.support.mlflow_settings import tracking_to
from tests.support.scripted_lm import respond

Fields = Mapping[str, Any]
Answers = Callable[[str, int], Fields]
"""The output fields of an answer, from the last message's text and the number of requests with this text before."""

ADAPTERS: Mapping[str, Callable[[dspy.LM], Any]] = {
    "chat": lambda lm: dspy.ChatAdapter(),
    "json": lambda lm: dspy.JSONAdapter(),
    "xml": lambda lm: dspy.XMLAdapter(),
    "two-step": dspy.TwoStepAdapter,
}


class FormatEngine:
    """Answers by a function of the last message, in the format that the request describes; keeps the requests."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._asked: dict[Any, int] = {}
        self._said: dict[str, Fields] = {}
        self._lock = threading.Lock()
        self.requests: list[lm15.Request] = []

    def complete(self, request: lm15.Request) -> lm15.Response:
        *_, last = [message.text or "" for message in request.messages if message.role == "user"]
        system = request.system if isinstance(request.system, str) else str(request.system)
        with self._lock:
            self.requests.append(request)
            fields = self._extracted(last)
            if fields is None:
                number = self._asked.get(last, 0)
                self._asked[last] = number + 1
                fields = self._answers(last, number)
            text = _formatted(system, fields)
            self._said[text] = fields
        return respond(request, text, lm15.Usage(input_tokens=len(last), output_tokens=len(text)))

    def _extracted(self, last: str) -> Fields | None:
        """The fields of an own answer that the two-step adapter has parsed."""
        return next((fields for text, fields in self._said.items() if "[[ ## text ## ]]\n" + text in last), None)


def _formatted(system: str, fields: Fields) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    if "[[ ## completed ## ]]" in system:
        return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in texts.items()) + "[[ ## completed ## ]]"
    if "<" + next(iter(texts)) + ">" in system:
        return "\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in texts.items())
    if "JSON" in system:
        return json.dumps(dict(fields))
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


def input_field(text: str, name: str) -> str:
    """The value of an input field in a user message of any adapter."""
    for pattern in (rf"\[\[ ## {name} ## \]\]\n(.*?)\s*(?:\n\n|\Z)", rf"<{name}>\n(.*?)\n</{name}>", rf"{name}: (.*)"):
        if found := re.search(pattern, text, re.DOTALL if "(.*?)" in pattern else 0):
            return found.group(1).strip()
    return ""


RED_THINGS = ("rose", "brick")


@dataclass
class Case:
    """A program, its tasks (the last of which it never solves), how the LM answers, and the answers' grouping."""

    student: dspy.Module
    trainset: list[dspy.Example]
    metric: Any
    answers: Any
    domain: dict[str, Any] = field(default_factory=dict)


def things(*extra: str, **fields: Any) -> list[dspy.Example]:
    return [dspy.Example(thing=thing, **fields).with_inputs("thing", *extra) for thing in (*RED_THINGS, "sky")]


def conversation() -> Case:
    class Reply(dspy.Signature):
        thing: str = dspy.InputField()
        history: dspy.History = dspy.InputField()
        color: str = dspy.OutputField()

    history = dspy.History(messages=[{"thing": "grass", "color": "green"}])
    return Case(dspy.Predict(Reply), things("history", history=history), is_red, says_red_at_times)


def classifier() -> Case:
    class Color(enum.Enum):
        RED = "red"
        BLUE = "blue"

    class Classify(dspy.Signature):
        thing: str = dspy.InputField()
        color: Color = dspy.OutputField()

    domain = {"grouping_key": lambda outputs: outputs["color"].value, "length": lambda outputs: outputs["color"].name}
    return Case(dspy.Predict(Classify), things(), is_red, says_red_at_times, domain)


def extraction() -> Case:
    class Part(pydantic.BaseModel):
        name: str
        color: Literal["red", "blue"]
        size: int | None = None

    class Extract(dspy.Signature):
        thing: str = dspy.InputField()
        parts: list[Part] = dspy.OutputField()
        weight: int | float | str = dspy.OutputField()
        places: dict[str, list[int]] | None = dspy.OutputField()

    def metric(example: dspy.Example, prediction: Any) -> bool:
        return example.thing in RED_THINGS and all(part.color == "red" for part in prediction.parts)

    def answers(text: str, number: int) -> dict[str, Any]:
        color = says_red_at_times(text, number)["color"]
        return {"reasoning": "look", "parts": [{"name": "top", "color": color}], "weight": 3, "places": {"a": [1]}}

    domain = {"grouping_key": lambda outputs: tuple(part.color for part in outputs["parts"])}
    return Case(dspy.ChainOfThought(Extract), things(), metric, answers, domain)


def agent() -> Case:
    class Shade(enum.Enum):
        RED = "red"
        BLUE = "blue"

    class Answer(dspy.Signature):
        thing: str = dspy.InputField()
        color: Shade = dspy.OutputField()

    look = dspy.Tool(lambda thing: f"a {thing}", name="look", desc="Looks.", args={"thing": {"type": "string"}})

    def answers(text: str, number: int) -> dict[str, Any]:
        if "tool_call_results" not in text and (thing := input_field(text, "thing")):
            return call("look", thing=thing)
        return call("submit", **says_red_at_times(text, number))

    return Case(dspy.ReActV2(Answer, tools=[look]), things(), is_red, answers)


def two_steps() -> Case:
    class Describe(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.describe = dspy.Predict("thing -> material")
            self.color = dspy.Predict("thing, material -> color")

        def forward(self, thing: str) -> dspy.Prediction:
            material = self.describe(thing=thing).material
            return self.color(thing=thing, material=material)

    def answers(text: str, number: int) -> dict[str, Any]:
        return says_red_at_times(text, number) if input_field(text, "material") else {"material": "stuff"}

    return Case(Describe(), things(), is_red, answers)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"next_thought": name, "tool_calls": {"tool_calls": [{"name": name, "args": arguments}]}}


def says_red_at_times(text: str, number: int) -> dict[str, Any]:
    return {"color": "red" if number % 2 else "blue"}


def is_red(example: dspy.Example, prediction: Any) -> bool:
    return example.thing in RED_THINGS and getattr(prediction.color, "value", prediction.color) == "red"


def compiled_from(case: Case, lm: dspy.LM, adapter: str, **options: Any) -> dspy.Module:
    compiling = {name: options.pop(name) for name in ("resume",) if name in options}
    optimizer = AdaptiveFewShot(
        case.metric, 4, temperatures=(0.7,), threads=1, domain=Domain(**case.domain), **options
    )  # fmt: skip
    with dspy.context(lm=lm, adapter=ADAPTERS[adapter](lm)):
        return optimizer.compile(case.student, trainset=case.trainset, **compiling)


PROGRAMS = [conversation, classifier, extraction, agent, two_steps]


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("make", PROGRAMS)
def test_programs_learn_and_resume_from_json_under_every_adapter(make: Any, adapter: str) -> None:
    """Types of a local class are those of the first run, grouping keys included; nothing is asked for again."""
    learns_and_resumes(make, adapter)


def learns_and_resumes(make: Any, adapter: str) -> None:
    """Compiles a program, and once more from the JSON of its attempts."""
    case = make()
    before = [dict(example.toDict()) for example in case.trainset]
    engine = FormatEngine(case.answers)
    lm = dspy.LM("scripted", engine=engine, cache=False)
    compiled = compiled_from(case, lm, adapter)
    record = compiled.experience
    assert len(record.solved) == 2 and record.stopped == "exhausted"
    assert not any(attempt.error for attempt in record.attempts)
    assert all(predictor.demos for predictor in compiled.predictors())
    assert [example.toDict() for example in case.trainset] == before

    asked = len(engine.requests)
    journal = [Attempt.from_dict(json.loads(json.dumps(attempt.to_dict()))) for attempt in record.attempts]
    again = compiled_from(case, lm, adapter, resume=journal)
    assert len(engine.requests) == asked
    assert list(map(kinds, again.experience.entries)) == list(map(kinds, record.entries))
    assert list(map(kinds, again.experience.attempts)) == list(map(kinds, record.attempts))
    if make is agent and adapter == "two-step":
        return  # it prints tools in Python's notation, and JSON holds no functions
    prompts = []
    for program in (compiled, again):
        engine.requests.clear()
        with dspy.context(lm=lm, adapter=ADAPTERS[adapter](lm)):
            program(**{**dict(case.trainset[0].inputs().items()), "thing": "apple"})
        prompts.append(engine.requests[0].messages)
    assert prompts[0] == prompts[1]


@pytest.fixture
def autologging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MLflow logs whatever DSPy does, to a store of the test's own."""
    quick_stores.use()
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts by default
    with tracking_to(f"sqlite:///{tmp_path}/mlflow.db"):
        mlflow.dspy.autolog(log_traces_from_compile=True, log_compiles=True, log_evals=True)
        yield
        mlflow.dspy.autolog(disable=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's, about its own tables
@pytest.mark.usefixtures("autologging")
@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("make", PROGRAMS)
def test_they_do_so_while_mlflow_logs_everything(make: Any, adapter: str) -> None:
    """No run is left open or failed, and each trace is a whole call of the program."""
    learns_and_resumes(make, adapter)
    mlflow.flush_trace_async_logging()
    runs: Any = mlflow.search_runs(output_format="list")
    assert {run.info.status for run in runs} == {"FINISHED"}
    traces: Any = mlflow.search_traces(return_type="list")
    roots = {trace.data.spans[0].name for trace in traces}
    assert roots == {f"{type(make().student).__name__}.forward"}


def kinds(made: Any) -> Any:
    """Types and values of an answer's fields."""
    return {name: (type(value), to_jsonable(value)) for name, value in made.outputs.items()}


class Angry(BaseObserver):
    """Fails when an event comes."""

    def __init__(self, event: str) -> None:
        setattr(self, event, self.fail)

    def fail(self, payload: Any) -> None:
        raise RuntimeError("angry")


def failing(*_: Any) -> Any:
    raise ZeroDivisionError("by the user's code")


@pytest.mark.parametrize(
    "options",
    [
        {"domain": {"grouping_key": failing}}, {"domain": {"length": failing}}, {"domain": {"confirm": failing}},
        {"domain": {"cost": failing}}, {"domain": {"closeness": failing}},
        {"domain": {"structures": failing}, "selection": "coverage"}, {"observers": [Angry("iteration_finished")]},
        {"observers": [Angry("sample_done")]}, {"observers": [Angry("run_finished")]},
    ],
    ids=lambda options: str(list(options.get("domain", options))),
)  # fmt: skip
def test_no_exception_after_a_sample_loses_the_record(options: dict[str, Any]) -> None:
    """Whoever raised it; the traceback says where the record is, and a run goes on from it."""
    case = classifier()
    engine = FormatEngine(case.answers)
    lm = dspy.LM("scripted", engine=engine, cache=False)
    case.domain |= options.get("domain", {})
    others = {name: value for name, value in options.items() if name != "domain"}
    with pytest.raises((ZeroDivisionError, RuntimeError)) as raised:
        compiled_from(case, lm, "chat", **others)
    record = raised.value.experience  # type: ignore[union-attr]
    assert isinstance(record, Experience) and record.stopped == "failed"
    assert len(record.attempts) == len(engine.requests) > 0
    assert "`experience`" in raised.value.__notes__[0]

    asked = len(engine.requests)
    again = compiled_from(classifier(), lm, "chat", resume=record.attempts).experience
    assert len(again.attempts) == len(engine.requests) > asked or len(again.attempts) == asked


def test_tasks_of_a_record_keep_the_types_of_their_answers() -> None:
    """Also when a further run starts from its JSON."""
    case = classifier()
    lm = dspy.LM("scripted", engine=FormatEngine(case.answers), cache=False)
    record = compiled_from(case, lm, "chat").experience
    read = Experience.from_dict(json.loads(json.dumps(record.to_dict())))
    optimizer = AdaptiveFewShot(case.metric, 4, temperatures=(0.7,), domain=Domain(**case.domain))
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
        further = optimizer.compile(case.student, trainset=case.trainset, experience=read).experience
    assert [entry.outputs for entry in further.entries] == [entry.outputs for entry in record.entries]


def test_an_agent_s_asynchronous_tools_work_while_it_learns() -> None:
    """DSPy's synchronous agents see every call of one fail, unless a setting converts it."""
    case, seen = agent(), list[str]()

    async def look(thing: str) -> str:
        """Looks."""
        seen.append(thing)
        return f"a {thing}"

    case.student = dspy.ReActV2(case.student.signature, tools=[look])
    engine = FormatEngine(case.answers)
    record = compiled_from(case, dspy.LM("scripted", engine=engine, cache=False), "chat").experience
    assert len(record.solved) == 2 and len(seen) == len(record.attempts)
    assert not any("async" in str(request.messages) for request in engine.requests)
