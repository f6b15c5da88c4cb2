"""An engine that also answers what DSPy's optimizers ask, and a student tuned with it."""

import json
import re
from typing import Any

import dspy
from dspy import lm15

from optimizers import baselines as registry
from optimizers.requests import derive_seed
from tests.support.scripted_program import FIELD, ScriptedEngine, answer, learn, respond

THOUGHT = "Think twice."


def reflection(system: str, user: str) -> str:
    """A text for every field that a request asks for, as JSON where it asks for that."""
    if "JSON object" in user:
        return json.dumps(dict.fromkeys(re.findall(r"`(\w+)`", user.rpartition("JSON object")[2]), THOUGHT))
    fields = re.findall(r"`\[\[ ## (\w+) ## \]\]`", user) or re.findall(r"\[\[ ## (\w+) ## \]\]", system)
    return "\n\n".join(f"[[ ## {name} ## ]]\n{THOUGHT}" for name in dict.fromkeys(fields)) + f"\n\n```\n{THOUGHT}\n```"


class Reflective(ScriptedEngine):
    """Solves what it is shown or instructed to, by the request alone; fills every field of any other request.

    Of its first instructions, as many as `garbled` says can't be read.
    """

    garbled = 0

    def complete(self, request: lm15.Request) -> lm15.Response:
        users = [message.text or "" for message in request.messages if message.role == "user"]
        found = [FIELD.search(text) for text in users]
        system = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system or ())
        if "[[ ## answer ## ]]" not in system or not found or found[-1] is None:
            text = reflection(system, users[-1])
            if self.garbled and "[[ ## proposed_instruction ## ]]" in system:
                text, self.garbled = "I would rather\nnot.", self.garbled - 1
        else:
            task = found[-1].group(1).strip()
            luck = derive_seed(request.config.seed, task) % 100
            odds = {"a": 90, "b": 60}.get(task, 40 if len(users) > 1 or THOUGHT in system else 0)
            text = answer(f"right {task}" if luck < odds else f"wrong {luck}")
        usage = lm15.Usage(input_tokens=sum(map(len, users)), output_tokens=len(text))
        with self.lock:
            self.calls += 1
            self.prompt += usage.input_tokens or 0
            self.completion += usage.output_tokens or 0
        return respond(request, text, usage)


def tuned(name: str, engine: Any = None, **options: Any) -> dspy.Module:
    return learn(
        "abcx",
        lambda *_: 0,
        engine=engine or Reflective(lambda *_: 0, 4),
        optimizer=registry.OPTIMIZERS[name],
        **options,
    )


SHOWING = ["bootstrap", "random-search"]
NAMES = [*SHOWING, "simba", "gepa"]
