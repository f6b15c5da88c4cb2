"""The docs hold: examples in them work as they stand, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.languages import language as seam
from step_runtime import loads_task, verify
from step_runtime.base.syntax import BUILTINS
from step_runtime.primitives import PRIMITIVES
from step_runtime.program.limits import Limits
from tests.support.paths import PROJECT

PAGES = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "experiments").rglob("*.md")),
    PROJECT / "benchmarks" / "README.md",
]
MADE_BY_THE_BUILD = {"commands.md"}


def blocks(page: Path, label: str) -> list[str]:
    return re.findall(rf"^```{label}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [PROJECT / "README.md", PROJECT / "docs" / "tasks.md"], ids=lambda page: page.name)
def test_a_task_shown_is_one(page: Path) -> None:
    """And where it has a program, that passes."""
    task = loads_task(blocks(page, "yaml")[0], "shown", source=page.name)
    if task.impl is not None:
        assert verify(task).passed


def test_a_task_with_a_program_is_shown() -> None:
    """So that the test above verifies one."""
    assert "impl: |" in blocks(PROJECT / "docs" / "tasks.md", "yaml")[0]


def test_the_page_on_the_language_names_all_of_it() -> None:
    """Primitives, what is built in, and bounds."""
    text = (PROJECT / "docs" / "language.md").read_text(encoding="utf-8")
    assert [name for name in (*PRIMITIVES, *BUILTINS) if f"`{name}" not in text] == []
    limits = Limits()
    for bound in (f"{limits.characters:,} characters", f"nested {limits.depth} deep", f"| {limits.primitives:,} |"):
        assert bound in text
    assert f"{limits.bytes // 2**30} GiB" in text and f"{limits.seconds:.0f} seconds" in text


def test_the_page_on_languages_names_all_that_one_may_offer() -> None:
    """Every member of a language, and each optional protocol."""
    text = (PROJECT / "docs" / "languages.md").read_text(encoding="utf-8")
    offers = [name for name, each in vars(seam).items() if getattr(each, "_is_protocol", False) and name != "Protocol"]
    members = [name for name in (*seam.Language.__annotations__, *vars(seam.Language)) if not name.startswith("_")]
    assert [name for name in members if f"`{name}" not in text] == []
    assert [name for name in offers if f"`{name}`" not in text and f".{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_lead_to_files(page: Path) -> None:
    """Those within the project."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert [link for link in missing if Path(link).name not in MADE_BY_THE_BUILD] == []
