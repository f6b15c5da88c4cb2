"""YAML in and out: bounds on what is built, places of values, and readable code."""

import pytest

from step_runtime import TaskError, loads_task
from step_runtime.tasks.yaml_format import dump, format_location, line_in, load


def test_bombs_are_refused_quickly() -> None:
    """Files too large, or large once their aliases are expanded, are refused before they are built."""
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    bombs = {
        laughs: "more than 20,000 values once its aliases are expanded",
        "a: &a {b: c}\nd: [" + "*a, " * 2000 + "]": "101 aliases up to here; the limit is 100",
        "x: " + "y" * 2_000_000: "2,000,003 characters; the limit is 200,000",
        "x: " + "9" * 5_000: "expected YAML: an int of too many digits$",
        "[" * 20_000: "51 levels up to here; the limit is 50",
        "- " * 5_000: "51 levels up to here; the limit is 50",
        "x: [" + "a," * 90_000 + "]": "20,001 values up to here; the limit is 20,000",
        "".join(f"k{i}: 1\n" for i in range(20_000)): "20,001 values up to here; the limit is 20,000",
    }
    for text, quoted in bombs.items():
        with pytest.raises(TaskError, match=quoted):
            loads_task(text)


def test_lines_are_those_of_a_value_or_of_the_nearest_node_around_it() -> None:
    """A mapping's place is its key's line; a place that does not exist is the last known one on the way."""
    text = "a:\n- b: 1\n  c:\n  - 2\n- d: 3\n"
    assert [line_in(text, place) for place in (("a", 0, "b"), ("a", 0, "c", 0), ("a", 1, "d"), ("a", 7))] == [
        2,
        4,
        5,
        2,
    ]
    assert (format_location(("a", 0, "c")), format_location(())) == ("a[0].c", "the task")


def test_dumped_code_is_a_literal_block_and_dims_stay_on_one_line() -> None:
    """The text reads back as the same content, keys in their own order."""
    content = {"inputs": [{"name": "E0", "dims": ["M", "N"]}], "apply": "x = 1\nreturn [x]\n", "init": ["-inf", 0]}
    text = dump(content)
    assert "apply: |\n" in text and "dims: [M, N]\n" in text
    assert load(text, "x.yaml")[1] == content and list(load(text, "x.yaml")[1]) == list(content)


def test_a_repeated_key_is_refused_with_both_lines() -> None:
    """YAML itself would silently keep the later one."""
    with pytest.raises(TaskError, match=r"x.yaml:3: duplicate key 'a'; line 1 has it already"):
        load("a: 1\nb: 2\na: 3\n", "x.yaml")


def test_a_type_that_yaml_divides_is_said_to_need_quotes() -> None:
    """In a list, YAML ends it at its comma; other faults of YAML get no such advice."""
    with pytest.raises(TaskError, match=r"x.yaml:1:.*; in a list, a type needs quotes: "):
        load("input_dtype: [Buffer(fp32, [D]), fp32]\n", "x.yaml")
    with pytest.raises(TaskError, match=r"^(?!.*quotes)"):
        load("dims: [M, [N]\n", "x.yaml")
