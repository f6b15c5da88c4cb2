"""The cookbook: for each recipe, a task file with its program, a page and a picture of the program's graph."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from pipeline.charts import dataflow
from step_runtime import load_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.explain import explain

ORDER = (
    "whole_stream", "row_statistic", "counter", "window", "first_element", "carry_rows", "reset", "argmax",
    "running_top2", "choose", "expert_statistics", "slice", "concatenate", "pad", "repeat_stream", "transpose",
    "downsample", "interleave",
)  # fmt: skip
"""The recipes in the order of their index."""
INTRODUCTION = """\
# Cookbook

STeP has no indices, conditions or loops. These recipes express them. Each recipe is a task file with its program: copy
it, change it, and verify it with `python -m pipeline.verify FILE`. The tests verify every recipe, and the pages and
pictures are generated from the files. In a picture, primitives are boxes, and each edge is a stream with its element
type and dims, innermost first.
"""


def recipes(docs: Path) -> list[Path]:
    """The recipes' task files, in the order of their index."""
    return [docs / "cookbook" / f"{name}.yaml" for name in ORDER]


def files(docs: Path) -> dict[Path, str]:
    """The pages and pictures by path, for the folder of the documentation."""
    made: dict[Path, str] = {}
    entries = []
    for path in recipes(docs):
        title, text = comment(path)
        made[path.with_suffix(".md")] = page(path, title, text)
        made[path.with_suffix(".svg")] = picture(path)
        entries.append(f"- [{title}]({path.stem}.md)")
    made[docs / "cookbook" / "index.md"] = "\n".join([INTRODUCTION, *entries, ""])
    return made


def comment(path: Path) -> tuple[str, str]:
    """The title and the text in the comment at the beginning of a task file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return lines[0], "\n".join(lines[1:]).strip()


def page(path: Path, title: str, text: str) -> str:
    """The page of a recipe, in Markdown."""
    content = path.read_text(encoding="utf-8")
    task = "".join(_without_comment(content))
    program = yaml.safe_load(content)["impl"].rstrip()
    task, _, _ = task.partition("\nimpl: |\n")
    return f"""\
# {title}

{text}

```python title="the program"
{program}
```

![The dataflow graph of the program]({path.stem}.svg)

The task, `docs/cookbook/{path.name}`, with the functions that the program uses and the reference in PyTorch:

```yaml
{task.strip()}
```
"""


def picture(path: Path) -> str:
    """The graph of a recipe's program as SVG."""
    task = load_task(path)
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch, "graph.svg")
        dataflow.draw(explain(task.impl or "", static_scope(task)), drawn)
        return drawn.read_text(encoding="utf-8")


def _without_comment(content: str) -> Iterator[str]:
    """The lines after the comment at the beginning."""
    yield from itertools.dropwhile(lambda line: line.startswith("#"), content.splitlines(keepends=True))
