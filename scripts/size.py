"""Code lines of each room and counts of concepts, held to the ceilings in pyproject.toml.

A code line has a token that is neither a comment nor part of a docstring, so that neither documentation nor blank
lines count. A room is a folder; a file belongs to the deepest room above it. A room without a ceiling is an error.

How to run: python -m scripts.size          the table
            python -m scripts.size --check  likewise, and exit 1 above a ceiling
            python -m scripts.size --lower  lowers the ceilings to what is there
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime", "ttlang")
_IDLE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip
_VERDICT = re.compile(r"Verdict|Finding|Outcome|Reward|Score|Refusal|Unknown$|Checked|Judg|HeldOut$|Proof|CheckOutput")


def code_lines(text: str) -> int:
    """The number of lines with code."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _IDLE]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else []:
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                lines -= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return len(lines)


def sources() -> list[Path]:
    """The Python files that git knows or would add, relative to the project."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    return [Path(line) for line in sorted(set(listed.splitlines())) if (PROJECT / line).exists()]


def sizes(rooms: Sequence[str]) -> Counter[str]:
    """The code lines of each room, and of the packages and the tests as a whole."""
    found: Counter[str] = Counter(dict.fromkeys(rooms, 0))
    for path in sources():
        if path.parts[0] not in (*PACKAGES, "tests"):
            continue
        lines = code_lines((PROJECT / path).read_text(encoding="utf-8"))
        folders = [parent.as_posix() for parent in path.parents]
        found["all tests" if path.parts[0] == "tests" else "all packages"] += lines
        found[next((folder for folder in folders if folder in rooms), folders[0])] += lines
    return found


def concepts() -> dict[str, int]:
    """How many names, options, schemas, protocols and types of verdicts a reader meets."""
    api = (PROJECT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines()
    options = sum(line.startswith("python -m ") for line in api)
    classes = [
        node
        for path in sources()
        if path.parts[0] in PACKAGES
        for node in ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    return {
        "options": options,
        "schemas": len(list((PROJECT / "docs" / "schemas").glob("*.json"))),
        "public names": len(api) - options,
        "protocols": sum(any(ast.unparse(base).startswith("Protocol") for base in each.bases) for each in classes),
        "verdict types": sum(bool(_VERDICT.search(each.name)) for each in classes),
        "classes": len(classes),
    }


def lowered(text: str, found: Mapping[str, int]) -> str:
    """The text of pyproject.toml with no room's ceiling above what was found, and without the rooms that are empty."""
    before, budget, after = text.partition("[tool.size.concepts]\n")

    def line(match: re.Match[str]) -> str:
        count = min(found[match[1]], int(match[2]))
        return f'"{match[1]}" = {count}\n' if count else ""

    return before + budget + re.sub(r'"([^"]+)" = (\d+)\n', line, after)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each figure beside its ceiling; 1 if a checked one is above it."""
    given = sys.argv[1:] if arguments is None else arguments
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    ceilings = tomllib.loads(text)["tool"]["size"]
    found = {**sizes(list(ceilings["rooms"])), **concepts()}
    if "--lower" in given:
        (PROJECT / "pyproject.toml").write_text(lowered(text, found), encoding="utf-8")
        return 0
    limits = {**ceilings["whole"], **ceilings["concepts"], **ceilings["rooms"]}
    over = [name for name, count in found.items() if count > limits.get(name, -1)]
    for name, count in found.items():
        print(f"{name:42}{count:8,} {limits.get(name, 'no ceiling'):>10}{' above' if name in over else ''}")
    if over and "--check" in given:
        print(f"\nabove the ceiling in pyproject.toml: {', '.join(over)}; take the lines from the same room")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
