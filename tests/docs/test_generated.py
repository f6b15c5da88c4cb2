"""The generated pages are current: recipes, primitives, and the tutorial's outputs; `python -m scripts.documentation`.

They follow from the recipes' files, the token semantics and what the commands print today.
"""

import warnings

import pytest

from pipeline.verification.task_files import load_tasks
from scripts.documentation import cookbook, primitives, skill, tutorial
from scripts.documentation.pages import DOCS, SKILL, comparable, differing
from step_runtime import load_task, verify
from step_runtime.primitives import PRIMITIVES

HINT = "run: python -m scripts.documentation"


@pytest.mark.parametrize("path", cookbook.recipes(DOCS), ids=lambda path: path.stem)
def test_a_recipe_passes_both_verifiers(path: object) -> None:
    """A recipe is a complete task file with its program."""
    task = load_task(str(path))
    verdict = verify(task)
    assert verdict.passed, verdict.render(task.impl or "")


def test_every_recipe_is_listed_and_loads_without_a_warning() -> None:
    """A task that warns would be a bad example to copy."""
    assert sorted(cookbook.recipes(DOCS)) == sorted((DOCS / "cookbook").glob("*.yaml"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_tasks([str(path) for path in cookbook.recipes(DOCS)])


def test_the_cookbook_and_the_skill_are_current() -> None:
    """Their pages and pictures show the programs in the recipes' files."""
    files = cookbook.files(DOCS) | skill.files(SKILL, DOCS)
    assert [path.name for path, _ in differing(files)] == [], HINT


def test_the_pages_of_primitives_are_current_and_complete() -> None:
    """One for each primitive, with streams as the token semantics has them."""
    assert set(primitives.EXAMPLES) == set(PRIMITIVES) - {"RepeatLast"}
    assert [path.name for path, _ in differing(primitives.files(DOCS))] == [], HINT


def test_a_picture_shows_the_streams_before_and_after() -> None:
    """Worked by hand: the sum of each row."""
    picture = primitives.files(DOCS)[DOCS / "primitives" / "Accum-1.svg"]
    assert (
        "<title>Accum(fn=add, b=1) turns E0: fp32 [2, 2]: 1, 2, S1, 3, 4, S1 into E1: fp32 [2]: 3, 7</title>" in picture
    )


def test_the_tutorial_s_outputs_are_those_of_its_commands() -> None:
    """The files that it shows are verified by the commands that it shows."""
    (page,) = tutorial.files(DOCS).items()
    assert page[1] == page[0].read_text(encoding="utf-8"), HINT
    assert page[1].count("```text\n") == 3 and "scale_rows.step: passed" in page[1]


def test_a_changed_output_is_noticed() -> None:
    """A block of text is replaced, whatever it held."""
    file, command = '```yaml title="bad.yaml"\ninputs: 3\n```\n', "```sh\npython -m pipeline.verify bad.yaml x\n```\n"
    renewed = tutorial.renewed(f"{file}\n{command}\n```text\nfine\n```\n")
    assert "fine" not in renewed and "bad.yaml" in renewed.partition("```text")[2]


def test_a_graph_is_compared_by_its_texts() -> None:
    """Its coordinates depend on the machine's fonts."""
    path = DOCS / "cookbook" / "counter.svg"
    text = path.read_text(encoding="utf-8")
    assert comparable(path, text.replace('x="', 'x="1')) == comparable(path, text)
    assert comparable(path, text.replace("fn_count", "fn_other")) != comparable(path, text)
