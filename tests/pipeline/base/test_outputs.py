"""Every object that `--json` prints says its schema version and its command."""

import json

import pytest
from pydantic import ValidationError

from pipeline.base.outputs import OUTPUTS, ErrorOutput, Finding, VerifyOutput, json_text, versioned


def test_every_form_has_version_and_command() -> None:
    """Under the same names."""
    for name, model in OUTPUTS.items():
        fields = model.model_json_schema(mode="serialization")["properties"]
        assert fields["schema"]["const"] == 1 and "command" in fields, name


def test_the_text_is_one_line_with_the_version_first() -> None:
    """And the command without its package."""
    assert json_text("pipeline.compile", {"solved": ["ä"]}) == json.dumps(
        versioned("pipeline.compile", {"solved": ["ä"]})
    )
    assert list(versioned("pipeline.compile", {"solved": []})) == ["schema", "command", "solved"]
    assert versioned("pipeline.compile", {})["command"] == "compile"


def test_an_object_reads_back_what_it_wrote() -> None:
    """Places included; an unknown field is refused."""
    finding = Finding(severity="warning", stage="task", code="equal-dims", message="m", file="t.yaml", line=3)
    output = VerifyOutput(task="t", task_file="t.yaml", program=None, passed=True, stage=None, warnings=(finding,))
    assert VerifyOutput.model_validate_json(output.text()) == output
    with pytest.raises(ValidationError):
        ErrorOutput.model_validate({"schema": 1, "command": "verify", "error": {"kind": "odd"}})
