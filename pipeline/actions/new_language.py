"""A skeleton of a language: a package that works, to be changed into another."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.base.errors import UsageError
from pipeline.base.files import file_errors, write_text
from pipeline.base.languages import declared
from pipeline.base.paths import DATA, shown

TEMPLATE = DATA / "language-template"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Writes the skeleton of a language of a name to a folder that is empty or not there; returns its files.

    Raises:
        UsageError: The name is none, or another's; the folder holds something, or can't be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a language; expected lower-case letters, digits and single hyphens")
    if name in declared():
        raise UsageError(f"there is a language {name!r} already; choose another name")
    module = f"{name.replace('-', '_')}_language"
    written = []
    with file_errors(f"-o: can't write {shown(folder)}"):
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"-o: {shown(folder)} is not empty; name another folder")
        for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file()):
            parts = source.relative_to(TEMPLATE).parts
            if "__pycache__" in parts:  # pip's, of the template as it is installed
                continue
            place = folder.joinpath(*(module if part == "MODULE" else part for part in parts))
            place.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            write_text(place, text.replace("MODULE", module).replace("NAME", name))
            written.append(place)
    return written
