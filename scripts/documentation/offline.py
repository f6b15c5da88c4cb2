"""`python -m scripts.documentation.offline FOLDER`: fails if a page of a built site would load anything from a network.

Links that a reader may follow are allowed; scripts, styles, fonts, pictures and frames from elsewhere are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?(?:stylesheet|preconnect|preload|dns-prefetch|icon|shortcut icon)\b)"""
    r"""[^>]*\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)""",
    re.IGNORECASE,
)
STYLE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""")


def external(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each address in the HTML and CSS files of a folder that a browser would load from a network, with its file."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8")
            patterns = (LOADED, STYLE) if path.suffix == ".html" else (STYLE,)
            for found in (match for pattern in patterns for match in pattern.finditer(text)):
                yield path, next(filter(None, found.groups()))


def main() -> int:
    """Prints what it finds."""
    folder = Path(sys.argv[1])
    found = list(external(folder))
    for path, address in found:
        print(f"{path}: loads {address}", file=sys.stderr)
    return 1 if found or not (folder / "index.html").is_file() else 0


if __name__ == "__main__":
    sys.exit(main())
