"""Programs that are not about STeP: `AdaptiveFewShot` beside DSPy's optimizers, at equal numbers of LM calls.

A classifier (`dspy.ChainOfThought`), a two-hop program of two predictors, and an agent (`dspy.ReAct`). The LM is the
`Imitator` of `examples/agent.py`: it fills in a prompt's fields by imitating the most similar demonstration, and
guesses where there is none, so that all that an optimizer gains it gains by the demonstrations it selects.

No optimizer sees a label: they learn from answers that pass the metric (`max_labeled_demos=0`). AdaptiveFewShot runs
first; BootstrapFewShotWithRandomSearch gets as many candidates, and SIMBA as many steps, as its number of calls allows,
as found by a run of one and of two. What they return is then sampled on tasks of the same kind that none of them saw.

How to run: python -m benchmarks.programs [--seeds 3] [--only classifier]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

import dspy

from examples.agent import Imitator, capital, is_right, make_tasks, river
from optimizers import AdaptiveFewShot

SAMPLES = 8
"""Samples of each test task, at temperature 0.4."""

INTENTS = {
    "refund": ("refund", "money", "charge", "invoice", "paid", "twice", "return", "credit"),
    "delivery": ("parcel", "courier", "late", "address", "tracking", "arrive", "box", "ship"),
    "account": ("password", "login", "email", "locked", "profile", "reset", "code", "name"),
    "product": ("broken", "screen", "battery", "noise", "button", "cable", "hot", "manual"),
}
PLACES = (
    "Aros",
    "Belm",
    "Corin",
    "Dova",
    "Ester",
    "Falk",
    "Gavel",
    "Hamar",
    "Ilven",
    "Jord",
    "Kesh",
    "Lund",
    "Maris",
    "Norda",
    "Osk",
    "Pelt",
)
RIVERS = (
    "Arn",
    "Brel",
    "Cald",
    "Drav",
    "Else",
    "Fenn",
    "Gota",
    "Hase",
    "Inne",
    "Jura",
    "Kolm",
    "Lahn",
    "Mur",
    "Nidd",
    "Oder",
    "Prut",
)
ARTICLES = {
    place: f"{place} is old . Trade along {stream} made {PLACES[number - 1]} jealous ."
    for number, (place, stream) in enumerate(zip(PLACES, RIVERS, strict=True))
}


def classifier() -> dspy.Module:
    """One predictor, with an option to choose."""
    return dspy.ChainOfThought("message -> answer: Literal['refund', 'delivery', 'account', 'product']")


def messages(rng: random.Random, count: int) -> list[dspy.Example]:
    """Messages of three words of their intent among three of any."""
    made = []
    for _ in range(count):
        intent = rng.choice(sorted(INTENTS))
        others = [word for words in INTENTS.values() for word in words]
        words = rng.sample(INTENTS[intent], 3) + rng.sample(others, 3)
        rng.shuffle(words)
        made.append(dspy.Example(message=" ".join(words), gold=intent).with_inputs("message"))
    return made


class TwoHop(dspy.Module):
    """Finds the title of an article in the question, then the answer in the article."""

    def __init__(self) -> None:
        super().__init__()
        self.find = dspy.Predict("question -> title")
        self.read = dspy.Predict("question, article -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        """The answer."""
        title = self.find(question=question).title
        place = PLACES.index(title) if title in PLACES else None
        article = (
            f"{title} is old . Trade along {RIVERS[place]} made {PLACES[place - 1]} jealous ." if place else "none"
        )
        return self.read(question=question, article=article)


def rivers(rng: random.Random, count: int) -> list[dspy.Example]:
    """Questions about a place's river that name a second place, which was born or died there."""
    made = []
    for place in rng.sample(range(len(PLACES)), count):
        person, first = rng.choice(("Anna", "Boris", "Clara", "David")), rng.choice(PLACES)
        question = f"By which river lies the town where {person} of {first} lived , called {PLACES[place]} ?"
        made.append(dspy.Example(question=question, gold=RIVERS[place]).with_inputs("question"))
    return made


def agent() -> dspy.Module:
    """An agent with two tools."""
    return dspy.ReAct("question -> answer", tools=[capital, river], max_iters=4)


def questions(rng: random.Random, count: int) -> list[dspy.Example]:
    """Questions that take one call or two."""
    tasks = make_tasks()
    rng.shuffle(tasks)
    return tasks[:count]


@dataclass(frozen=True)
class Program:
    """A program with its tasks: how to make it, them, and how many there are to learn from and to be tested on."""

    make: Callable[[], dspy.Module]
    tasks: Callable[[random.Random, int], list[dspy.Example]]
    train: int
    test: int


PROGRAMS = {
    "classifier": Program(classifier, messages, 16, 16),
    "two-hop": Program(TwoHop, rivers, 8, 7),
    "agent": Program(agent, questions, 6, 6),
}


def calls_of(work: Callable[[], dspy.Module]) -> tuple[dspy.Module, int]:
    """What `work` returns, and the number of requests that it made; what it prints is dropped."""
    engine = Imitator()
    lm, dropped = dspy.LM("imitator", engine=engine, cache=False), io.StringIO()
    with dspy.context(lm=lm), contextlib.redirect_stdout(dropped), contextlib.redirect_stderr(dropped):
        return work(), sum(engine.calls.values())


def adaptive(program: Program, train: Sequence[dspy.Example], seed: int) -> dspy.Module:
    """Three samples at two temperatures."""
    optimizer = AdaptiveFewShot(is_right, num_samples=3, temperatures=(0.4, 0.8), seed=seed, num_threads=1)
    return optimizer.compile(program.make(), trainset=train)


def random_search(program: Program, train: Sequence[dspy.Example], seed: int, size: int) -> dspy.Module:
    """`size` candidates beside DSPy's first three."""
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        is_right, max_labeled_demos=0, max_rounds=3, num_candidate_programs=size, num_threads=1, max_errors=10**6
    )
    shuffled = random.Random(seed).sample(train, len(train))
    return optimizer.compile(program.make(), trainset=shuffled)


def simba(program: Program, train: Sequence[dspy.Example], seed: int, size: int) -> dspy.Module:
    """`size` steps of batches of all tasks."""
    optimizer = dspy.SIMBA(metric=is_right, bsize=len(train), num_candidates=3, max_steps=size, num_threads=1)
    return optimizer.compile(program.make(), trainset=list(train), seed=seed)


def within(calls: int, optimize: Callable[[int], dspy.Module]) -> tuple[dspy.Module, int]:
    """The result of the size that takes about as many calls, by a run of size one and one of size two."""
    first, small = calls_of(lambda: optimize(1))
    second, double = calls_of(lambda: optimize(2))
    size = 1 + round((calls - small) / max(1, double - small))
    known = {1: (first, small), 2: (second, double)}
    return known[max(1, size)] if size <= 2 else calls_of(lambda: optimize(size))


def accuracy(program: dspy.Module, tasks: Sequence[dspy.Example]) -> float:
    """The share of right answers."""
    right = []
    for sample in range(SAMPLES):
        lm = dspy.LM("imitator", engine=Imitator(), cache=False, temperature=0.4, seed=sample)
        for task in tasks:
            with dspy.context(lm=lm), contextlib.suppress(Exception):  # an answer that cannot be parsed is wrong
                right.append(is_right(task, program(**task.inputs())))
    return sum(right) / (SAMPLES * len(tasks))


def measured(name: str, seed: int) -> list[tuple[str, int, float, float, float]]:
    """Per optimizer: its name, its calls, its seconds, and the accuracy on the train and the test tasks."""
    program, rng = PROGRAMS[name], random.Random(seed)
    tasks = program.tasks(rng, program.train + program.test)
    train, test = tasks[: program.train], tasks[program.train :]
    rows: list[tuple[str, int, float, float, float]] = []

    def add(label: str, work: Callable[[], tuple[dspy.Module, int]]) -> int:
        start = time.perf_counter()
        compiled, calls = work()
        seconds = time.perf_counter() - start
        rows.append((label, calls, seconds, accuracy(compiled, train), accuracy(compiled, test)))
        return calls

    add("none", lambda: (program.make(), 0))
    calls = add("AdaptiveFewShot", lambda: calls_of(lambda: adaptive(program, train, seed)))
    others: tuple[tuple[str, Any], ...] = (("RandomSearch", random_search), ("SIMBA", simba))
    for label, optimize in others:
        add(label, partial(within, calls, partial(optimize, program, train, seed)))
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    print("| program | optimizer | LM calls | right on its tasks | right on new tasks |")
    print("|---|---|---|---|---|", flush=True)
    for name in [options.only] if options.only else PROGRAMS:
        runs = [measured(name, seed) for seed in range(options.seeds)]
        for rows in zip(*runs, strict=True):
            label, calls = rows[0][0], mean(row[1] for row in rows)
            own, new = (100 * mean(row[place] for row in rows) for place in (3, 4))
            spread = ", ".join(f"{100 * row[4]:.0f}" for row in rows)
            print(f"| {name} | {label} | {calls:,.0f} | {own:.0f}% | {new:.0f}% ({spread}) |", flush=True)


if __name__ == "__main__":
    main()
