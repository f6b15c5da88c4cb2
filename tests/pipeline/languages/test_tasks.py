"""Tasks as YAML mappings: read back from their statement, with places in messages."""

import pytest

from pipeline.languages import Task, TaskError, read_text_task

KEYS = {"goal": str, "sizes": (list, type(None))}
TEXT = "goal: add  # a sum\nimpl: |\n  one\n  two\nsizes: [1, 2]\n"


def test_a_task_is_read_back_from_its_statement_and_with_its_solution() -> None:
    """The statement shows no solution."""
    task = read_text_task(TEXT, "add", "add.yaml", KEYS)
    assert isinstance(task, Task)
    assert task.impl == "one\ntwo\n" and task.statement == "goal: add  # a sum\nsizes: [1, 2]\n"
    assert task.content == {"goal": "add", "sizes": [1, 2]}
    alone = task.without_impl()
    assert read_text_task(alone.statement, "add", "again", KEYS) == alone
    assert read_text_task(alone.text_with(str(task.impl)), "add", "again", KEYS) == task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", r"add\.yaml:1: expected a mapping with the keys goal, sizes"),
        ("goal: add\nsize: 1", r"add\.yaml:2: size: unknown key; expected one of goal, sizes, impl"),
        ("sizes: [1]", r"add\.yaml:1: goal: expected str, this key is missing"),
        ("goal: add\nsizes: 3", r"add\.yaml:2: sizes: expected list, found 3"),
        ("goal: [", r"add\.yaml:1.*expected YAML"),
    ],
)
def test_a_text_that_is_no_task_is_refused_with_its_place(text: str, message: str) -> None:
    """Source, line and what was expected."""
    with pytest.raises(TaskError, match=message):
        read_text_task(text, "add", "add.yaml", KEYS)
