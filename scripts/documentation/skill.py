"""The Agent Skill (agentskills.io) of the language: SKILL.md, and references that an agent reads when it needs them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.agent.agent import packaged_prompt
from scripts.documentation import cookbook
from signatures import render_task
from signatures.prompts import Reference
from step_runtime import load_task
from step_runtime.tasks.task import SolvedTask

MAIN = """\
---
name: step
description: >-
  Write and repair machine-learning operators in STeP (Streaming Tensor Programs), a language for streaming dataflow
  hardware. Use it when a task file (YAML with inputs, fns and outputs) asks for an `impl`, or a STeP program fails.
---

# Writing STeP operators

A task file describes an operator: inputs, the functions that the hardware offers, and the outputs in PyTorch. You write
`impl`, a program of primitives that moves data through these functions.

1. Read the task. Note each stream's element type and dims, innermost first.
2. Read [the language](references/language.md) once, and [primitives](references/primitives.md) when you need one.
3. Find a similar example in [patterns](references/patterns.md).
4. Write a draft. Give each stream's type and dims as a comment, and compare them with what the next step requires.
5. Check it: `python -m pipeline.verify TASK.yaml PROGRAM.step --explain`. Repair the first finding, and check again.
6. Stop only when it says `passed`. If values are wrong, `--values` names the first stream that is unlike the reference.

Rules that are broken most often: a stream may be consumed once, so Copy what is needed twice; Zip needs equal dims; a
function's `input_dtype` must equal the stream's element type exactly; dims are the reverse of torch's.
"""


def files(folder: Path, docs: Path) -> dict[Path, str]:
    """The skill's files by path, for its own folder and that of the documentation."""
    prompt = packaged_prompt()
    recipes = {path.stem: load_task(path).solved() for path in cookbook.recipes(docs)}
    shown = [_section(name.replace("_", " "), "", [solved]) for name, solved in recipes.items() if solved]
    texts = {
        "SKILL.md": MAIN,
        "references/language.md": f"# The language\n\n{prompt.desc.strip()}\n\n```text\n{prompt.syntax.strip()}\n```\n",
        "references/primitives.md": "\n".join(["# Primitives\n", *_references(prompt.primitives)]),
        "references/patterns.md": "\n".join(["# Patterns\n", *_references(prompt.patterns), *shown]),
    }
    return {folder / name: text for name, text in texts.items()}


def _references(parts: Iterable[Reference]) -> Iterator[str]:
    return (_section(part.name, f"{part.desc.strip()}\n\n", part.solved) for part in parts)


def _section(title: str, text: str, examples: Iterable[SolvedTask]) -> str:
    shown = (
        f"```yaml\n{render_task(each.task)}\n```\n\n```python\n{textwrap.dedent(each.program).strip()}\n```\n"
        for each in examples
    )
    return f"## {title}\n\n{text}" + "\n".join(shown)
