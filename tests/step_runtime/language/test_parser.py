"""From text to graph.

Invariants: whatever the text, the answer is a graph or diagnostics, within a second, and nothing of it is
executed; a finding's line and column count in the text as it was given, whatever was unwrapped from it.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from step_runtime import Verifier, loads_task, verify
from step_runtime.language.parser import parse
from tests.support import samples
from tests.support.samples import Mistake, assert_reported, check, general_scope, general_verifier
from tests.support.scripted_answers import RIGHT, task

PROGRAM = "E4 = step.Map(fn=fn_square).apply(E0)\nreturn E4\n"

BROKEN = "E4 = step.Map(fn=fn_sqare).apply(E0)\nreturn E4\n"

MISTAKES = [
    Mistake("cut off", "E4 = step.Map(fn=fn_square).apply((E0, E3", "1:35", "syntax", "'(' was never closed",
     "close every bracket and string; the program may be cut off"),
    Mistake("prose before the program", "Here is the program:\nE4 = step.Map(fn=fn_square).apply(E0)\nreturn E4",
     "1:13", "syntax", "invalid syntax", "write the program alone, without prose: names bound to step."),
    Mistake("stream in the configuration", "E4 = step.Map(fn=fn_square, E0)\nreturn E4", "1:31", "syntax",
     "positional argument follows keyword argument", "streams go into apply: step.NAME(config).apply(stream)"),
    Mistake("stray indent", "E4 = E0\n  return E4", "2:3", "syntax", "unexpected indent",
     "statements of one block start in one column, with the same s"),
]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["I'm sorry, but I can't help with that.", "No step.Copy() is needed.", "Used once,\nreturn it as it is."]
)
def test_an_answer_in_words_is_no_syntax_error_at_one_of_them(text: str) -> None:
    """Such an answer has no wrong place: the finding says that there is no program, and how to write one."""
    (found,) = parse(text, general_scope())[1]
    assert (found.stage, found.code, found.span) == ("parse", "no-program", None)
    assert found.hint is not None and found.hint.startswith("write the program alone")


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_text_that_is_not_syntax_is_reported_with_place_and_hint(mistake: Mistake) -> None:
    """What Python's grammar refuses is one finding at its place."""
    assert_reported(mistake)


@pytest.mark.parametrize("digits", ["9" * 5000, "1_2345" * 1000])
def test_an_int_of_thousands_of_digits_is_reported_at_its_place(digits: str) -> None:
    """Python reads no such int, tells the line alone, and advises on its own settings."""
    text = f"E4 = E0\n  # {'9' * 50}\nE5 = step.Repeat(n={digits}).apply(E0)\nreturn E4"
    first, *_, hint = general_verifier().verify(text).render(text, "p").split("\n")
    assert first == "p:3:20: syntax: an int of too many digits"
    assert hint == "  hint: ints are sizes, counts and indices, below 2**63"


@pytest.mark.parametrize("text", [samples.FIGURE_14, samples.FIGURE_17, samples.FIGURE_18], ids=["14", "17", "18"])
def test_the_papers_programs_pass_with_their_tasks(text: str) -> None:
    """Figures 14, 17 and 18 are accepted as they stand and implement their tasks."""
    verdict = verify(loads_task(text))
    assert verdict.passed, verdict.render(text)


@pytest.mark.parametrize("number", range(3))
def test_the_papers_guardian_examples_are_judged_as_the_paper_says(number: int) -> None:
    """Figure 20: what goes into the guardian breaks the affine rule alone or nothing, what comes out passes."""
    verifier = Verifier(loads_task(samples.FIGURE_20_TASKS[number]))
    before, after = samples.FIGURE_20[number]
    assert verifier.verify(before).stage == (None if before == after else "affine")
    assert verifier.verify(after).passed, verifier.verify(after).render(after)


WRAPPED = {
    "as it is": ("{}", 0, 0),
    "CRLF": ("{}", 0, 0),
    "a fence": ("```python\n{}```", 1, 0),
    "a fence without language and with blank lines": ("\n```\n{}\n```\n\n", 2, 0),
    "indented by spaces": ("{}", 0, 4),
    "indented by tabs": ("{}", 0, 1),
    "def body": ("def body(E0, E1, E2, E3):\n{}", 1, 2),
    "def body in a fence": ("```py\ndef body(E0, E1, E2, E3):\n{}```", 2, 4),
    "a comment further left": ("# what follows squares\n{}", 1, 3),
    "a byte order mark": ("\ufeff# text\n{}", 1, 0),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_lines_and_columns_count_in_the_text_as_given(name: str) -> None:
    """Fences, `def body`, indentation and line ends are taken off, and places still fit the text."""
    around, lines, columns = WRAPPED[name]
    indent = "\t" if "tabs" in name else " " * columns

    def wrapped(program: str) -> str:
        text = around.format("".join(f"{indent}{line}\n" for line in program.splitlines()))
        return text.replace("\n", "\r\n") if name == "CRLF" else text

    assert not check(wrapped(PROGRAM))[1]
    (finding,) = check(wrapped(BROKEN))[1]
    assert finding.span is not None
    assert (finding.span.line, finding.span.column, finding.span.end_column) == (1 + lines, 18 + columns, 26 + columns)
    _, source, carets, *_ = finding.render(wrapped(BROKEN)).split("\n")
    assert source == "  E4 = step.Map(fn=fn_sqare).apply(E0)"
    assert carets == "  " + " " * 17 + "^" * 8


@pytest.mark.parametrize(
    "program",
    ["# größer → ∑ 漢字 🎉\n{}", "s = '漢字🎉'; {}", "a = E0  # ∑\n\n{}", '"""→\n漢"""\n{}', "# a\u2028b\x0cc\x85\n{}"],
)
def test_columns_count_characters(program: str) -> None:
    """Characters outside of ASCII, in comments and strings, move no column and no line."""
    text = program.format(BROKEN)
    place = text.split("fn_sqare")[0].split("\n")
    finding = next(d for d in check(text)[1] if d.code == "name")
    assert finding.span is not None and (finding.span.line, finding.span.column) == (len(place), len(place[-1]) + 1)
    _, source, carets, *_ = finding.render(text).split("\n")
    assert source.strip() == text.split("\n")[len(place) - 1].strip()
    assert carets.index("^") == source.index("fn_sqare")


def test_a_space_that_does_not_break_is_a_space() -> None:
    """Text copied from a web page reads as typed, and columns still count its characters."""
    assert not check(PROGRAM.replace(" ", "\u00a0"))[1]
    (finding,) = check(BROKEN.replace(" ", "\u00a0"))[1]
    assert finding.span is not None and finding.span.column == 18


HOSTILE = {
    "nothing": "",
    "blank lines": "\n \n\t\n",
    "a comment": "# nothing",
    "a docstring": '"""nothing"""',
    "an empty fence": "```\n```",
    "half a fence": "```python\nreturn E0",
    "a null byte": "return E0\0",
    "a lone surrogate": "return E0 # \ud800",
    "a lone surrogate in a name": "E\udfff = E0",
    "a line of 100,000 characters": "return " + "E0, " * 25_000,
    "a line at the limit": "return " + "E0, " * 4_900,
    "deep brackets": "return " + "(" * 3000 + "E0" + ")" * 3000,
    "deep lists": "return " + "[" * 150 + "E0" + "]" * 150,
    "open brackets": "x = " + "[" * 5000,
    "closed brackets": "x = " + ")" * 5000,
    "many signs": "x = " + "-" * 15_000 + "1",
    "a long sum": "x = " + "+".join(["1"] * 9_000),
    "many attributes": "x = E0" + ".a" * 9_000,
    "many calls": "x = E0" + "()" * 9_000,
    "deep indentation": "\n".join(" " * i + "for x in [E0]:" for i in range(100)),
    "a loop in a loop": "\n".join(" " * i + "for x in range(9):" for i in range(30)) + "\n" + " " * 30 + "y = x",
    "a long range": "for i in range(1000000000000):\n    x = E0",
    "a range of nothing": "for i in range(0, -1000000000000):\n    x = E0",
    "a power": "x = 10**1000000",
    "a product": "x = 9\nfor i in range(100):\n    x = x * x",
    "a difference": "x = 9\nfor i in range(10000):\n    x = x - 9223372036854775807",
    "a long int": "x = " + "9" * 5000,
    "a long hex int": "return step.Promote(b=0x" + "f" * 6000 + ").apply(E0)",
    "a product of dims": "d = M\nfor i in range(60):\n    d = d * d\nreturn step.Repeat(n=d).apply(E0)",
    "a sum of dims": "d = M\nfor i in range(9000):\n    d = d + N\nreturn step.Repeat(n=d).apply(E0)",
    "a product of sums": "d = M\nfor i in range(60):\n    d = d * (M + N - K - 2)\nreturn step.Repeat(n=d).apply(E0)",
    "a square of sums": "d = M+N+K+D+E\nfor i in range(60):\n    d = d * d\nreturn step.Repeat(n=d).apply(E0)",
    "quotients of sums": "d = M\nfor i in range(60):\n    d = d // (M + N - K - 2) * (D - 3*M)\nreturn d",
    "nested shapes": "for i in range(30):\n    E0 = step.Repeat(n=M+N-K-2).apply(E0)\n"
    "    E0 = step.Flatten(L=[1]).apply(E0)\nreturn E0",
    "many dims": "for i in range(900):\n    E0 = step.Promote(b=0).apply(E0)\nreturn step.Map(fn=fn_square).apply(E0)",
    "huge repeats": "for i in range(900):\n    E0 = step.Repeat(n=9223372036854775807).apply(E0)\nreturn E0",
    "huge flattened repeats": "for i in range(400):\n    E0 = step.Repeat(n=9223372036854775807).apply(E0)\n"
    "    E0 = step.Flatten(L=[1]).apply(E0)\nreturn E0",
    "too many primitives": "for i in range(5000):\n    E0 = step.Identity().apply(E0)\nreturn E0",
    "too many parts": "return step.Partition(N=100000).apply((E3, E2))",
    "far too many parts": "return step.Partition(N=M*9223372036854775807).apply((E3, E2))",
    "many uses": "a = [step.Identity().apply(E0) for i in range(900)]\nreturn a",
    "lists in lists": "a = [E0, E0]\nfor i in range(3000):\n    a = [a, a]\nreturn step.Zip().apply(a)",
    "lists in lists as a dim": "a = [E0, E0]\nfor i in range(300):\n    a = [a, a]\nreturn step.Repeat(n=a).apply(E0)",
    "lists in lists as dims": "a = [1, 1]\nfor i in range(300):\n    a = [a, a]\nreturn step.Flatten(L=a).apply(E0)",
    "many dim indices": "return step.Flatten(L=list(range(9000))).apply(E0)",
    "lists that double": "a = [E0]\nfor i in range(60):\n    a = [*a, *a]\nreturn a",
    "lists that double by zip": "a = [E0]\nfor i in range(60):\n    a = [x for y in zip(a, a) for x in y]\nreturn a",
    "slices of slices": "a = list(range(9000))\nfor i in range(9000):\n    b = a[:]\nreturn E0",
    "copies of lists": "a = list(range(9000))\nfor i in range(9000):\n    b = list(a)\nreturn E0",
    "stars of lists": "a = list(range(9000))\nfor i in range(9000):\n    b, *c = a\nreturn E0",
    "a list in itself": "a = []\na.append(a)\nreturn a",
    "a list in itself, applied": "a = [E0]\na.append(a)\nreturn step.Zip().apply(a)",
    "a list that grows in its loop": "a = [E0]\nfor x in a:\n    a.append(x)\nreturn a",
    "dunder names": "return E0.__class__.__mro__[1].__subclasses__()",
    "an import": "__import__('os').system('touch /tmp/never')",
    "a builtin": "exec('1')\neval('1')\nopen('/tmp/never', 'w')\ngetattr(step, 'Map')",
    "step bound again": "step = E0\nreturn step.Map(fn=fn_square).apply(E0)",
    "step as a value": "x = step\nreturn x.Map(fn=fn_square).apply(E0)",
    "names of step": "return step.__dict__, step.primitives, step.load_task('x')",
    "a class of the runtime": "return step.Stream('x', step.Scalar('float'), 0, [1])",
    "builtins bound again": "list = [E0]\nzip = list\nreturn list(zip)",
    "keywords": "None = 1\nTrue = 2\nreturn False",
    "stars everywhere": "return step.Zip(*[], **{}).apply(*[E0], **E1)",
    "every statement": "global x\nnonlocal y\nassert E0\nraise E0\ndel E0\nasync def f(): await E0\nreturn E0",
    "match": "match E0:\n    case 1:\n        return E0",
    "yield": "x = yield E0\nreturn [(yield)]",
    "a million-fold string": "x = 'a' * 1000000000",
    "bytes and floats": "x = b'1'\ny = 1.5\nz = 1e999\nw = 1j\nreturn ...",
    "a type comment": "x = E0 # type: ignore[\nreturn x",
    "line continuation at the end": "return E0 \\",
    "a stray backslash": "x \\ y",
    "an unterminated string": 'x = """never',
    "mixed indentation": "for x in [E0]:\n\ty = x\n        z = x\nreturn z",
    "a form feed": "\x0creturn E0",
    "an ideographic space": "return\u3000E0",
    "a zero-width space": "return\u200b E0",
    "quotes of a word processor": "x = “E0”",
    "a walrus": "return (E9 := E0)",
    "a name of 15,000 characters": "return " + "a" * 15_000,
    "an attribute of 15,000 characters": "return E0." + "a" * 15_000,
    "a string of 15,000 characters": "return '" + "a" * 15_000 + "'",
    "a function's name shadowed": "fn_square = E0\nreturn step.Map(fn=fn_square).apply(E0)",
    "functions as streams": "return fn_square, experts",
    "functions in lists as configuration": "return step.Map(fn=experts).apply(E0)",
    "async comprehension": "return [x async for x in E0]",
    "body twice": "def body(E0, E1, E2, E3):\n    return E0\ndef body(E0, E1, E2, E3):\n    return E0",
    "body with one parameter twice": "def body(E0, E0, E1, E2):\n    return E0",
    "body without parameters": "def body():\n    return E0",
    "a decorated body": "@step\ndef body(E0, E1, E2, E3):\n    return E0",
    "an async body": "async def body(E0, E1, E2, E3):\n    return E0",
    "an empty body": "def body(E0, E1, E2, E3):\n    '''nothing'''",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_crashes_hangs_or_passes(name: str) -> None:
    """Hostile text ends in diagnostics of bounded length, each of which renders, within seconds."""
    text = HOSTILE[name]
    general_verifier()
    start = time.process_time()
    verdict = general_verifier().verify(text)
    rendered = verdict.render(text)
    assert time.process_time() - start < 5
    assert not verdict.passed and verdict.stage and rendered
    assert all(len(d.message) < 300 and len(d.hint or "") < 600 for d in verdict.diagnostics)


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    """Random text is judged without an exception, at places that the text has."""
    _assert_places(text)


PIECES = [
    "step",
    ".Map",
    "(fn=fn_square)",
    ".apply",
    "(E0)",
    "E4",
    "return",
    "[",
    "]",
    ":",
    "zip",
    "(",
    ")",
    "fn_sum",
    "*",
    "1",
    "-",
    "N",
    "//",
    "```",
    "é",
    "#",
    '"',
    "lambda",
    ",",
    "=",
    "for",
    "in",
    "x",
    "def",
    "body(E0):",
    "append",
    "+=",
    "{",
    "}",
    ".",
    "@",
    "E0",
    "None",
]

SPACES = [" ", "\n", "\t", "    ", "\\\n"]


@given(st.lists(st.sampled_from([*PIECES, *SPACES]), max_size=25).map("".join))
def test_any_shuffle_of_the_languages_own_pieces_is_judged(text: str) -> None:
    """Text that looks like the language is judged without an exception, at places that the text has."""
    _assert_places(text)


def _assert_places(text: str) -> None:
    _, found = parse(text, general_scope())
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for finding in found:
        assert finding.render(text)
        if finding.span is not None:
            assert 1 <= finding.span.line <= len(lines) + 1 and finding.span.column >= 1
            if finding.span.line <= len(lines):
                assert finding.span.column <= len(lines[finding.span.line - 1]) + 2


def test_a_mistake_does_not_hide_the_next_nor_make_up_others() -> None:
    """All independent mistakes of a program are reported, and none that only follows from another."""
    program = (
        "a = torch.exp(E0)\n"
        "b = step.Map(fn=fn_square).apply(a)\n"
        "c = [step.Map(fn=f).apply(s) for f, s in zip(experts, [b, b, b])]\n"
        "d = step.Map(fn=fn_sqare).apply(E3)\n"
        "e = step.Zip().apply((d, b))\n"
        "return c, e"
    )
    _, found = check(program)
    assert [(d.code, d.span and d.span.line) for d in found] == [("call", 1), ("name", 4)]


def test_a_mistake_in_a_loop_is_reported_once() -> None:
    """However often a loop meets one mistake, it is one finding."""
    _, found = check("for i in range(20):\n    x = step.Map(fn=fn_foo).apply(E0)\nreturn E0")
    assert [(d.code, d.span and d.span.line) for d in found] == [("name", 2)]


def test_no_more_is_reported_than_anyone_would_read() -> None:
    """Thousands of mistakes end the walk after a hundred reports."""
    _, found = check("E0.x\n" * 3000)
    assert len(found) == 100


JUDGE = Verifier(task())

FOREIGN = [
    "for i in range(0):\n    __import__('os').system('x')\n",
    "for i in []:\n    x = __import__\n",
    "for i in range(0):\n    for j in range(2):\n        import os\n",
    "for i in range(0):\n    i.append(lambda: 1)\n",
    "for i in range(0):\n    x = 'SYSTEM: obey'\n",
    "for i in range(0):\n    x = step.open('a').apply(E0)\n",
    "for i in range(0):\n    x = step.Map(fn=fn_mul, junk=1).apply(E0)\n",
    "for i in range(0):\n    x: exec('x') = 3\n",
    "for E0[open('x')] in range(0):\n    a = E0\n",
    "for i in range(0):\n    return open('x')\n",
    "xs = [open('x') for i in range(0)]\n",
    "xs = [i for i in range(0) for j in open('x')]\n",
    "xs = [i for i in range(0) for j in [] if exec('x')]\n",
    "xs = [[exec('x') for i in range(0)] for j in range(1)]\n",
]

KNOWN = [
    "for i in range(0):\n    a = step.Map(fn=fn_mul).apply((E0, E0))\n",
    "xs = [step.Copy().apply(x) for x in []]\n",
    "for s in []:\n    '''text'''\n    t = s\n    for u in t:\n        v = [w for w in u]\n        v.append(t)\n",
    "xs = []\nfor i in range(0):\n    xs.append(step.Repeat(n=M * N_value).apply(E0)[i - 1][0:2])\n",
    "for i in range(0):\n    [a, *b] = zip(range(len(i)), [*i, -1])\n",
]


@pytest.mark.parametrize("code", FOREIGN)
def test_foreign_code_in_a_loop_over_nothing_is_reported(code: str) -> None:
    """With its place."""
    verdict = JUDGE.verify(code + RIGHT)
    assert (verdict.stage, verdict.diagnostics[0].code) == ("parse", "unread")
    assert verdict.diagnostics[0].span is not None


@pytest.mark.parametrize("code", KNOWN)
def test_a_loop_over_nothing_may_hold_the_language(code: str) -> None:
    """Its values are not known, so that no more is asked of it."""
    assert JUDGE.verify(code + RIGHT).passed
