"""Wrong answers are summarized by the stage and diagnostics at which they fail."""

from optimizers import Attempt
from pipeline.reporting.failures import summarize
from tests.support.answering_lm import WRONG


def test_failures_are_ordered_by_stage_then_by_how_common_they_are() -> None:
    """And counted by meaning: renamed programs are one; requests without an answer stand apart."""

    def wrong(impl: str, stage: str, code: str) -> Attempt:
        feedback = {"stage": stage, "codes": [code], "feedback": f"t: {code}"}
        return Attempt(0, 0, "t", 0.7, 0, 0, outputs={"impl": impl}, score=0.0, feedback=feedback)

    drawn = [wrong("return E7", "parse", "unknown-name")] * 5
    drawn += [wrong("A = step.Copy().apply(E0)\nreturn A", "value", "value"), wrong(WRONG[1], "value", "value")]
    drawn += [wrong(WRONG[1].replace("E9", "x"), "value", "value"), wrong("return [E0]", "shape", "count")]
    drawn.append(Attempt(0, 0, "t", 0.7, 0, 0, error="LMTimeoutError: too slow"))
    found = summarize(drawn)
    assert list(found.stages.items()) == [("value", 3), ("shape", 1), ("parse", 5)]
    assert next(iter(found.diagnostics.items())) == ("unknown-name", 5)
    assert [(failure.stage, failure.count) for failure in found.best] == [("value", 2), ("value", 1), ("shape", 1)]
    assert (found.without_answer, found.reason) == (1, "LMTimeoutError: too slow")
    assert "  most common:  unknown-name (5), value (3), count (1)\n" in found.render()
    alike = summarize([wrong(WRONG[1], "value", "value")]).render()
    assert alike.count("value (1)") == 1, "where the stage says it all, it is said once"
