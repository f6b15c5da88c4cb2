"""Near examples are solved, similar, and never the task itself."""

from pipeline.mcp_server.nearest import nearest, packaged
from pipeline.verification.shown_programs import Program
from step_runtime import load_task, loads_task, verify
from tests.pipeline.mcp_server.conftest import Ask
from tests.support.paths import PROJECT
from tests.support.scripted_runs import RIGHT, TASK


def test_the_most_similar_example_comes_first() -> None:
    """A task of the same functions and types beats all of the package's, and the task itself is left out."""
    task = loads_task(TASK, "double")
    twin, itself = Program(loads_task(TASK.replace("* 2", "* 3"), "triple"), "mine", RIGHT), Program(task, "it", RIGHT)
    found = nearest(None, task, [*packaged(None), itself, twin])
    assert found[0][1].place == "mine" and "it" not in [each.place for _, each in found]
    assert found[0][0] > found[1][0] >= found[-1][0] >= 0


def test_packaged_examples_are_the_prompts_and_the_recipes() -> None:
    """A recipe as an example is right."""
    places = {each.place: each for each in packaged(None)}
    assert {place.partition(":")[0] for place in places} == {"prompt", "cookbook"}
    assert verify(load_task(PROJECT / "docs/cookbook/argmax.yaml"), places["cookbook: argmax"].text).passed


def test_the_tool_shows_tasks_with_programs(ask: Ask) -> None:
    """As many as asked for, the nearest first: the folder's own solved task, and not the one whose program is wrong."""
    result = ask("call_tool", "examples", {"task": "double", "count": 2})
    first, second = result.structured_content["examples"]
    assert first["source"] == "solved" and first["program"].strip() == RIGHT
    assert second["source"] != "wrong" and first["similarity"] >= second["similarity"]
    assert "impl: |\n  E1 = step.Map(fn=fn)" in result.content[0].text
