"""What a run teaches the typed proposer: a grammar, refused programs, and how many programs repeat functions."""

import copy

from optimizers import Attempt, Entry, TokenCount
from pipeline.agent.agent import LineLessons
from pipeline.languages import registry
from tests.support.benchmark_tasks import oracle, task_named

STEP = registry.find(None)


def entry(name: str) -> Entry:
    known = oracle(name)
    return Entry(name, {"task": known.task}, {"impl": known.program}, 1, 1, 0.0, 0, 0.0, 0, TokenCount())


def test_solved_tasks_move_the_bits_of_lines_and_the_share_of_repeats() -> None:
    """Of the first lines of a norm the right ones, after tasks without a norm; copies of an agent learn together."""
    lessons, task = LineLessons(STEP), task_named("norm/2")
    shared, lines = copy.deepcopy(lessons), STEP.next_lines(task, "", 1)
    assert lessons.bits is not None
    before = lessons.bits(task, "", lines)
    shared.learn({name: entry(name) for name in ("attn/2", "etoe/2", "gemm/0")}, ())
    after, right = lessons.bits(task, "", lines), lines.index("E1 = step.Map(fn=fn_square).apply(E0)")
    share = [2 ** -bits[right] / sum(2**-each for each in bits) for bits in (before, after)]
    assert share[1] > 2 * share[0] > 0
    assert shared.again == 1 / 5
    shared.learn({name: entry(name) for name in ("norm/1", "gemm/0")}, ())
    assert shared.again == 2 / 4


def test_programs_that_failed_are_known_whatever_their_names() -> None:
    lessons, known = LineLessons(STEP), oracle("gemm/1")
    wrong = Attempt(0, 0, "gemm/1", 0.7, 0, 1, {"impl": known.program}, score=0.0)
    lessons.learn({}, [wrong])
    text = STEP.as_lines(known.task, known.program)
    assert lessons.refused(known.task, text.replace("E2", "other"))
    assert not lessons.refused(known.task, "return E0\n") and not lessons.refused(task_named("gemm/0"), text)
