"""What the language says of forms it does not have.

Invariants: one mistake gives one finding; it names the place in characters of the text as written; its hint
says what to write instead.
"""

import pytest

from step_runtime.language.hints import usage
from step_runtime.primitives import PRIMITIVES
from tests.support.samples import Mistake, assert_reported, check

MISTAKES = [
    Mistake("two streams without a tuple", "return step.Zip().apply(E0, E1)", "1:8", "apply-argument",
     "apply takes one stream or one tuple", "two streams go as a tuple: .apply((E0, E1))"),
    Mistake("two streams to accum", "return step.Accum(fn=fn_sum, b=1).apply(E0, E1)", "1:8", "apply-argument",
     "apply takes one stream or one tuple", "write step.Accum(fn=…, b=…).apply(E0); zip two streams into"),
    Mistake("misspelled function", "E4 = step.Map(fn=fn_sqare).apply(E0)\nreturn E4", "1:18", "name",
     "fn_sqare is not defined", "did you mean fn_square? the task's functions are fn_sum, fn_"),
    Mistake("unknown function", "E4 = step.Map(fn=fn_exp).apply(E0)\nreturn E4", "1:18", "name",
     "fn_exp is not defined", "the task's functions are fn_sum, fn_sumbuffer, fn_square, fn"),
    Mistake("undefined stream", "E4 = step.Map(fn=fn_square).apply(E5)\nreturn E4", "1:35", "name",
     "E5 is not defined", "the streams here are E0, E1, E2, E3"),
    Mistake("raw torch", "E4 = torch.sum(E0)\nreturn E4", "1:6", "call", "torch is not in scope",
     "a program computes only through the task's functions: step.M"),
    Mistake("raw torch, nested", "E4 = torch.nn.functional.gelu(E0)\nreturn E4", "1:6", "call",
     "torch is not in scope", "a program computes only through the task's functions: step.M"),
    Mistake("lambda", "E4 = step.Map(fn=lambda x: x * x).apply(E0)\nreturn E4", "1:18", "expression",
     "a program has no lambdas", "use one of the task's functions: step.Map(fn=fn_…).apply(E0)"),
    Mistake("apply missing", "E4 = step.Map(fn=fn_square)(E0)\nreturn E4", "1:6", "call",
     "step.Map(…) is called directly", "write step.Map(fn=…).apply(E0)"),
    Mistake("applied to nothing", "E4 = step.Map(fn=fn_square)\nreturn E4", "1:6", "call",
     "step.Map(…) is applied to nothing", "write step.Map(fn=…).apply(E0)"),
    Mistake("step. missing", "E4 = Map(fn=fn_square).apply(E0)\nreturn E4", "1:6", "call", "Map is not defined",
     "write step.Map(fn=…).apply(E0)"),
    Mistake("step. and call missing", "E4 = Copy.apply(E0)\nreturn E4", "1:6", "call", "Copy is not defined",
     "write step.Copy().apply(E0)"),
    Mistake("range of a dim", "E4 = step.Partition(N=E).apply((E3, E2))\nE5 = [E4[i] for i in range(E)]\nreturn E5",
     "2:28", "int", "expected an int, found the dim E", "write its size: E_value"),
    Mistake("shape asked for", "E4 = step.Repeat(n=E0.shape[0]).apply(E3)\nreturn E4", "1:20", "expression",
     "a program cannot ask for .shape", "write dims by name (M, N, …) and sizes as M_value"),
    Mistake("sum of streams", "E4 = E0 + E3\nreturn E4", "1:6", "arithmetic",
     "this operator does not take a stream and a stream",
     "streams are combined by a function: step.Map(fn=fn_…).apply("),
    Mistake("product of function and stream", "E4 = fn_square * E0\nreturn E4", "1:6", "arithmetic",
     "this operator does not take the function fn_square and a stream",
     "streams are combined by a function: step.Map(fn=fn_…).apply("),
    Mistake("lists added", "E4 = [E0] + [E3]\nreturn E4", "1:6", "arithmetic", "lists are not added or multiplied",
     "write one list, such as [*a, *b], or a comprehension"),
    Mistake("function called", "E4 = fn_square(E0)\nreturn E4", "1:6", "call", "function fn_square is called directly",
     "write step.Map(fn=fn_square).apply(stream)"),
    Mistake("stateful function called", "E4 = fn_sum(E0, E3)\nreturn E4", "1:6", "call",
     "function fn_sum is called directly", "write step.Accum(fn=fn_sum, b=1).apply(stream)"),
    Mistake("function as step.fn", "E4 = step.Map(fn=step.fn_square).apply(E0)\nreturn E4", "1:18", "expression",
     "step has no fn_square", "functions and dims go without `step.`: write fn_square"),
    Mistake("function called as step.fn", "E4 = step.fn_square(E0)\nreturn E4", "1:6", "call",
     "function fn_square is called directly", "write step.Map(fn=fn_square).apply(stream)"),
    Mistake("function in quotes", 'E4 = step.Map(fn="fn_square").apply(E0)\nreturn E4', "1:18", "expression",
     "'fn_square' is not a value of the language; numbers are ints", "names of functions and dims go without quotes"),
    Mistake("b missing", "E4 = step.Accum(fn=fn_sum).apply(E0)\nreturn E4", "1:6", "config", "Accum needs b",
     "write step.Accum(fn=…, b=…).apply(E0)"),
    Mistake("b given to map", "E4 = step.Map(fn=fn_square, b=1).apply(E0)\nreturn E4", "1:6", "config", "Map has no b",
     "write step.Map(fn=…).apply(E0)"),
    Mistake("unknown primitive", "E4 = step.Reduce(fn=fn_sum, b=1).apply(E0)\nreturn E4", "1:6", "primitive",
     "there is no primitive Reduce", "the primitives are Accum, Bufferize, Copy, Flatten, Identity"),
    Mistake("misspelled primitive", "E4 = step.Streamfy().apply(E1)\nreturn E4", "1:6", "primitive",
     "there is no primitive Streamfy", "did you mean step.Streamify().apply(E0)?"),
    Mistake("repeat by a stream", "E4 = step.Repeat(n=E3).apply(E0)\nreturn E4", "1:20", "config",
     "Repeat: n cannot be a stream", "write step.Repeat(n=…).apply(E0)"),
    Mistake("stream indexed", "E4 = step.Zip().apply((E0, E1))\nreturn E4[0]", "2:8", "subscript",
     "a stream cannot be indexed", "a tuple's component is taken by one of the task's functions;"),
    Mistake("method of a stream", "E4 = E0.sum()\nreturn E4", "1:6", "call", "streams have no method sum",
     "write step.NAME(config).apply(E0)"),
    Mistake("power", "E4 = step.Repeat(n=M**2).apply(E0)\nreturn E4", "1:20", "arithmetic",
     "`**` is not part of the language", "write the product out, such as M*M"),
    Mistake("true division", "E4 = step.Repeat(n=M/2).apply(E0)\nreturn E4", "1:20", "arithmetic",
     "`/` is not part of the language", "dims divide with //, which must divide evenly"),
    Mistake("generator", "E4 = list(step.Map(fn=f).apply(s) for f, s in zip(experts, [E0, E3, E1]))\nreturn E4",
     "1:10", "expression", "generators are not part of the language", "write a list: [… for … in …]"),
    Mistake("condition in a comprehension", "E4 = [step.Map(fn=f).apply(E0) for f in experts if f]\nreturn E4", "1:52",
     "comprehension", "a comprehension cannot have a condition", "pick the elements by index or slice, e.g. E2[:2]"),
    Mistake("double star", "E4 = step.Map(**fn_square).apply(E0)\nreturn E4", "1:6", "config", "Map has no **",
     "write step.Map(fn=…).apply(E0)"),
    Mistake("star in apply", "E4 = step.Zip().apply(*[E0, E3])\nreturn E4", "1:6", "apply-argument",
     "apply takes one stream or one tuple", "write step.Zip().apply((E0, E1))"),
    Mistake("step returned", "return step", "1:8", "name", "step is not a value",
     "write step.NAME(config).apply(stream)"),
    Mistake("comparison", "E4 = E0 == E3\nreturn E4", "1:6", "expression", "comparisons are not part of the language",
     "use Partition and Merge, or one of the task's functions, for"),
    Mistake("dunder attributes", "E4 = E0.__class__.__bases__\nreturn E4", "1:6", "expression",
     "attribute .__bases__ is not part of the language",
     "a program only binds names to step.NAME(config).apply(stream"),
    Mistake("f-string", 'E4 = f"{E0}"\nreturn E4', "1:6", "expression", "strings are not values of the language",
     "a program only binds names to step.NAME(config).apply(stream"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_reported_with_place_text_and_hint(mistake: Mistake) -> None:
    """Every expression that the language lacks is reported once, where it stands, with a hint."""
    assert_reported(mistake)


def test_lists_left_half_built_by_a_mistake_are_unknown() -> None:
    """A list that a refused statement would have appended to gives no findings of its own."""
    program = "a = []\nfor x in E0:\n    a.append(x)\nb = step.Merge(fn=fn_sum).apply((a, E2))\nreturn b"
    _, found = check(program)
    assert [(d.code, d.span and d.span.line) for d in found] == [("sequence", 2)]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_usage_of_every_primitive_is_its_own_form(name: str) -> None:
    """The form shown for a primitive names all of its configuration."""
    shown = usage(name)
    assert shown.startswith(f"step.{name}(") and all(f"{key}=" in shown for key in PRIMITIVES[name].config_names())


def test_what_stands_around_body_is_reported() -> None:
    """Imports before `def body` and calls after it are to be left out."""
    body = "def body(E0, E1, E2, E3):\n    return E0"
    for program, line in ((f"import step\n{body}", 2), (f"{body}\nbody(E0, E1, E2, E3)", 1)):
        found = {d.message: d.span and d.span.line for d in check(program)[1]}
        assert len(found) == 2 and found["`def body(…)` does not stand alone"] == line
