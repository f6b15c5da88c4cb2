"""Prompts are as long as the requests that they become, and a program with fewer demonstrations is a copy."""

import dspy

from optimizers.context_window import Window
from optimizers.prompt_sizes import demo_count, longest_prompt, longest_task, trimmed, with_fewer_demos
from tests.support.scripted_program import Solver, tasks

SHOWN = [dspy.Example(task=name * 300, answer=f"right {name}", augmented=True) for name in "abc"]


def shown() -> Solver:
    program = Solver()
    program.solve.demos = list(SHOWN)
    return program


def test_sizes_grow_with_demonstrations_and_with_the_task() -> None:
    sizes = [longest_prompt(shown(), tasks("x"), count) for count in range(4)]
    assert sizes == sorted(sizes) and sizes[1] - sizes[0] > 300 and sizes[3] == longest_prompt(shown(), tasks("x"))
    assert longest_task(shown(), tasks(["x", "xxxx", "xx"])) == 1
    assert longest_prompt(shown(), tasks(["x", "xxxx"])) == longest_prompt(shown(), tasks(["xxxx"]))


def test_a_program_with_fewer_demonstrations_is_a_copy() -> None:
    program = shown()
    twin = with_fewer_demos(program, 1)
    assert (demo_count(program), demo_count(twin)) == (3, 1) and list(twin.predictors()[0].demos) == SHOWN[:1]


def test_as_many_are_kept_as_fit_and_are_allowed() -> None:
    program = shown()
    assert trimmed(program, tasks("x"), Window()) is program
    room = Window((longest_prompt(program, tasks("x"), 2) + 2) // 3)
    assert demo_count(trimmed(program, tasks("x"), room)) == 2
    assert demo_count(trimmed(program, tasks("x"), Window(), 1)) == 1
    assert demo_count(trimmed(program, tasks("x"), Window(1))) == 0
