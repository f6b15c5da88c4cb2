"""Every generated file of the documentation by its path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.documentation import cookbook, primitives, skill, tutorial

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
SKILL = PROJECT / "data" / "skill" / "step"


def outdated() -> Iterator[tuple[Path, str]]:
    """The files that differ from what is generated, each with its new content."""
    for generated in (
        cookbook.files(DOCS),
        primitives.files(DOCS),
        skill.files(SKILL, DOCS),
        tutorial.files(DOCS),
    ):
        yield from differing(generated)


def differing(generated: Mapping[Path, str]) -> Iterator[tuple[Path, str]]:
    """Those of the generated files that differ from the file on disk, or have none."""
    for path, content in generated.items():
        if not path.is_file() or comparable(path, path.read_text(encoding="utf-8")) != comparable(path, content):
            yield path, content


def comparable(path: Path, content: str) -> object:
    """The part of a file that has to be current.

    Graphviz computes coordinates from the fonts of the machine, so of its pictures only the texts are compared.
    """
    if path.suffix == ".svg" and "by graphviz" in content:
        return sorted(re.findall(r"<text[^>]*>([^<]*)</text>", content))
    return content
