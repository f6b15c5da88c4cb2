"""The optimizer knows no domain, unless told: here it learns to spell words backwards, with defaults in place."""

import re

import dspy
from dspy import lm15

from optimizers import AdaptiveFewShot, Domain
from optimizers.domain import input_digest
from tests.support.scripted_program import respond


class Speller:
    """An engine that spells short words backwards, and longer ones as long as it was shown examples of."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        users = [m.text or "" for m in request.messages if m.role == "user"]
        *shown, word = [re.search(r"## word ## ]]\n(\w+)", text).group(1) for text in users]  # type: ignore[union-attr]
        reach = max([3, *(len(example) + 1 for example in shown)])
        lucky = len(word) <= reach and (request.config.seed or 0) % 3 == 0
        text = f"[[ ## backwards ## ]]\n{word[::-1] if lucky else word}\n\n[[ ## completed ## ]]"
        usage = lm15.Usage(input_tokens=len(users), output_tokens=1)
        return respond(request, text, usage)


def test_a_plain_predictor_learns_from_its_own_answers():
    words = ["cat", "frog", "zebra", "monkey"]
    trainset = [dspy.Example(word=word, gold=word[::-1]).with_inputs("word") for word in words]
    student = dspy.Predict("word -> backwards")
    with dspy.context(lm=dspy.LM("speller", engine=Speller(), cache=False)):
        compiled = AdaptiveFewShot(
            metric=lambda example, prediction: prediction.backwards == example.gold, num_samples=16
        ).compile(student, trainset=trainset)
        assert len(compiled.experience.solved) == 4 and compiled.experience.stopped == "solved"
        solved = [len(result.solved) for result in compiled.experience.iterations]
        assert [count for count in solved if count] == [1, 1, 1, 1]
        assert compiled(word="dog").keys() == ["backwards"]
    assert compiled.demos and not student.demos


def example(**fields: object) -> dspy.Example:
    return dspy.Example(**fields).with_inputs("task", "notes")


def test_a_task_is_named_by_its_inputs_whatever_their_order() -> None:
    """Outputs, which are answers, do not count."""
    name = input_digest(example(task="a", notes=[1, 2], answer="x"))
    assert len(name) == 12
    assert name == input_digest(example(notes=[1, 2], task="a", answer="y"))
    assert name != input_digest(example(task="a", notes=[2, 1], answer="x"))


def test_the_default_groups_by_words_and_prefers_fewer_lines() -> None:
    """White space makes no other answer."""
    domain = Domain()
    assert domain.grouping_key({"answer": "a  b\n"}) == domain.grouping_key({"answer": "a b"})
    assert domain.grouping_key({"answer": "a b"}) != domain.grouping_key({"answer": "ab"})
    assert domain.length({"answer": "one long line"}) < domain.length({"answer": "a\nb"})
    assert (domain.threshold, domain.demo_predictors, domain.traced_demos) == (1.0, None, True)
