"""References in normal form hold these: what is evaluated on the way has a name, and a slice computes what it says."""

import ast

import pytest
import torch

from pipeline.splitting.statements import Statement, normal_form, slice_to, written


def values(code: str, **given: object) -> dict[str, object]:
    names: dict[str, object] = {"torch": torch, "input_data": given}
    exec(code, names)
    return names


def sliced(statements: tuple[Statement, ...], name: str, *cuts: str) -> str:
    """The slice to the last value of a name, from the last values of others, which are inputs of these names."""
    last = {each: max(at for at, line in enumerate(statements) if each in line.defines) for each in (name, *cuts)}
    places = {(last[cut], cut): ast.parse(f"input_data['{cut}']", mode="eval").body for cut in cuts}
    part = slice_to(statements, (last[name], name), places)
    return written(statements, part, places, ast.Name(name, ast.Load()))


def test_nested_expressions_get_names_and_the_text_of_a_slice_has_them_where_they_were() -> None:
    statements = normal_form(["x = input_data['x']\nx + torch.exp(x * 2) @ input_data['w'].T"])
    assert [line.target for line in statements] == ["x", "product", "exp", "matmul", "result"]
    assert sliced(statements, "result") == "x = input_data['x']\nx + torch.exp(x * 2) @ input_data['w'].T"


def test_a_slice_ends_at_cuts() -> None:
    """What leads to a cut alone is not in it, and what the cut's name held before does not matter."""
    statements = normal_form(["x = input_data['x']\nh = torch.exp(x)\nh = h + 1\nh * x"])
    assert sliced(statements, "result", "h") == "x = input_data['x']\nh = input_data['h']\nh * x"
    assert sliced(statements, "h") == "x = input_data['x']\nh = torch.exp(x)\nh = h + 1\nh"


def test_comprehensions_over_literal_tuples_are_unrolled() -> None:
    """Each pass as a statement of its own, with the names that the literal has."""
    statements = normal_form(["q, k = (input_data[name] * 2 for name in ('a', 'b'))\nq - k"])
    assert [line.code for line in statements[:2]] == ["q = input_data['a'] * 2", "k = input_data['b'] * 2"]
    assert [line.reads for line in statements] == [{"a"}, {"b"}, set()]


def test_names_that_change_places_keep_their_values() -> None:
    one, other = torch.tensor(1.0), torch.tensor(2.0)
    statements = normal_form(["a, b = input_data['a'], input_data['b']\na, b = b, a\na - b"])
    found = values("\n".join(line.code for line in statements), a=one, b=other)
    assert found["result"] == 1


@pytest.mark.parametrize(
    "code",
    [
        "h = input_data['x'] * 0\nfor t in range(3):\n    h = h + t\nh * 2",
        "ys = []\nfor t in range(3):\n    ys.append(input_data['x'] * t)\ntorch.stack(ys)",
        "h = torch.zeros(3)\nh[1] = input_data['x']\nh + 1",
        "h = input_data['x'].clone()\nh += 2\nh",
        "h = input_data['x'].clone()\nh.add_(2)\nh * 3",
        "def f(a):\n    return a + 1\nf(input_data['x'])",
    ],
)
def test_slices_through_loops_and_changes_in_place_keep_their_meaning(code: str) -> None:
    x = torch.tensor(3.0)
    statements = normal_form([code])
    text = sliced(statements, "result")
    *before, last = text.splitlines()
    assert torch.equal(values("\n".join([*before, f"found = {last}"]), x=x)["found"], reference(code, x))  # type: ignore[arg-type]


def reference(code: str, x: torch.Tensor) -> torch.Tensor:
    *before, last = code.splitlines()
    found = values("\n".join([*before, f"found = {last}"]), x=x)["found"]
    assert isinstance(found, torch.Tensor)
    return found


def test_a_name_that_is_looked_up_by_a_variable_may_be_any() -> None:
    (line, *_) = normal_form(["x = input_data[name]\nx"])
    assert line.reads is None


def test_attention_is_written_out_on_request() -> None:
    """With the names of its scores and weights, and the same numbers."""
    code = "torch.nn.functional.scaled_dot_product_attention(input_data['q'], input_data['k'], input_data['v']"
    q, k, v = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    for rest in (")", ", is_causal=True)", ", attn_mask=input_data['mask'])"):
        statements = normal_form([code + rest], expanded=True)
        assert [line.target for line in statements if not line.temporary] == ["scores", "weights", "result"]
        found = values("\n".join(line.code for line in statements), q=q, k=k, v=v, mask=mask)
        torch.testing.assert_close(found["result"], values(f"found = {code}{rest}", q=q, k=k, v=v, mask=mask)["found"])
    for rest in (", dropout_p=0.1)", ", is_causal=flag)"):
        assert "scores" not in [line.target for line in normal_form([code + rest], expanded=True)]


def test_loops_of_known_members_are_unrolled() -> None:
    code = "x = input_data['x']\nfor i in range(L_value):\n    x = x * input_data[f'w{i}']\nx"
    lines = [line.code for line in normal_form([code], numbers={"L_value": 2})]
    assert lines[:3] == ["x = input_data['x']", "x = x * input_data['w0']", "x = x * input_data['w1']"]
    assert lines[-1] == "result = x"
    assert any(line.code.startswith("for ") for line in normal_form([code]))


@pytest.mark.parametrize("body", ["x = x + t\n    break", "t = x", "x = x + t if t > 0 else t\n    y = t"])
def test_loops_that_may_end_early_or_change_what_they_run_over_stay_whole(body: str) -> None:
    code = f"for t in (x, y):\n    {body}\nx"
    assert normal_form([code])[0].code.startswith("for ")
