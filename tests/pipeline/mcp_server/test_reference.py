"""Resources are the documentation's pages; prompts are the agent's requests."""

import pytest
from mcp.shared.exceptions import MCPError

from tests.pipeline.mcp_server.conftest import Ask
from tests.support.paths import PROJECT
from tests.support.scripted_runs import RIGHT


@pytest.mark.parametrize(
    ("address", "file"),
    [
        ("step://language", "docs/language.md"),
        ("step://tasks", "docs/tasks.md"),
        ("step://cookbook", "docs/cookbook/index.md"),
        ("step://cookbook/argmax", "docs/cookbook/argmax.md"),
        ("step://primitives/Accum", "docs/primitives/Accum.md"),
        ("step://skill", "data/skill/step/SKILL.md"),
        ("step://skill/patterns", "data/skill/step/references/patterns.md"),
    ],
)
def test_a_resource_is_a_page(address: str, file: str, ask: Ask) -> None:
    """As it stands in the documentation."""
    [content] = ask("read_resource", address).contents
    assert content.text == (PROJECT / file).read_text(encoding="utf-8")


def test_the_files_are_listed(ask: Ask) -> None:
    """One name a line."""
    [content] = ask("read_resource", "step://files").contents
    assert content.text.splitlines() == ["broken", "double", "more/solved", "more/wrong"]


@pytest.mark.parametrize("address", ["step://cookbook/nothing", "step://primitives/..%2F..%2Fsecurity"])
def test_no_other_file_is_a_resource(address: str, ask: Ask) -> None:
    """The message lists the pages, where the name is none of them."""
    with pytest.raises(MCPError):
        ask("read_resource", address)


def test_each_role_has_a_prompt(ask: Ask) -> None:
    """They name their arguments."""
    prompts = {each.name: [argument.name for argument in each.arguments] for each in ask("list_prompts").prompts}
    assert prompts == {"proposer": ["task"], "guardian": ["task", "program_text"], "refiner": ["task", "program_text"]}


def test_the_proposers_prompt_is_its_request(ask: Ask) -> None:
    """The language first, the task last, without the task's own program."""
    [message] = ask("get_prompt", "proposer", {"task": "more/solved"}).messages
    assert message.role == "user" and "func_name: fn" in message.content.text
    assert message.content.text.startswith("desc: |") and RIGHT not in message.content.text


def test_the_guardian_and_the_refiner_are_shown_the_program(ask: Ask) -> None:
    """The refiner also what is wrong with it, but for the reference's values."""
    arguments = {"task": "double", "program_text": "return E0"}
    [guardian] = ask("get_prompt", "guardian", arguments).messages
    assert "return E0" in guardian.content.text
    [refiner] = ask("get_prompt", "refiner", arguments).messages
    diagnostics = refiner.content.text.partition("[[ ## diagnostics ## ]]\nprogram:1:")[2]
    assert "value: output S0" in diagnostics and "got" not in diagnostics.partition("\n")[0]


def test_a_prompt_for_no_task_says_so(ask: Ask) -> None:
    """As a tool would."""
    with pytest.raises(MCPError, match="no task file below"):
        ask("get_prompt", "proposer", {"task": "../outside"})
