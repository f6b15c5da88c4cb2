"""What a TT-Lang program may be is a list; all else is refused before it is run."""

import ast

import pytest

pytest.importorskip("ttl")

from ttlang.language import TTLANG

ALLOWED = TTLANG.allowed

ADD = (TTLANG.folder / "oracles/add.ttl").read_text()
ATTACKS = sorted((TTLANG.folder / "attacks").rglob("*.ttl"))
RUN = {"endless", "memory", "nesting", "power-tower", "buffer", "recursion", "inputs", "unwritten"}
"""Attacks by what the language has: the cell ends them, or their verdict is that of a wrong program."""


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.parent.name)
def test_attacks_are_refused_before_they_run(path: object) -> None:
    """With a place, but for those that the list allows."""
    assert hasattr(path, "read_text") and hasattr(path, "parent")
    found = ALLOWED.checked(path.read_text())[1]
    if path.parent.name not in RUN:
        assert found and found[0].stage == "static" and found[0].span is not None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("found = (lambda: 1)()", "syntax"), ("found = [c for c in a]", "syntax"),
        ("found = a.__class__", "attribute"), ("found = a.shape.count", "attribute"), ("a.shape = 3", "attribute"),
        ("a[0] = 3", "syntax"), ("found = ttl", "name"), ("found = ttl.sim", "attribute"),
        ("found = ttl.math", "attribute"), ("range = 3", "name"), ("__builtins__ = 3", "name"),
        ("found = __builtins__", "name"), ("found = eval", "name"), ("found = 'text'", "constant"),
        ("found = f'{a}'", "syntax"), ("found = 9 ** 9999", "power"), ("found = rows ** rows", "power"),
        ("found = min(*a.shape)", "syntax"), ("found = dict(**a)", "name"), ("global rows", "syntax"),
        ("return rows", "syntax"), ("import sys", "syntax"), ("while rows: pass", "syntax"),
        ("(found := 3)", "syntax"), ("try: pass\n    finally: pass", "syntax"), ("def helper(): pass", "kernel"),
        ("match rows:\n        case 1: pass", "syntax"), ("del rows", "syntax"), ("async def f(): pass", "syntax"),
        ("found = (yield ttl.copy.__code__)", "syntax"), ("found = torch.load(rows, weights_only=False)", "name"),
        ("torch.save(a, rows)", "attribute"), ("def compute(file=rows): pass", "arguments"),
        ("try: pass\n    except ZeroDivisionError as error: rows = error.__traceback__", "attribute"),
        ("with a as a.shape: pass", "attribute"), ("for a.shape in rows: pass", "attribute"),
        ("a.shape += rows", "attribute"), ("rows **= rows", "power"),
    ],
)  # fmt: skip
def test_what_is_not_listed_is_refused(line: str, code: str) -> None:
    """By its code, at its line."""
    text = ADD.replace("    rows, cols =", f"    {line}\n    rows, cols =", 1)
    found = ALLOWED.checked(text)[1]
    assert code in [each.code for each in found], found


def test_every_oracle_is_allowed_and_every_name_is_in_the_simulator() -> None:
    """The list names nothing that is not there."""
    from ttl.sim import ttl

    for path in (TTLANG.folder / "oracles").glob("*.ttl"):
        assert ALLOWED.checked(path.read_text())[1] == ()
    for name in sorted(ALLOWED.paths):
        found: object = ttl
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found), name


def test_keys_are_equal_up_to_names_and_annotations() -> None:
    """And differ where an operator, a number or the sharing of a name does."""
    renamed = ADD.replace("a_blk", "left").replace("(a, b, out)", "(a: ttnn.Tensor, b, out) -> None")
    assert ALLOWED.key(ADD) == ALLOWED.key(f"# by another\n{renamed}")
    for old, new in (("a_blk + b_blk", "a_blk - b_blk"), ("// 32", "// 16"), ("b_blk)", "a_blk)")):
        assert old in ADD and ALLOWED.key(ADD) != ALLOWED.key(ADD.replace(old, new))


def test_a_name_that_is_not_bound_is_no_name_of_the_programs() -> None:
    """Whatever it is called."""
    own = ADD.replace("rows, cols =", "first = 1\n    second = first\n    rows, cols =", 1)
    order = [node.id for node in ast.walk(ast.parse(own)) if isinstance(node, ast.Name)]
    assert "first" in order
    for number in range(40):
        other = own.replace("second = first", f"second = v{number}")
        assert ALLOWED.checked(other)[1] and ALLOWED.key(other) != ALLOWED.key(own)
