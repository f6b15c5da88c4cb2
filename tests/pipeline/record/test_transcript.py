"""What a program sends to its LM, as legible YAML."""

import dspy
import yaml

from optimizers import TaskCount
from pipeline.record.transcript import as_yaml, demonstrations, messages
from tests.support.scripted_runs import RIGHT, Solver, tasks


def taught() -> Solver:
    program = Solver()
    program.proposer.demos = [dspy.Example(name="easy/0", task=tasks()[0], impl=RIGHT)]
    return program


def test_demonstrations_have_the_success_rates_of_this_run() -> None:
    """A task that an earlier run solved has none."""
    counts = {"easy/0": TaskCount("easy/0", 0.7, 2, 8)}
    shown = demonstrations(taught(), ["easy/0", "before/0"], counts)
    assert shown["tasks"] == ["easy/0", "before/0"]
    assert shown["success_rates"] == {"easy/0": "2/8 at temperature 0.7"}
    assert shown["predictors"]["proposer"][0]["impl"] == RIGHT


def test_messages_are_those_of_every_predictor() -> None:
    """Instructions, then each demonstration as a question and its answer, then the empty question."""
    sent = messages(taught())
    assert [message["role"] for message in sent["proposer"]] == ["system", "user", "assistant", "user"]
    assert RIGHT in sent["proposer"][2]["content"]


def test_texts_of_several_lines_are_literal_blocks() -> None:
    """Values of other kinds are written as text; models as their content."""
    written = as_yaml({"text": "one\ntwo", "task": tasks()[0], "odd": {1: complex(1, 2)}, "none": None})
    assert "text: |" in written
    read = yaml.safe_load(written)
    assert read["odd"] == {1: "(1+2j)"} and read["none"] is None
    assert read["task"]["inputs"][0]["name"] == "E0"


def test_a_prompt_is_recorded_to_the_letter() -> None:
    """Spaces at the end of a line and tabs too, for which YAML has no block."""
    text = "one  \n\ttwo\t\n three \n\n"
    assert yaml.safe_load(as_yaml({"text": text}))["text"] == text
