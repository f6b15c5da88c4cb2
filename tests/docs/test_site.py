"""The site holds these: its navigation names every page, its pages load nothing from a network, the build is strict."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.documentation.offline import external
from tests.support.paths import PROJECT

CONFIG = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
MADE_BY_THE_BUILD = {"commands.md"}


def test_the_navigation_names_every_page_once() -> None:
    """Also those of recipes and primitives, in an order for newcomers."""
    named = re.findall(r"[\w./-]+\.md", CONFIG.partition("\nnav:")[2])
    docs = PROJECT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | MADE_BY_THE_BUILD
    assert sorted(named) == sorted(pages)
    order = ["start/install.md", "start/first-operator.md", "start/first-run.md", "lms.md", "start/compare.md"]
    assert [name for name in named if name in order] == order
    assert named.index("start/compare.md") < named.index("commands.md") < named.index("results.md")


@pytest.mark.parametrize(
    ("html", "loaded"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "https://cdn.example/x.js"),
        ("<link rel=stylesheet href=//fonts.example/a.css>", "//fonts.example/a.css"),
        ('<link href="https://fonts.example" rel="preconnect">', "https://fonts.example"),
        ("<img alt='' src='http://pictures.example/a.png'>", "http://pictures.example/a.png"),
        ("<style>a { background: url(https://pictures.example/b.svg) }</style>", "https://pictures.example/b.svg"),
    ],
)
def test_what_a_page_would_load_from_a_network_is_found(html: str, loaded: str, tmp_path: Path) -> None:
    """Scripts, styles, fonts, pictures."""
    (tmp_path / "index.html").write_text(html)
    assert [address for _, address in external(tmp_path)] == [loaded]


def test_links_to_follow_are_allowed(tmp_path: Path) -> None:
    """As are a page's own files, and its address for search engines."""
    links = (
        '<a href="https://arxiv.org">p</a><link rel="canonical" href="https://x.example/"><script src="a.js"></script>'
    )
    (tmp_path / "index.html").write_text(links)
    assert list(external(tmp_path)) == []


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_needs_no_network(tmp_path: Path) -> None:
    """With the docs extra installed, as `make docs` does; the search finds recipes."""
    pytest.importorskip("mkdocs", reason="the docs extra is not installed; `make docs` builds strictly, too")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(external(tmp_path / "site")) == []
    assert "Concatenate two streams" in (tmp_path / "site" / "search" / "search_index.js").read_text(encoding="utf-8")
