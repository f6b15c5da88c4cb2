"""The exact chance that an LM, the lines' grammar, or both write a right program line by line: no samples, no noise.

A state of a program is the set of streams that its lines make. `right_states` walks over all lines whose steps occur in
a known right program, verifies every program at its end, and keeps the states that a right one can be reached from.
Then for any chooser with chance q(line | state)

    P(right) = P(start),  P(state) = sum over lines of q(line | state) P(state + line),  P(end) = 1

over all orders of lines. It is a lower bound: right programs with other steps count as wrong.

How to run: python -m benchmarks.assay states -o states.jsonl                   the states, once (some minutes)
            python -m benchmarks.assay export states.jsonl -o choices.jsonl     what an LM has to score, once
            python -m benchmarks.assay ask states.jsonl --api-base URL --model NAME -o scores.jsonl     or a server
            python -m benchmarks.assay table states.jsonl [--scores scores.jsonl]
            python -m benchmarks.assay loop states.jsonl --scores scores.jsonl      runs that learn, simulated

A line of choices.jsonl is a request: `messages`, the beginning `prefix` of the answer, and how it may go on, `choices`.
A line of scores.jsonl is its answer: `id`, and `logprobs`, the sum of the log-probabilities of each choice's tokens.
`ask` needs a server of OpenAI's kind that continues the last message and gives log-probabilities of tokens, as
llama.cpp and vLLM do. It asks for one token where choices part. Stopped and started again, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations
from math import exp, log, prod
from pathlib import Path
from random import Random
from typing import Any, cast

from openai import OpenAI

from benchmarks.learning import interval
from pipeline.agent.agent import Agent
from pipeline.base.files import DATA
from pipeline.languages import registry
from pipeline.synthesis.precedents import precedent_of, relevance
from signatures import LineAdapter
from signatures.lines import continued
from step_runtime.language.parser import parse
from step_runtime.primitives import Accum, Copy, Map, Merge, Partition, Scan, Zip
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.verify import Verifier

SETS = ("", "-extra", "-modern", "-field")
STEP: Any = registry.find(None)
Shown = tuple[str, ...]
Row = dict[str, Any]


def solved_tasks(kind: str) -> dict[str, SolvedTask]:
    """The tasks of a set of the data that have an oracle, by name; outside the benchmark their set's comes first."""
    folder, found = DATA / f"tasks{kind}", {}
    for path in sorted(folder.rglob("*.yaml")):
        name = str(path.relative_to(folder).with_suffix(""))
        oracle = (DATA / f"oracles{kind}" / name).with_suffix(".step")
        if oracle.exists():
            known = f"{kind[1:]}/{name}" if kind else name
            found[known] = SolvedTask(read_task(path, known).without_impl(), oracle.read_text())
    return found


# --- the states from which a right program can be reached -------------------------------------------------------------


class RightStates:
    """The states of one task, found from right programs, with at most `repeats` functions applied again."""

    def __init__(self, task: Task, programs: Sequence[str], repeats: int, most: int) -> None:
        self._task, self._repeats, self._left, self._scope = task, repeats, most, static_scope(task)
        self._verifier, self._known = Verifier(task), dict[frozenset[object], bool]()
        self._listed = cache(self._lines_after)
        self._steps = frozenset[object]().union(*(self._terms(text)[1] for text in programs))
        self._explore("")

    @property
    def whole(self) -> bool:
        """Whether all states were walked."""
        return self._left >= 0

    def rows(self) -> list[Row]:
        """The right states; for each of their lines the state that it leads to: -1 if wrong, -2 at the end."""
        places: dict[frozenset[object], int] = {}
        rows: list[Row] = []

        def visit(text: str) -> int:
            key = self._terms(text)[0]
            if not self._known.get(key):
                return -1
            if _ended(text):
                return -2
            if key not in places:
                places[key] = len(rows)
                lines = self._listed(text)
                row: Row = {"text": text, "lines": lines}
                rows.append(row)
                row["next"] = [visit(f"{text}{line}\n") for line in lines]
            return places[key]

        visit("")
        return rows

    def _lines_after(self, text: str) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(STEP.next_lines(self._task, text, self._repeats)))
        except ValueError:
            return ()

    def _explore(self, text: str) -> bool:
        key, steps = self._terms(text)
        if key not in self._known:
            self._left -= 1
            if not steps <= self._steps or self._left < 0:
                return False
            self._known[key] = False
            if _ended(text):
                fixed = STEP.repaired(self._task, text) or text
                self._known[key] = bool(self._verifier.verify(fixed).passed)
            else:
                below = [self._explore(f"{text}{line}\n") for line in self._listed(text)]  # all of them
                self._known[key] = any(below)
        return self._known[key]

    def _terms(self, text: str) -> tuple[frozenset[object], frozenset[object]]:
        """What functions and routings make, exactly, whatever the order of lines; and without structure between."""
        program, _ = parse(text, self._scope)
        exact: dict[int, Any] = {number: (number,) for number in range(len(program.inputs))}
        plain, made, steps = dict(exact), set[object](), set[object]()
        for node in program.nodes:
            own, rough = ([known[stream] for stream in node.inputs] for known in (exact, plain))
            flat = tuple(part for term in rough for part in (term[1] if term[0] == "zip" else (term,)))
            for place, out in enumerate(node.outputs):
                exact[out] = own[0] if isinstance(node.op, Copy) else (repr(node.op), place, tuple(own))
                if isinstance(node.op, Map | Accum | Scan | Merge):
                    plain[out] = (type(node.op).__name__, node.op.fn.label), flat
                    made.add(hash(exact[out]))
                    steps.add(plain[out])
                elif isinstance(node.op, Partition):
                    plain[out] = "Partition", place, flat
                else:
                    plain[out] = ("zip", flat) if isinstance(node.op, Zip) else rough[0]
        if program.results:
            made.add(("return", *(hash(exact[stream]) for stream in program.results)))
        return frozenset(made), frozenset(steps)


def _ended(text: str) -> bool:
    return text.rstrip().rpartition("\n")[2].startswith("return")


def states(most: int, names: Sequence[str] = ()) -> Iterator[Row]:
    """For each task and up to one repeat its right states, the start first; none where they weren't found."""
    recorded: dict[str, list[str]] = {}
    for line in (DATA.parent / "experiments/real-lms/samples.jsonl").read_text().splitlines():
        sample = json.loads(line)
        if sample["passed"]:
            recorded.setdefault(sample["task"], []).append(sample["impl"])
    for kind in SETS:
        for name, solved in solved_tasks(kind).items():
            for repeats in (0, 1) if name in (names or [name]) else ():
                found = RightStates(solved.task, [solved.program, *recorded.get(name, [])], repeats, most)
                yield {"task": name, "repeats": repeats, "whole": found.whole, "states": found.rows()}


# --- what an LM has to score ------------------------------------------------------------------------------------------


class Demonstrations:
    """Which solved tasks each arm shows to a task, the most relevant last."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.solved = {name: each for kind in SETS for name, each in solved_tasks(kind).items()}
        chances = {row["task"]: chance(row["states"], lambda state: [0.0] * len(state["lines"])) for row in rows}
        known = sorted((each, name) for name, each in chances.items() if each and _set(name) == "benchmark")
        self._hardest = [name for _, name in known]

    def arms(self, name: str) -> dict[str, Shown]:
        """By arm: nothing; two of other groups (of the benchmark), or of other sets; two of all others; hardest three.

        None below a relevance of `LEAST`, except where an arm's name ends in `any`.
        """
        own, family = _set(name), _group(name)
        inside = [each for each in self.solved if _set(each) == own and each != name]
        others = [each for each in inside if _group(each) != family]
        foreign = [each for each in self.solved if _set(each) != own and _group(each) != family]
        beyond = others if own == "benchmark" else foreign
        found = {"nothing": (), "groups": self.nearest(name, beyond), "others": self.nearest(name, [*inside, *foreign])}
        if own == "benchmark":
            found["others"] = self.nearest(name, inside)
        found["hardest"] = tuple([each for each in self._hardest if each != name][:3])
        found["groups any"] = self.nearest(name, beyond, 0.0)
        return found

    def pool(self, name: str, arm: str) -> list[str]:
        """What teaches the grammar of an arm."""
        own = _set(name)
        if arm == "nothing":
            return []
        if arm == "benchmark":
            return [each for each in self.solved if _set(each) == arm and each != name]
        if own == "benchmark":
            same = arm == "others"
            return [e for e in self.solved if _set(e) == own and e != name and (same or _group(e) != _group(name))]
        return [e for e in self.solved if e != name and (arm == "others" or _set(e) != own)]

    def asked(self, name: str) -> list[Shown]:
        """What the arms show, and for a task of the benchmark what `nearest` may choose among five relevant ones."""
        inside = [each for each in self.solved if _set(each) == "benchmark" != each != name]
        among = self.nearest(name, inside, most=5) if _set(name) == "benchmark" else ()
        return [*dict.fromkeys([*self.arms(name).values(), *((each,) for each in among), *combinations(among, 2)])]

    def nearest(self, name: str, among: Iterable[str], least: float | None = None, most: int = 2) -> Shown:
        """The most relevant of solved tasks, the most relevant last."""
        least = LEAST if least is None else least
        ranked = sorted(((self.relevance(each, name), each) for each in among), reverse=True)[:most]
        return tuple(each for weight, each in reversed(ranked) if weight >= least)

    @cache  # noqa: B019  it lives as long as the process
    def relevance(self, shown: str, new: str) -> float:
        """The relevance of one task to another; 0 if either program has no plan."""
        one, other = (precedent_of(self.solved[name]) for name in (shown, new))
        return relevance(one.profile, other.profile) if one and other else 0.0


LEAST = 0.4


def _set(name: str) -> str:
    return next((kind[1:] for kind in SETS[1:] if name.startswith(f"{kind[1:]}/")), "benchmark")


def _group(name: str) -> str:
    first, _, rest = name.partition("/")
    return first if _set(name) == "benchmark" else rest.rstrip("_0123456789")


class Requests:
    """The requests of the typed proposer with the short prompt, without their seeds."""

    def __init__(self, solved: Mapping[str, SolvedTask]) -> None:
        self._solved = solved
        self._signature = Agent("compiler", prompt="short", proposer="typed").proposer.predict.signature
        self._adapter = LineAdapter(STEP.next_lines, STEP.as_lines)

    @lru_cache(maxsize=4)  # noqa: B019
    def _prompt(self, name: str, shown: Shown) -> list[dict[str, Any]]:
        demos = [{"task": self._solved[other].task, "impl": self._solved[other].program} for other in shown]
        return [*self._adapter.format(self._signature, demos, {"task": self._solved[name].task})]

    def request(self, name: str, shown: Shown, text: str, lines: Sequence[str]) -> Row:
        """What a model is asked that continues the last message."""
        prefix, choices = continued(text, lines)
        return {"messages": self._prompt(name, shown), "prefix": prefix, "choices": choices}


def texts(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, None]]]:
    """By task and beginning of a program, the lines that an LM chooses from."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        for state in row["states"]:
            found.setdefault(row["task"], {}).setdefault(state["text"], {}).update(dict.fromkeys(state["lines"]))
    return found


def identity(name: str, shown: Shown, number: int) -> str:
    """The name of a request: of a task, demonstrations, and the number of its beginning among those of `texts`."""
    return f"{name} {'+'.join(shown) or '-'} {number}"


def choices(rows: Sequence[Row], names: Sequence[str] = (), arms: Sequence[str] = ()) -> Iterator[Row]:
    """A request for each task, distinct demonstrations (of arms, or all) and beginning that has several lines."""
    demonstrations = Demonstrations(rows)
    requests, known = Requests(demonstrations.solved), texts(rows)
    for name in names or known:
        own = demonstrations.arms(name)
        for shown in dict.fromkeys(own[arm] for arm in arms) if arms else demonstrations.asked(name):
            for number, (text, lines) in enumerate(known[name].items()):
                if len(lines) > 1:
                    yield {"id": identity(name, shown, number), **requests.request(name, shown, text, [*lines])}


# --- a server's answers -----------------------------------------------------------------------------------------------

Tokens = Callable[[str], Mapping[str, float]]
"""What may follow an answer's beginning: log-probabilities of the likeliest tokens, by their texts."""


def server(client: OpenAI, model: str, most: int, messages: Sequence[Row]) -> Tokens:
    """Requests for one token that continues an answer to messages."""

    def after(prefix: str) -> Mapping[str, float]:
        answer = client.chat.completions.create(
            model=model,
            messages=cast("Any", [*messages, {"role": "assistant", "content": prefix}]),
            max_tokens=1,
            temperature=1.0,
            logprobs=True,
            top_logprobs=most,
            extra_body={"continue_final_message": True, "add_generation_prompt": False},
        )
        said = answer.choices[0].logprobs
        if said is None or not said.content:
            raise SystemExit(f"{client.base_url} gives no log-probabilities of tokens")
        return {each.token: each.logprob for each in said.content[0].top_logprobs}

    return after


LEAST_SHARE = 1e-4


def logprobs(after: Tokens, prefix: str, choices: Sequence[str]) -> list[float]:
    """Of choices after a prefix, under the constraint to them, whatever their tokens.

    A choice that none of the tokens given leads to counts as the least likely of them, and one that others go on from
    as all tokens that lead to none. Where all that is left has a share below `LEAST_SHARE`, it is split evenly.
    """
    found = dict.fromkeys(choices, 0.0)
    open_: list[tuple[str, tuple[str, ...], float]] = [("", tuple(choices), 1.0)]
    while open_:
        text, left, share = open_.pop()
        if len(left) == 1 or share < LEAST_SHARE:
            for choice in left:
                found[choice] += share / len(left)
            continue
        text = max(text, _alike(left), key=len)
        tokens = {token: exp(logprob) for token, logprob in after(prefix + text).items()}
        led: dict[tuple[str, ...], dict[str, float]] = {}
        for token, chance in tokens.items():
            on = tuple(choice for choice in left if choice.startswith(text + token)) or tuple({text} & {*left})
            if token and on:
                led.setdefault(on, {})[token] = chance
        unseen = [choice for choice in left if not any(choice in on for on in led)]
        shares = [(on, max(own, key=own.__getitem__), sum(own.values())) for on, own in led.items()]
        shares += [((choice,), "", min(tokens.values())) for choice in unseen]
        total = sum(each for _, _, each in shares)
        open_ += [(text + token, on, share * each / total) for on, token, each in shares]
    return [log(max(found[choice], 1e-30)) for choice in choices]


def _alike(choices: Sequence[str]) -> str:
    """How choices begin, up to where a token may straddle the place at which they part."""
    prefix = os.path.commonprefix([*choices])  # noqa: RUF071  texts, not paths
    digits = all(choice[len(prefix) : len(prefix) + 1].isdigit() for choice in choices)
    return prefix if digits else re.sub(r"\W*\w*$", "", prefix)


def asked(requests: Iterable[Row], known: Container[str], base: str, model: str, most: int) -> Iterator[Row]:
    """A server's answers to requests that are not known."""
    client = OpenAI(base_url=base, api_key=os.environ.get("OPENAI_API_KEY", "none"), timeout=3600)
    for request in requests:
        if request["id"] not in known:
            after = server(client, model, most, request["messages"])
            yield {"id": request["id"], "logprobs": logprobs(after, request["prefix"], request["choices"])}


# --- chances ----------------------------------------------------------------------------------------------------------


def chance(rows: Sequence[Row], weigh: Callable[[Row], Sequence[float]]) -> float:
    """Of a right program; `weigh` gives the scores of a state's lines, natural logarithms up to a constant."""
    known: dict[int, float] = {-1: 0.0, -2: 1.0}

    def at(place: int) -> float:
        if place not in known:
            scores = weigh(rows[place])
            shares = [exp(score - max(scores)) for score in scores]
            known[place] = sum(share * at(to) for share, to in zip(shares, rows[place]["next"], strict=True))
            known[place] /= sum(shares)
        return known[place]

    return at(0) if rows else 0.0


@dataclass(frozen=True)
class Arm:
    """Who chooses the lines.

    Attributes:
        shown: The arm of demonstrations in the LM's prompt, or themselves; None: no LM.
        prior: The pool of solved tasks that teach the grammar of lines, or themselves; None: no grammar.
        halving: What each refused sample of a task multiplies the LM's weight with.
        product: Whether the two choose as in `signatures.lines`: the LM's line is kept with a chance of 2^-(its bits -
            the least), up to four times, and each refused sample halves the chance that the LM is asked.
        again: The share of samples that admit a repeat, of which the assay has one.
    """

    shown: str | Shown | None = None
    prior: str | Shown | None = None
    halving: float = 1.0
    product: bool = False
    again: float = 0.5


ARMS = {
    "lines at random": Arm(),
    "lines at random, no repeats": Arm(again=0.0),
    "grammar, nothing": Arm(prior="nothing"),
    "grammar, other groups or sets": Arm(prior="groups"),
    "grammar, the benchmark": Arm(prior="benchmark"),
    "grammar, all others": Arm(prior="others"),
    "grammar, all others, no repeats": Arm(prior="others", again=0.0),
    "LM, nothing shown": Arm("nothing"),
    "LM, two of other groups or sets": Arm("groups"),
    "LM, two of other groups or sets, however relevant": Arm("groups any"),
    "LM, two of all others": Arm("others"),
    "LM, hardest three": Arm("hardest"),
    "LM halved, nothing": Arm("nothing", halving=0.5),
    "LM x grammar, other groups or sets": Arm("groups", "groups"),
    "LM halved x grammar, other groups or sets": Arm("groups", "groups", 0.5),
    "LM halved x grammar, all others": Arm("others", "others", 0.5),
    "product, nothing": Arm("nothing", "nothing", 0.5, product=True),
    "product, other groups or sets": Arm("groups", "groups", 0.5, product=True),
    "product, all others": Arm("others", "others", 0.5, product=True),
    "product, all others, no repeats": Arm("others", "others", 0.5, product=True, again=0.0),
}
TEMPERATURE = 0.7
SAMPLES = (1, 2, 4, 8)


class Assay:
    """The exact chances of the tasks that have right states."""

    def __init__(self, rows: Sequence[Row], scores: Sequence[Row] = ()) -> None:
        self.rows = {(row["task"], row["repeats"]): row["states"] for row in rows}
        self.tasks = [*dict.fromkeys(row["task"] for row in rows if row["states"])]
        self.demonstrations = Demonstrations(rows)
        self._known = {row["id"]: row["logprobs"] for row in scores}
        self._texts = {
            name: {text: (number, [*lines]) for number, (text, lines) in enumerate(own.items())}
            for name, own in texts(rows).items()
        }

    def scored(self, arms: Iterable[Arm]) -> list[str]:
        """The tasks of which every arm's lines are scored."""
        return [name for name in self.tasks if all(self._is_scored(name, arm) for arm in arms)]

    @cache  # noqa: B019
    def chances(self, name: str, arm: Arm) -> list[float]:
        """Of a task's samples 1 to 8, each after refusals only."""
        by_weight: dict[float, float] = {}
        weights = [arm.halving**refused for refused in range(max(SAMPLES))]
        for weight in weights:
            if weight not in by_weight:
                none, one = (self._chance(name, repeats, arm, weight) for repeats in (0, 1))
                by_weight[weight] = (1 - arm.again) * none + arm.again * one
        return [by_weight[weight] for weight in weights]

    @cache  # noqa: B019
    def bits(self, name: str, text: str, lines: tuple[str, ...], prior: str | Shown | None) -> Sequence[float]:
        """Those of lines by the grammar that a pool teaches; the same for all without one."""
        if prior is None:
            return [0.0] * len(lines)
        pool = self.demonstrations.pool(name, prior) if isinstance(prior, str) else prior
        solved = [self.demonstrations.solved[each] for each in pool]
        shown = tuple((each.task, each.program) for each in solved)
        found: Sequence[float] = STEP.line_bits(self.demonstrations.solved[name].task, text, lines, shown)
        return found

    def _shown(self, name: str, arm: Arm) -> Shown:
        return self.demonstrations.arms(name)[arm.shown or "nothing"] if isinstance(arm.shown, str) else arm.shown or ()

    def _is_scored(self, name: str, arm: Arm) -> bool:
        if arm.shown is None:
            return True
        numbers = [number for number, lines in self._texts[name].values() if len(lines) > 1]
        return all(identity(name, self._shown(name, arm), number) in self._known for number in numbers)

    @cache  # noqa: B019
    def _scores(self, name: str, shown: Shown, text: str) -> Mapping[str, float]:
        number, lines = self._texts[name][text]
        return dict(zip(lines, self._known[identity(name, shown, number)], strict=True))

    def _chance(self, name: str, repeats: int, arm: Arm, weight: float) -> float:
        def weigh(row: Row) -> list[float]:
            lines = row["lines"]
            if len(lines) == 1:
                return [0.0]
            own = [-log(2) * bits for bits in self.bits(name, row["text"], tuple(lines), arm.prior)]
            if arm.shown is None:
                return own
            table = self._scores(name, self._shown(name, arm), row["text"])
            if arm.product:
                return [log(each) for each in drawn([table[line] / TEMPERATURE for line in lines], own, weight)]
            return [bits + weight / TEMPERATURE * table[line] for bits, line in zip(own, lines, strict=True)]

        return chance(self.rows[name, repeats], weigh)


def drawn(scores: Sequence[float], own: Sequence[float], trust: float, most: int = 4) -> list[float]:
    """The chances of lines that an LM draws, asked up to `most` times with a chance of `trust`, and else a grammar."""
    says, kept = ([exp(each - max(values)) for each in values] for values in (scores, own))
    says, grammar = [each / sum(says) for each in says], [each / sum(kept) for each in kept]
    accepted = sum(one * other for one, other in zip(says, kept, strict=True))
    never = (1 - accepted) ** most
    return [
        trust * (says[i] * kept[i] * (1 - never) / accepted + never * grammar[i]) + (1 - trust) * grammar[i] + 1e-12
        for i in range(len(scores))
    ]


def solved(chances: Sequence[float], samples: int) -> float:
    """The chance that one of the first samples is right."""
    return 1 - prod(1 - each for each in chances[:samples])


OWN = "own"
LOOPS = {
    "the LM alone, nothing": Arm("nothing"),
    "the LM alone, own solutions": Arm(OWN),
    "the LM alone, other groups": Arm("groups"),
    "the grammar alone, nothing": Arm(prior="nothing"),
    "the grammar alone, own solutions": Arm(prior=OWN),
    "the grammar alone, other groups": Arm(prior="groups"),
    "the product, nothing": Arm("nothing", "nothing", 0.5, product=True),
    "the product, own solutions": Arm(OWN, OWN, 0.5, product=True),
    "the product, other groups": Arm("groups", "groups", 0.5, product=True),
}
"""Who chooses in runs of several iterations; `OWN` are the tasks that the run has solved."""


def loop(assay: Assay, arm: Arm, names: Sequence[str], samples: int, iterations: int, runs: int) -> list[list[float]]:
    """Of each iteration the share of runs in which each task is solved, by as many samples of the unsolved tasks.

    A task is shown the two most relevant solved tasks of the five that are scored. A sample's chance is exact; which
    tasks a run solves is drawn, the same for each arm where the chances are.
    """
    demonstrations, found = assay.demonstrations, [dict.fromkeys(names, 0) for _ in range(iterations)]
    inside = [each for each in demonstrations.solved if _set(each) == "benchmark"]
    near = {name: demonstrations.nearest(name, [each for each in inside if each != name], most=5) for name in names}
    for run in range(runs):
        solved_: dict[str, None] = {}
        for iteration in range(iterations):
            known = tuple(sorted(solved_))
            for name in names:
                shown = tuple([each for each in near[name] if each in known][-2:])
                asked = replace(arm, shown=shown) if arm.shown == OWN else arm
                asked = replace(asked, prior=known) if arm.prior == OWN else asked
                if name not in solved_:
                    chance_ = solved(assay.chances(name, asked), samples)
                    if Random(f"{run} {iteration} {name}").random() < chance_:
                        solved_[name] = None
            for name in solved_:
                found[iteration][name] += 1
    return [[each[name] / runs for name in names] for each in found]


def loops(assay: Assay, names: Sequence[str], samples: int, iterations: int, runs: int) -> Iterator[str]:
    """Tasks that runs solve after each iteration; what an arm adds to nothing shown, and to the LM that learns nothing.

    Differences are paired by run and task, with intervals over tasks. `OWN` is drawn in a tenth of the runs.
    """
    columns = " | ".join(map(str, range(1, iterations + 1)))
    yield f"| {len(names)} tasks, {samples} samples an iteration | {columns} | over nothing | over the LM, nothing |"
    yield "|---" * (iterations + 3) + "|"
    for label, arm in LOOPS.items():
        drawn_ = max(1, runs // 10) if OWN in (arm.shown, arm.prior) else runs
        found, cells = loop(assay, arm, names, samples, iterations, drawn_), list[str]()
        for other in (f"{label.partition(',')[0]}, nothing", next(iter(LOOPS))):
            base = loop(assay, LOOPS[other], names, samples, iterations, drawn_)[-1]
            more = [one - two for one, two in zip(found[-1], base, strict=True)]
            low, high = (bound * len(names) for bound in interval(more))
            cells.append("" if label == other else f"{sum(more):+.1f} [{low:+.1f}, {high:+.1f}]")
        yield f"| {label} | {' | '.join(f'{sum(each):.1f}' for each in found)} | {' | '.join(cells)} |"


def table(assay: Assay, arms: Mapping[str, Arm], names: Sequence[str]) -> Iterator[str]:
    """Means of pass@1 and solved tasks; the last columns: what an arm adds to the first at 1 and at 8 samples."""
    yield f"| {len(names)} tasks | pass@1 | {' | '.join(f'@{k}' for k in SAMPLES)} | more @1 | more @8 |"
    yield "|---" * (len(SAMPLES) + 4) + "|"
    found = {label: [assay.chances(name, arm) for name in names] for label, arm in arms.items()}
    base = next(iter(found.values()))
    for label, each in found.items():
        mean = sum(chances[0] for chances in each) / max(1, len(names))
        columns = [f"{mean:.1%}", *(f"{sum(solved(chances, k) for chances in each):.1f}" for k in SAMPLES)]
        for k in (SAMPLES[0], SAMPLES[-1]) if each and each is not base else ():
            more = [solved(own, k) - solved(other, k) for own, other in zip(each, base, strict=True)]
            low, high = (bound * len(names) for bound in interval(more))
            columns.append(f"{sum(more):+.1f} [{low:+.1f}, {high:+.1f}]")
        yield f"| {label} | {' | '.join(columns)} |"


def read(path: Path) -> list[Row]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def show(assay: Assay, options: argparse.Namespace) -> None:
    """Prints the tables."""
    shown = {None, *(options.arms or [arm.shown for arm in ARMS.values()])} if options.scores else {None}
    arms = {label: arm for label, arm in ARMS.items() if arm.shown in shown}
    scored = [name for name in assay.scored(arms.values()) if options.set in (_set(name), "all")]
    names = [name for name in scored if name in (options.tasks or scored)]
    print("\n".join(table(assay, arms, names)))
    for name in names if options.by_task else ():
        print(name, *(f"{assay.chances(name, arm)[0]:.3f}" for arm in arms.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes files, or prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    walked = commands.add_parser("states")
    walked.add_argument("tasks", nargs="*", help="names; all by default")
    walked.add_argument("--most", type=int, default=1500, help="states walked for a task")
    exported = commands.add_parser("export")
    asking = commands.add_parser("ask")
    asking.add_argument("--api-base", required=True)
    asking.add_argument("--model", default="model")
    asking.add_argument("--top", type=int, default=20, help="tokens asked for (default: %(default)s)")
    for each in (walked, exported, asking):
        each.add_argument("-o", "--output", type=Path, required=True)
    tabled = commands.add_parser("table")
    tabled.add_argument("--scores", type=Path)
    tabled.add_argument("--set", choices=["benchmark", *(kind[1:] for kind in SETS[1:]), "all"], default="benchmark")
    tabled.add_argument("--by-task", action="store_true", help="each task's chance in one sample")
    looped = commands.add_parser("loop")
    looped.add_argument("--scores", type=Path)
    looped.add_argument("--samples", type=int, nargs="+", default=[4, 8], help="of a task in an iteration")
    looped.add_argument("--iterations", type=int, default=3)
    looped.add_argument("--runs", type=int, default=2000)
    for each in (exported, asking, tabled, looped):
        each.add_argument("states", type=Path)
        each.add_argument("--tasks", nargs="+", default=[], help="names; all by default")
        each.add_argument("--arms", nargs="+", default=[], help="as nothing and groups; all by default")
    options = parser.parse_args(arguments)
    if options.command in ("table", "loop"):
        assay = Assay(read(options.states), read(options.scores) if options.scores else ())
        if options.command == "table":
            show(assay, options)
        for samples in options.samples if options.command == "loop" else ():
            names = [name for name in assay.scored([Arm("nothing"), Arm("groups")]) if _set(name) == "benchmark"]
            for line in loops(assay, names, samples, options.iterations, options.runs):
                print(line, flush=True)
        return 0
    if options.command == "states":
        rows = states(options.most, options.tasks)
    else:
        rows = choices(read(options.states), options.tasks, options.arms)
    if options.command == "ask":
        known = {row["id"] for row in read(options.output)} if options.output.exists() else ()
        rows = asked(rows, known, options.api_base, options.model, options.top)
    with options.output.open("a" if options.command == "ask" else "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
