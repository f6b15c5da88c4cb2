"""What a person sees holds these.

- One row an iteration, under a head that names its columns, and the figures of the record.
- Bars only on a terminal, and the terminal is given back, whatever ends the run.
- Elsewhere plain lines, no control characters, not more than one every few seconds.
"""

import io

import pytest
from rich.console import Console

from optimizers import Budget, Experience
from pipeline.cli import progress
from tests.support.scripted_runs import Engine, learn


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine: no line is due but where a test says so."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 600.0)


def shown(terminal: bool, engine: Engine | None = None, budget: Budget | None = None) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=100, legacy_windows=False)
    with progress.ProgressDisplay(2, console) as display:
        learn([display], engine, budget)
    return output.getvalue()


def test_a_row_per_iteration_under_a_head() -> None:
    """Iteration, tasks solved, new ones, pass@1, pass@n, tokens, seconds; columns in line."""
    lines = shown(terminal=False).splitlines()
    assert lines[0].split() == ["iteration", "solved", "new", "pass@1", "pass@2", "tokens", "in", "out", "seconds"]
    cells = [line.split() for line in lines[1:]]
    assert [row[:6] for row in cells] == [
        ["1:", "None", "1/3", "+1", "33.3%", "33.3%"],
        ["2:", "H_1", "2/3", "+1", "66.7%", "66.7%"],
        ["3:", "H_2", "2/3", "+0", "66.7%", "66.7%"],
        ["4:", "HM_2", "2/3", "+0", "66.7%", "66.7%"],
    ]
    assert cells[0][6:8] == ["1,200", "120"]
    assert len({len(line) for line in lines}) == 1


def test_plain_lines_tell_the_state_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is a file, a line counts samples, tasks with a right answer, and tasks by how far they are."""
    assert "samples," not in shown(terminal=False)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    text = shown(terminal=False)
    last = next(line for line in text.splitlines() if line.startswith("  1: None: 12 of 12 samples, 1 of 3 tasks"))
    assert "; 3 tasks sampled, 0 being sampled, 0 waiting; slowest " in last
    assert "\x1b" not in text
    assert "\r" not in text


def test_bars_come_and_go_on_a_terminal() -> None:
    """Bars over samples and tasks while sampling; rows stay, and the cursor is shown again."""
    text = shown(terminal=True)
    assert "2: H_1  samples" in text
    assert "2: H_1  tasks with a right answer" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")


def test_the_terminal_is_given_back_when_a_run_breaks() -> None:
    """An exception in the middle of an iteration leaves no bar behind."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100, legacy_windows=False)
    display = progress.ProgressDisplay(2, console)

    class Broken(progress.BaseObserver):
        def sample_done(self, attempt: object) -> None:
            raise RuntimeError("the disk is full")

    def run() -> None:
        with display:
            learn([display, Broken()])

    with pytest.raises(RuntimeError):
        run()
    assert output.getvalue().rfind("\x1b[?25h") > output.getvalue().rfind("\x1b[?25l")


def test_an_iteration_cut_short_says_so() -> None:
    """A budget that ends a run within an iteration shows in its row."""
    text = shown(terminal=False, budget=Budget(tokens=200))
    assert text.splitlines()[1].endswith("  incomplete")


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(demos=1), "--max-demos is 1"),
        (Budget(demos=9, context=1), "the context window is full"),
        (Budget(demo_tokens=1), "the context window is full, or the 1 --demo-tokens"),
    ],
)
def test_demonstrations_beyond_a_limit_are_named_with_it(budget: Budget, why: str) -> None:
    """Which limit it is decides what a user may raise."""
    assert f"omitted, as {why}: " in shown(terminal=False, budget=budget)


def test_a_budget_in_dollars_that_can_not_be_kept_says_so() -> None:
    """An LM without a known price spends nothing that could be counted."""
    unpriced = "answers without a known price, not counted towards --max-usd: 12"
    assert unpriced in shown(terminal=False, budget=Budget(usd=1.0, iterations=1))
    assert "price" not in shown(terminal=False, budget=Budget(iterations=1))


@pytest.fixture(scope="module")
def experience() -> Experience:
    return learn([])
