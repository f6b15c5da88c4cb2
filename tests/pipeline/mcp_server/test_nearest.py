"""Near examples are solved, similar, and never the task itself."""

from pathlib import Path

from pipeline.mcp_server.nearest import Example, nearest, of_files, packaged
from step_runtime import load_task, loads_task, verify
from step_runtime.tasks.task import SolvedTask
from tests.pipeline.mcp_server.conftest import Ask
from tests.support.paths import PROJECT
from tests.support.scripted_runs import RIGHT, TASK


def test_the_most_similar_example_comes_first() -> None:
    """A task of the same functions and types beats all of the package's, and the task itself is left out."""
    task = loads_task(TASK, "double")
    twin = Example("mine", SolvedTask(loads_task(TASK.replace("* 2", "* 3"), "triple"), RIGHT))
    itself = Example("itself", SolvedTask(task, RIGHT))
    found = nearest(task, [*packaged(), itself, twin])
    assert found[0].source == "mine" and "itself" not in [each.source for each in found]
    assert found[0].similarity > found[1].similarity >= found[-1].similarity >= 0


def test_packaged_examples_are_the_prompts_and_the_recipes() -> None:
    """A recipe as an example is right."""
    sources = {each.source.partition(":")[0] for each in packaged()}
    assert sources == {"prompt", "cookbook"}
    recipe = next(each for each in packaged() if each.source == "cookbook: argmax")
    assert verify(load_task(PROJECT / "docs/cookbook/argmax.yaml"), recipe.solved.program).passed


def test_files_without_a_program_or_of_no_task_give_none(task_folder: Path) -> None:
    """`double` and `link` hold no `impl`, and `broken` is no task."""
    assert [each.source for each in of_files(sorted(task_folder.rglob("*.yaml")))] == ["solved", "wrong"]


def test_the_tool_shows_tasks_with_programs(ask: Ask) -> None:
    """As many as asked for, the nearest first: the folder's own solved task, and not the one whose program is wrong."""
    result = ask("call_tool", "examples", {"task": "double", "count": 2})
    first, second = result.structured_content["examples"]
    assert first["source"] == "solved" and first["program"].strip() == RIGHT
    assert second["source"] != "wrong" and first["similarity"] >= second["similarity"]
    assert "impl: |\n  E1 = step.Map(fn=fn)" in result.content[0].text
