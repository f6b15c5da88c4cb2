"""Mined patterns are read from the text of a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.lms.embedded.retrieval.skills import skill_of
from tests.support.skilled_tasks import shown


@pytest.mark.parametrize("ir", [True, False])
def test_the_lines_of_a_mined_pattern_are_applications_of_functions(ir: bool) -> None:
    """A fold of the stream that it takes, and a function of that stream and the fold, without what lies between."""
    (example,) = (each for each in shown(ir) if each.part)
    skill = skill_of(example)
    assert skill is not None and skill.takes == 1 and len(example.part) == 5
    assert [(each.how, each.sources) for each in skill.applications] == [("Accum", (0,)), ("Map", (0, 1))]


def test_other_examples_are_of_no_skill() -> None:
    """Nor are lines that the example's program does not have, or that no function is in."""
    examples = shown()
    (example,) = (each for each in examples if each.part)
    assert all(skill_of(each) is None for each in examples if each is not example)
    assert skill_of(replace(example, part=example.part[::-1])) is None
    assert skill_of(replace(example, part=example.part[:1])) is None
