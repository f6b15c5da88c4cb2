"""`AdaptiveFewShot` beside DSPy's optimizers at equal tokens, in three worlds in which different things help an LM.

The tasks are values of six unknown operators; the LM is a script. Alone it answers an operator's tasks at that
operator's rate, from 5 to 60 %. In the world `demo` it is right (90 %) if a demonstration of its operator is shown;
in `rule` (95 %) if the instructions state the operator's rule, and 60 % by a demonstration; in `count` by the number of
demonstrations alone, 8 points each, up to 90 %. The metric's feedback on a wrong answer tells the rule. GEPA reads it,
and the script repeats what it was told when it is asked to write instructions.

`adaptive` runs first, to its own end, and all others get its tokens: half for DSPy's search, scaled to that, the rest
for samples of its program. The chain has the same search by GEPA, and `adaptive` gets the rest instead, on GEPA's
program. Every program then answers 120 tasks that none of them saw, once, at temperature 0.7.

How to run: python -m benchmarks.worlds [--seeds 3] [--only demo] [--samples 64]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import random
import re
import threading
from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

import dspy
from dspy import lm15

from optimizers import AdaptiveFewShot, Budget, SinglePass, TokenCount
from optimizers.baselines import GEPA, MIPRO, SIMBA, Bootstrap, RandomSearch
from optimizers.requests import derive_seed

OPERATORS: Mapping[str, tuple[Callable[[int, int], int], str, int]] = {
    "dax": (lambda a, b: 2 * a + b, "a dax b is 2a + b", 60),
    "wif": (lambda a, b: a * b + 1, "a wif b is ab + 1", 50),
    "lug": (lambda a, b: a - 3 * b, "a lug b is a - 3b", 40),
    "zup": (lambda a, b: a * a + b, "a zup b is aa + b", 25),
    "fep": (lambda a, b: (a + b) * 2, "a fep b is 2(a + b)", 15),
    "kiki": (lambda a, b: a * b - a, "a kiki b is ab - a", 5),
}
FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)\s*(?:\n\n|\Z)", re.DOTALL)


def examples(number: int, seed: int) -> list[dspy.Example]:
    """Tasks, the operators in turn."""
    rng, names, made = random.Random(seed), list(OPERATORS), dict[str, dspy.Example]()
    while len(made) < number:
        a, b, name = rng.randint(2, 99), rng.randint(2, 99), names[len(made) % len(names)]
        made[f"{a} {name} {b}"] = dspy.Example(task=f"{a} {name} {b}").with_inputs("task")
    return list(made.values())


def value(text: str) -> int:
    """The right answer to a task."""
    a, name, b = text.split()
    return OPERATORS[name][0](int(a), int(b))


def metric(example: dspy.Example, prediction: Any, *_: Any, **__: Any) -> Any:
    """Right or wrong, and in words the rule that a wrong answer breaks."""
    if str(prediction.value).strip() == str(value(example.task)):
        return dspy.Prediction(score=1.0, feedback="right")
    return dspy.Prediction(score=0.0, feedback=f"wrong: {OPERATORS[example.task.split()[1]][1]}")


class Script:
    """The LM; it counts its requests."""

    def __init__(self, world: str) -> None:
        self.world, self.calls, self._lock = world, 0, threading.Lock()

    def complete(self, request: lm15.Request) -> lm15.Response:
        """An answer to a task, or instructions that repeat the rules in the request."""
        users = [message.text or "" for message in request.messages if message.role == "user"]
        system = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system or ())
        asked = [dict(FIELD.findall(text)).get("task", "") for text in users]
        with self._lock:
            self.calls += 1
        if "[[ ## value ## ]]" in system and asked and asked[-1]:
            luck = derive_seed(self.world, request.config.seed, asked[-1]) % 100
            right = luck < self._rate(asked[-1], asked[:-1], system)
            text = f"[[ ## value ## ]]\n{value(asked[-1]) if right else -luck - 7}\n\n[[ ## completed ## ]]"
        else:
            text = self._instructions(system + "\n".join(users), system, users[-1])
        usage = lm15.Usage(input_tokens=(len(system) + sum(map(len, users))) // 4, output_tokens=len(text) // 4 + 1)
        message = lm15.Message.assistant(text)
        return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)

    def _rate(self, task: str, shown: list[str], system: str) -> int:
        name = task.split()[1]
        alike, alone = any(f" {name} " in each for each in shown), OPERATORS[name][2]
        if self.world == "demo":
            return 90 if alike else alone
        if self.world == "rule":
            return 95 if OPERATORS[name][1] in system else 60 if alike else alone
        return min(90, alone + 8 * len(shown))

    def _instructions(self, text: str, system: str, last: str) -> str:
        known = [rule for _, rule, _ in OPERATORS.values() if rule in text]
        told = "Give the value of the task. " + "; ".join(known)
        if "JSON object" in last:
            return json.dumps(dict.fromkeys(re.findall(r"`(\w+)`", last.rpartition("JSON object")[2]), told))
        fields = re.findall(r"`\[\[ ## (\w+) ## \]\]`", last) or re.findall(r"\[\[ ## (\w+) ## \]\]", system)
        named = "\n\n".join(f"[[ ## {name} ## ]]\n{told}" for name in dict.fromkeys(fields) if name != "completed")
        return f"{named}\n\n```\n{told}\n```"


class Calculator(dspy.Module):
    """The student."""

    def __init__(self) -> None:
        super().__init__()
        self.find = dspy.Predict(dspy.Signature("task -> value", "Give the value of the task."))

    def forward(self, task: str) -> Any:
        """One request."""
        return self.find(task=task)


OPTIONS = argparse.Namespace()
Make = Callable[[int, Budget], Any]


def shared(seed: int, budget: Budget) -> dict[str, Any]:
    """What all optimizers have in common."""
    return {
        "metric": metric, "num_samples": OPTIONS.samples, "temperatures": (0.7,), "threads": 4, "seed": seed,
        "budget": budget, "display_progress": False,
    }  # fmt: skip


ARMS: Mapping[str, Make] = {
    "adaptive": lambda seed, budget: AdaptiveFewShot(**shared(seed, budget)),
    "resample": lambda seed, budget: SinglePass(resample=True, **shared(seed, budget)),
    **{
        kind.name: lambda seed, budget, kind=kind: kind(resample=True, **shared(seed, budget))  # type: ignore[misc]
        for kind in (Bootstrap, RandomSearch, MIPRO, SIMBA, GEPA)
    },
}
CHAIN = "gepa, then adaptive"


def run(arm: str, world: str, seed: int, tokens: int | None) -> tuple[int, int, int, float]:
    """Tokens, requests, solved tasks of 24, and the percentage of new tasks that the program answers right."""
    script, train = Script(world), examples(24, seed)
    lm = dspy.LM("script", engine=script, cache=False)
    program: Any = Calculator()
    spent, solved = 0, set[str]()
    with dspy.context(lm=lm), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        steps: list[Make] = [ARMS.get(arm, ARMS["adaptive"])]
        if arm == CHAIN:
            steps.insert(0, lambda seed, budget: GEPA(**{**shared(seed, budget), "num_samples": 1}))
        for make in steps:
            budget = Budget(tokens=None if tokens is None else tokens - spent)
            program = make(seed, budget).compile(program, trainset=train)
            spent += TokenCount.sum(program.experience.tokens.values()).budgeted
            solved |= {*program.experience.solved}
            program._compiled = False
        requests = script.calls
        tests = examples(120, 1000 + seed)
        with dspy.context(lm=dspy.LM("script", engine=script, cache=False, temperature=0.7, seed=seed)):
            right = [metric(each, program(**each.inputs())).score for each in tests]
    return spent, requests, len(solved), 100 * mean(right)


def main() -> None:
    """Prints a table for each world: means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=("demo", "rule", "count"))
    parser.add_argument("--samples", type=int, default=16, help="of each task; 64: with tokens in plenty")
    options = parser.parse_args(namespace=OPTIONS)
    logging.disable(logging.WARNING)
    for world in [options.only] if options.only else ("demo", "rule", "count"):
        partners = {seed: run("adaptive", world, seed, None) for seed in range(options.seeds)}
        print(f"\n| {world} | tokens | requests | solved of 24 | new tasks right |\n|---|---|---|---|---|")
        for arm in (*ARMS, CHAIN):
            found = [
                partners[seed] if arm == "adaptive" else run(arm, world, seed, partners[seed][0]) for seed in partners
            ]
            spent, requests, solved, right = (mean(column) for column in zip(*found, strict=True))
            rights = ", ".join(f"{each[3]:.0f}" for each in found)
            print(f"| {arm} | {spent:,.0f} | {requests:.0f} | {solved:.1f} | {right:.0f} % ({rights}) |", flush=True)


if __name__ == "__main__":
    main()
