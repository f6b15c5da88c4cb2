"""Skills are what recurs: mined from programs whose common part is known, however functions and dims are called."""

from __future__ import annotations

import pytest
import yaml

from pipeline.agent.agent import Agent, proposer_instructions
from pipeline.agent.skills import Skill, mine
from pipeline.lms.embedded.prompt.parsing import solved_examples
from step_runtime.tasks.task import SolvedTask
from tests.support.recurring import LONGER, PLAIN, solved


def test_the_common_part_is_found_up_to_names_of_functions_and_dims() -> None:
    """Five nodes that both programs share; the example is the shorter task."""
    (skill,) = mine([LONGER, PLAIN], 1)
    assert skill.name == "Copy, Accum, Repeat, Zip, Map"
    assert (skill.uses, skill.programs) == (2, 2) and skill.saved > 0
    assert (skill.takes, skill.gives) == (("fp32 [M, N]",), ("fp32 [M, N]",))
    assert skill.lines[2] == "Y3 = step.Repeat(n=M).apply(Y2) # fp32 [M, N]"
    assert skill.example == PLAIN


def test_the_order_of_programs_does_not_matter() -> None:
    """The same skills, in the same order."""
    assert mine([LONGER, PLAIN], 3) == mine([PLAIN, LONGER], 3)


def test_what_one_program_alone_has_is_not_a_skill() -> None:
    """Even if it is large; and a program that cannot be read is left out."""
    broken = SolvedTask(PLAIN.task, "S0 = step.Nothing()\n")
    assert mine([PLAIN], 3) == [] == mine([PLAIN, broken], 3)


def test_a_found_skill_is_one_node_of_the_next() -> None:
    """Six nodes recur, of which a skill has five at most: the sixth joins the first skill as a whole."""
    longest = [
        solved(name, dims, "sum", "div", "M1 = step.Map(fn=fn_one).apply(M0)\nreturn M1\n")
        for name, dims in (("a", "M, N"), ("b", "K, D"), ("c", "N, K"), ("d", "D, K"))
    ]
    first, second = mine(longest, 2)
    assert len(first.lines) == 5 and len(second.lines) == 6


@pytest.fixture
def skill() -> Skill:
    """The one that both programs share."""
    return mine([PLAIN, LONGER], 1)[0]


def test_a_skill_is_a_pattern_of_the_prompt(skill: Skill) -> None:
    """With its lines, its types and its example, after the patterns written by hand."""
    agent = Agent("none", prompts={"proposer": proposer_instructions(True, "full", [skill.as_pattern(1)])})
    text = agent.proposer.predict.signature.instructions
    pattern = yaml.safe_load(text)["patterns"][-1]
    assert pattern["name"] == "Mined pattern 1: Copy, Accum, Repeat, Zip, Map"
    assert "Y2 = step.Accum(fn=fn_sum, b=1).apply(Y0) # fp32 [N]" in pattern["desc"]
    assert text.startswith(Agent("none").proposer.predict.signature.instructions[:2000])


def test_the_embedded_proposers_read_its_example(skill: Skill) -> None:
    """As a solved example of the instructions, whose applications are then precedents."""
    with_skill = proposer_instructions(True, "full", [skill.as_pattern(1)])
    programs = [example.program for example in solved_examples(with_skill)]
    assert PLAIN.program.strip() in [program.strip() for program in programs]
    assert len(programs) == 1 + len(solved_examples(proposer_instructions(True, "full")))
