"""The tools say what the commands say, as text and as data that agrees with the schema that a client is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from pipeline.mcp_server.server import opened
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.limits import ProgramLimits
from tests.pipeline.mcp_server.conftest import Ask
from tests.support.languages import install_counter
from tests.support.scripted_runs import RIGHT

TWICE = "E1 = step.Map(fn=fn).apply((E0))\nE2 = step.Map(fn=fn).apply((E0))\nreturn E2"


def test_a_client_is_told_three_tools(ask: Ask) -> None:
    """Each with a description without indentation; all of them only read."""
    tools = ask("list_tools").tools
    assert [tool.name for tool in tools] == ["check", "verify", "examples"]
    for tool in tools:
        assert tool.description and "\n  " not in tool.description
        assert tool.annotations.read_only_hint and "task" in tool.input_schema["required"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("check", {"task": "double", "program": RIGHT}),
        ("verify", {"task": "double", "program": TWICE}),
        ("examples", {"task": "double"}),
    ],
)
def test_results_agree_with_their_schemas(tool: str, arguments: dict[str, object], ask: Ask) -> None:
    """Those of right and of wrong programs."""
    schemas = {each.name: each.output_schema for each in ask("list_tools").tools}
    result = ask("call_tool", tool, arguments)
    assert not result.is_error and result.content[0].text
    jsonschema.validate(result.structured_content, schemas[tool])


def test_check_runs_nothing_and_describes_every_stream(ask: Ask) -> None:
    """A wrong program that breaks no rule passes; `verify` refuses it."""
    wrong = {"task": "double", "program": "return E0"}
    checked = ask("call_tool", "check", wrong)
    assert checked.structured_content["passed"] and "E0  fp32 [M]  input" in checked.content[0].text
    verified = ask("call_tool", "verify", wrong).structured_content
    assert (verified["passed"], verified["stage"]) == (False, "value")


def test_findings_have_a_place_a_code_and_a_hint(ask: Ask) -> None:
    """As text with the line and its carets, and as data."""
    result = ask("call_tool", "check", {"task": "double", "program": TWICE})
    [finding] = result.structured_content["diagnostics"]
    assert (finding["code"], finding["span"]["line"]) == ("affine", 2)
    assert "program:2:6: affine:" in result.content[0].text and "hint:" in result.content[0].text


def test_verify_judges_the_tasks_own_program_without_another(ask: Ask) -> None:
    """One `impl` is right, one multiplies by four where its reference does by two, and one task has none."""
    assert ask("call_tool", "verify", {"task": "more/solved"}).structured_content["passed"]
    wrong = ask("call_tool", "verify", {"task": "more/wrong"})
    assert wrong.structured_content["stage"] == "value", wrong
    assert wrong.structured_content["values"] and "E1" in wrong.content[0].text, "it names what matches nothing"
    missing = ask("call_tool", "verify", {"task": "double"})
    assert missing.is_error and "has no `impl`" in missing.content[0].text


def test_limits_are_the_users(ask: Ask) -> None:
    """The server was started with a limit of one MiB, and no argument raises it."""
    result = ask("call_tool", "verify", {"task": "double", "program": "return step.Repeat(n=1000000).apply(E0)"})
    assert result.structured_content["stage"] == "limits"


@pytest.mark.parametrize("arguments", [{"task": "\ud800"}, {"task": "double", "program": "return E0 # \udfff"}])
def test_half_of_a_character_is_an_error_in_words(arguments: dict[str, str], server: MCPServer[Any]) -> None:
    """As JSON can name one: no internal error."""
    with pytest.raises(ToolError, match="half of a character"):
        anyio.run(server.call_tool, "check", arguments)


@pytest.mark.parametrize("tool", ["check", "verify", "examples"])
def test_a_task_that_cannot_be_used_is_an_error_with_its_reason(tool: str, ask: Ask) -> None:
    """A name that is none, and a file that is no task, with its line."""
    for name, reason in (("../outside", "no task file below"), ("broken", "broken.yaml:1")):
        result = ask("call_tool", tool, {"task": name, **({} if tool == "examples" else {"program": RIGHT})})
        assert result.is_error and reason in result.content[0].text


def test_secrets_and_unseen_characters_do_not_reach_a_client(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for what commands print."""
    monkeypatch.setenv("SOME_API_KEY", "sesame-open")
    program = "return sesame_open # \u202e sesame-open"
    result = ask("call_tool", "check", {"task": "double", "program": program})
    shown = result.content[0].text + str(result.structured_content)
    assert "sesame-open" not in shown and "\u202e" not in shown and "[redacted]" in shown


def test_another_language_has_the_same_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asking: Callable[[MCPServer[Any]], Ask]
) -> None:
    """Its programs are judged by it, its own tasks are examples, and its prompt and a skill are resources."""
    data = install_counter(tmp_path, monkeypatch)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/mine.yaml").write_text("goal: count to two\nwant: 2\n")
    (data / "oracles").mkdir(exist_ok=True)
    (data / "oracles/two.txt").write_text("up\nup\n")
    with opened(Workspace(tmp_path / "tasks"), ProgramLimits(), language="counter") as server:
        ask = asking(server)
        about = {"task": "mine", "program": "up\nup"}
        assert ask("call_tool", "check", about).structured_content["passed"]
        assert ask("call_tool", "verify", about).structured_content["passed"]
        assert ask("call_tool", "verify", {**about, "program": "up"}).structured_content["stage"] == "value"
        assert ask("read_resource", "counter://language").contents[0].text.startswith("Write the words")
        assert "## Solved tasks" in ask("read_resource", "counter://skill").contents[0].text
