"""`AdaptiveFewShot` on a tool-using agent, `dspy.ReAct`, offline, with its record in MLflow.

    python examples/agent.py

The agent answers questions about rivers and capitals by calling tools. The LM is an `Imitator`: it knows how to fill
in a prompt's fields, but nothing about the tools. Without demonstrations it guesses a tool and a name from the text;
with them it does what was done in the most similar situation shown. One lucky guess is enough to be shown to others.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import tempfile
import threading
from collections import Counter
from pathlib import Path

import dspy
from dspy import lm15

from optimizers import AdaptiveFewShot, BaseObserver, Domain
from pipeline import MLflowObserver

CAPITALS = {
    "Peru": "Lima",
    "France": "Paris",
    "Austria": "Vienna",
    "Egypt": "Cairo",
    "Iraq": "Baghdad",
    "Iran": "Tehran",
}
RIVERS = {
    "Lima": "Rimac",
    "Paris": "Seine",
    "Vienna": "Danube",
    "Cairo": "Nile",
    "Baghdad": "Tigris",
    "Tehran": "Jajrud",
}

MARK = re.compile(r"\[\[ ## (\w+) ## \]\]\n")
OUTPUT = re.compile(r"^\d+\. `(\w+)` \((.+?)\):", re.MULTILINE)
TOOL = re.compile(r"\(\d+\) (\w+), .*?arguments (\{.*?\})\.(?:\n|$)", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r'(?<=")[A-Z]\w+(?=")')
NAME = re.compile(r"(?<=[a-z] )[A-Z]\w+|(?<=\n)[A-Z]\w+(?=\n|$)")


def capital(country: str) -> str:
    """The capital of a country."""
    return CAPITALS[country]


def river(city: str) -> str:
    """The river that flows through a city."""
    return RIVERS[city]


class Imitator:
    """The engine behind the LM: it imitates the most similar demonstration, and guesses where there is none.

    It parses the prompts of DSPy's `ChatAdapter`, for any signature. At a higher temperature it guesses more often.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def complete(self, request: lm15.Request) -> lm15.Response:
        """The fields that the system message asks for."""
        *shown, asked = [message.text or "" for message in request.messages]
        demos = [(self._state(user), self._fields(reply)) for user, reply in zip(shown[::2], shown[1::2], strict=True)]
        system = request.system if isinstance(request.system, str) else str(request.system)
        with self._lock:
            self.calls[asked] += 1
            seed = (request.config.seed, 0) if request.config.seed is not None else (None, self.calls[asked])
        luck = random.Random(f"{seed} {asked}")
        explores = 0.3 * (request.config.temperature or 0)
        state, answers = self._state(asked), dict[str, str]()
        for name, kind in OUTPUT.findall(system.partition("Your output fields are:")[2]):
            known = [(at, reply) for at, reply in demos if self._agrees(reply, answers)]
            if known and luck.random() >= explores:
                answers[name] = self._imitate(name, state, known)
            else:
                answers[name] = self._guess((name, kind), system, state, answers.get("next_tool_name", ""), luck)
        text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in answers.items()) + "[[ ## completed ## ]]"
        usage = lm15.Usage(input_tokens=sum(map(len, [system, *shown, asked])) // 4, output_tokens=len(text) // 4)
        message = lm15.Message.assistant(text)
        return lm15.Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def _fields(self, text: str) -> dict[str, str]:
        parts = MARK.split(text)
        return {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}

    def _state(self, text: str) -> str:
        """The inputs, without the reminder of the outputs at the end."""
        return text.partition("\n\nRespond with")[0]

    def _agrees(self, reply: dict[str, str], answers: dict[str, str]) -> bool:
        """Whether a demonstration chose as this answer so far, where it chose among options."""
        return all(reply.get(name) == value for name, value in answers.items() if name == "next_tool_name")

    def _imitate(self, name: str, state: str, demos: list[tuple[str, dict[str, str]]]) -> str:
        at, reply = max(demos, key=lambda demo: self._similarity(state, demo[0]))
        value = reply.get(name, "")
        if value and value in at:
            return self._transferred(value, at, state)
        return QUOTED.sub(lambda word: self._transferred(word[0], at, state), value)

    def _similarity(self, one: str, other: str) -> float:
        first, second = (Counter(WORD.findall(re.sub(NAME, "", text))) for text in (one, other))
        return sum((first & second).values()) / max(1, sum((first | second).values()))

    def _transferred(self, word: str, at: str, state: str) -> str:
        """The word of `state` in the place that `word` has `at` the demonstration: by what comes before it."""
        before = at.rpartition(word)[0]
        for length in (24, 12, 5):
            if (context := before[-length:]) and (found := re.findall(re.escape(context) + r"(\w+)", state)):
                return str(found[-1])
        return word

    def _guess(self, field: tuple[str, str], system: str, state: str, tool: str, luck: random.Random) -> str:
        name, kind = field
        if kind.startswith("Literal["):
            return str(luck.choice(ast.literal_eval(kind[len("Literal") :])))
        names = NAME.findall(state) or WORD.findall(state)
        if kind.startswith("dict"):
            takes = dict(TOOL.findall(system)).get(tool, "{}")
            return json.dumps({argument: luck.choice(names) for argument in re.findall(r"'(\w+)': \{", takes)})
        return "Let me see." if name in ("reasoning", "next_thought") else luck.choice(names)


def is_right(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    """The metric."""
    return bool(prediction.answer == example.gold)


def make_tasks() -> list[dspy.Example]:
    """Questions that take one call, then questions that take two; `gold` is for the metric alone."""
    one = [(f"What is the capital of {country} ?", city) for country, city in CAPITALS.items()]
    far = "Which river flows through the capital of"
    two = [(f"{far} {country} ?", RIVERS[city]) for country, city in CAPITALS.items()]
    return [dspy.Example(question=question, gold=gold).with_inputs("question") for question, gold in one + two]


def learn(*observers: BaseObserver) -> dspy.Module:
    """The agent, compiled."""
    agent = dspy.ReAct("question -> answer", tools=[capital, river], max_iters=4)
    named = Domain(task_key=lambda example: str(example.question))
    optimizer = AdaptiveFewShot(is_right, num_samples=4, temperatures=(0.4, 0.8), domain=named, observers=observers)
    with dspy.context(lm=dspy.LM("imitator", engine=Imitator(), cache=False)):
        return optimizer.compile(agent, trainset=make_tasks())


def main() -> None:
    """Learns, records, and prints what the agent is shown in the end."""
    if "MLFLOW_TRACKING_URI" not in os.environ:
        os.chdir(tempfile.mkdtemp(prefix="agent-"))  # MLflow's own store is in the current folder
    observer = MLflowObserver("agent")
    compiled = learn(observer)
    for result in compiled.experience.iterations:
        print(f"{result.index + 1}: {result.label:6} {len(result.demos):2} demonstrations,", end=" ")
        print(f"solved {result.solved_total:2} of {len(compiled.experience.tasks)}")
    print("the agent is shown:", ", ".join(demo.next_tool_name for demo in compiled.react.demos))
    store = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{Path.cwd()}/mlflow.db")
    print(f"recorded as run {observer.run_id}; mlflow ui --backend-store-uri {store} shows it")


if __name__ == "__main__":
    main()
