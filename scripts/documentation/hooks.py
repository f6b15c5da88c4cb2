"""What MkDocs calls while it builds the site.

The page of the commands is made of their `--help`. The one script that the theme loads from the network, for search in
pages opened as files, is replaced by `docs/frame-worker.js`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

COMMANDS = (
    "verify", "compile", "evaluate", "generate", "report", "ui", "ablate", "sweep",
)  # fmt: skip
"""In the order in which a newcomer meets them; any other command follows."""
FROM_NETWORK, OURS = "https://unpkg.com/iframe-worker/shim", "frame-worker.js"
INTRODUCTION = """\
# Commands

`python -m pipeline.COMMAND`, or `adaptive-step COMMAND` where the project is installed. Every command answers `--help`.
Exit codes: 0, success; 1, the answer is no (a program fails verification, no solution was found); 2, bad usage or a bad
file; 3, the LM, the record or the cluster cannot be used; 4, a verdict is unknown; 130, interrupted.
"""


def on_files(files: Files, config: Any) -> Files:
    """Adds the page of the commands."""
    from pipeline.__main__ import COMMANDS as known

    names = [*(name for name in COMMANDS if name in known), *(name for name in known if name not in COMMANDS)]
    parts = [
        f"## {name}\n\n{known[name][:1].upper()}{known[name][1:]}.\n\n```text\n{usage(name)}```\n" for name in names
    ]
    files.append(File.generated(config, "commands.md", content="\n".join([INTRODUCTION, *parts])))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The page's HTML with our script in the place of the theme's."""
    return output.replace(FROM_NETWORK, get_relative_url(OURS, page.url))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for a page of the theme, such as the one for a missing address."""
    return output_content.replace(FROM_NETWORK, OURS)


def usage(name: str) -> str:
    """The text of a command's `--help`, for 100 columns."""
    command = [sys.executable, "-m", f"pipeline.{name}", "--help"]
    done = subprocess.run(
        command, env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}, capture_output=True, text=True, check=True
    )
    return done.stdout
