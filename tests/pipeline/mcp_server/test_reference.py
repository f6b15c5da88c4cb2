"""Resources are the documentation's pages, or what another language says of itself."""

import pytest
from mcp.shared.exceptions import MCPError

from tests.pipeline.mcp_server.conftest import Ask
from tests.support.paths import PROJECT


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
