"""Advice names the nearest failure and what a search did not reach, and says what would help."""

from dataclasses import replace

import pytest

from optimizers import Attempt, TokenCount
from pipeline.actions.advice import advise
from pipeline.base.settings import ProposerKind
from pipeline.synthesis.search_budget import Reason, SearchOutcome
from tests.support.small_tasks import of_scalars

TASK = of_scalars({"double": ("2 * input[0]", 1), "square": ("input[0] ** 2", 1)}, "input_data['E0'] ** 2 * 2")


def wrong(impl: str, stage: str = "value") -> Attempt:
    feedback = {"stage": stage, "codes": [stage], "feedback": f"t:1:1: {stage}: it differs"}
    return Attempt(0, 0, "t", 0.7, 0, 0, outputs={"impl": impl}, score=0.0, feedback=feedback)


def test_functions_that_no_answer_uses_and_the_nearest_failure_are_named() -> None:
    found = advise(TASK, [wrong("return step.Map(fn=fn_double).apply(E0)")])
    assert found.unused_functions == ("fn_square",)
    assert found.nearest is not None and found.nearest.stage == "value"
    text = found.render()
    assert "no answer uses: fn_square" in text and "t:1:1: value: it differs" in text
    assert advise(TASK, []).unused_functions == (), "there is no answer to say it of"


@pytest.mark.parametrize(
    ("reason", "missed", "words"),
    [("time", ("output S0, line 1: a", "line 2: b"), "(nor of 1 further line): `output S0, line 1: a`"),
     ("exhausted", (), "has tried all within reach"),
     ("time", (), "every line of the reference, but not the outputs: raise --max-minutes")],
)  # fmt: skip
def test_a_search_says_what_it_did_not_reach(reason: Reason, missed: tuple[str, ...], words: str) -> None:
    """And asks for more time only where it has left something."""
    (hint,) = advise(TASK, [], search=SearchOutcome(None, reason, 1.0, missed=missed)).hints
    assert words in hint and ("--max-minutes" in hint) == ("--max-minutes" in words)


def hints(stages: list[str], proposer: ProposerKind, truncated: int = 0) -> str:
    """What an LM's wrong answers are told, failing at these stages, so many of them cut off."""
    tokens = {"proposer.predict": TokenCount(calls=1, truncated=1)}
    attempts = [wrong(f"return step.Repeat(n={n}).apply(E0)", stage) for n, stage in enumerate(stages, start=1)]
    attempts = [replace(each, tokens=tokens if n < truncated else {}) for n, each in enumerate(attempts)]
    return "\n".join(advise(TASK, attempts, proposer=proposer).hints)


def test_each_kind_of_failure_of_an_lm_has_its_own_advice() -> None:
    """Well-typed answers are no matter of syntax, so that another proposer is not advised."""
    assert "`--proposer typed`" in hints(["parse"] * 5 + ["type", "value"], "predict", truncated=3)
    text = hints(["value"] * 3, "typed")
    assert "--experience" in text and "--proposer typed" not in text
    assert "were none of the lines" in hints(["parse", "parse", "value"], "typed")
    assert "--refine 2" in hints(["value"] * 3, "predict")
    assert "`--guardian compiler`" in hints(["affine"] * 3 + ["value"], "predict")
    assert "raise --max-tokens" in hints(["value"] * 3 + ["parse"], "predict", truncated=3)
    assert "gave no answer" in "\n".join(advise(TASK, [], proposer="predict").hints)


def test_unknown_verdicts_are_no_lack_of_answers() -> None:
    """Their codes say what ended them."""
    lost = replace(wrong("return E0"), score=None, feedback={"unscored": True, "codes": ["memory-limit"]})
    text = "\n".join(advise(TASK, [lost], proposer="predict").hints)
    assert "1 of 1 answer is unknown (memory-limit)" in text and "gave no answer" not in text
