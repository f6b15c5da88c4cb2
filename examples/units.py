"""`AdaptiveFewShot` on a program that has nothing to do with STeP: converting old English units of length, offline.

    python examples/units.py

The LM here is an engine without any knowledge of units. It reads the prompt: an answer shown there gives a ratio,
and ratios chain: "yard in hand" follows from "yard in foot" and "foot in hand". Where no chain leads to the
answer, it guesses a ratio, and the higher the temperature, the larger. The metric knows the right answers, and the
engine never sees them: it earns them by guessing, task by task, and the optimizer shows it what it earned.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction

import dspy
from dspy import lm15

from optimizers import AdaptiveFewShot, Domain, Experience, SinglePass

INCHES = {"inch": 1, "hand": 4, "foot": 12, "yard": 36, "rod": 198, "chain": 792, "furlong": 7920, "mile": 63360}
"""What the metric knows: the length of each unit."""
QUESTION = re.compile(r"(\d+) (\w+) in (\w+)")
NEXT = [("foot", "hand"), ("hand", "inch"), ("yard", "foot"), ("chain", "yard"), ("chain", "rod"), ("furlong", "chain")]
FAR = [("mile", "furlong"), ("mile", "inch"), ("furlong", "rod"), ("mile", "rod"), ("yard", "inch"), ("yard", "hand")]


class Converter(dspy.Module):
    """Any `dspy.Module` works; this one makes one request."""

    def __init__(self) -> None:
        super().__init__()
        self.convert = dspy.Predict("question -> number")

    def forward(self, question: str) -> dspy.Prediction:
        """The answer to a question such as `5 foot in inch`."""
        return self.convert(question=question)


class Guesser:
    """The engine behind the LM: it uses what the prompt shows, and guesses what does not follow from that."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        """An answer to the last message, by the examples in those before."""
        texts = [message.text or "" for message in request.messages]
        ratios = self._read(texts)
        amount, unit, target = self._question(texts[-1])
        ratio = self._chained(ratios, unit, target)
        if ratio is None:
            luck = random.Random(f"{request.config.seed} {unit} {target}")
            ratio = Fraction(luck.randint(2, 2 + round(20 * (request.config.temperature or 0))))
        text = f"[[ ## number ## ]]\n{amount * ratio}\n\n[[ ## completed ## ]]"
        usage = lm15.Usage(input_tokens=sum(map(len, texts)) // 4, output_tokens=len(text) // 4)
        message = lm15.Message.assistant(text)
        return lm15.Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def _question(self, text: str) -> tuple[Fraction, str, str]:
        found = QUESTION.search(text)
        if found is None:
            raise lm15.InvalidRequestError("expected a question such as: 5 foot in inch")
        return Fraction(found[1]), found[2], found[3]

    def _read(self, texts: list[str]) -> dict[tuple[str, str], Fraction]:
        """The ratios that the examples give, in both directions."""
        ratios = {}
        for asked, answered in zip(texts[:-1:2], texts[1:-1:2], strict=True):
            amount, unit, target = self._question(asked)
            if number := re.search(r"## number ## ]]\s*(\d+)", answered):
                ratios[unit, target] = Fraction(number[1]) / amount
                ratios[target, unit] = 1 / ratios[unit, target]
        return ratios

    def _chained(self, ratios: dict[tuple[str, str], Fraction], unit: str, target: str) -> Fraction | None:
        """The ratio that a chain of known ones gives, found breadth first; None if there is none."""
        reached = {unit: Fraction(1)}
        for known in (frontier := [unit]):
            for (start, end), ratio in ratios.items():
                if start == known and end not in reached:
                    reached[end] = reached[known] * ratio
                    frontier.append(end)
        return reached.get(target)


def is_right(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    """The metric."""
    return str(prediction.number).strip() == str(example.gold)


def make_tasks() -> list[dspy.Example]:
    """Questions between units of similar length, then between distant ones; `gold` is for the metric alone."""
    rng = random.Random(0)
    tasks = []
    for unit, target in [*NEXT, *FAR]:
        amount = rng.randint(2, 9)
        gold = Fraction(amount * INCHES[unit], INCHES[target])
        tasks.append(dspy.Example(question=f"{amount} {unit} in {target}", gold=gold).with_inputs("question"))
    return tasks


def learn(optimizer: type[AdaptiveFewShot | SinglePass], num_samples: int) -> Experience:
    """The record of a run of an optimizer, with `num_samples` per task, temperature and iteration."""
    domain = Domain(task_key=lambda example: str(example.question))
    with dspy.context(lm=dspy.LM("guesser", engine=Guesser(), cache=False)):
        compiled = optimizer(metric=is_right, num_samples=num_samples, domain=domain).compile(
            Converter(), trainset=make_tasks()
        )
    experience: Experience = compiled.experience
    return experience


def main() -> None:
    """Learns, and then spends the same number of samples on every task without learning."""
    learned = learn(AdaptiveFewShot, num_samples=8)
    for result in learned.iterations:
        print(f"{result.index + 1}: {result.label:8} {len(result.demos):2} demonstrations,", end=" ")
        print(f"solved {result.solved_total:2} of {len(learned.tasks)}: {', '.join(result.solved) or 'nothing new'}")
    rounds = len(learned.iterations)
    plain = learn(SinglePass, num_samples=8 * rounds)
    print(f"\n{len(learned.solved)} of {len(learned.tasks)} solved, with {len(learned.attempts):,} answers")
    print(f"{len(plain.solved)} of {len(plain.tasks)} without demonstrations, with {len(plain.attempts):,} answers:")
    print(f"it never finds {', '.join(sorted(set(learned.solved) - set(plain.solved))) or 'fewer'}")


if __name__ == "__main__":
    main()
