"""A run's curve: what was spent and solved after each iteration, an interrupted one included."""

import pytest

from optimizers import Budget
from pipeline.record import store
from pipeline.record.curve import Control, control_of, solved_curve
from pipeline.record.recorder import recorded
from tests.support.scripted_runs import learn, tasks

pytestmark = pytest.mark.usefixtures("unrendered", "store_folder")


def test_a_curve_has_each_iteration_and_the_end() -> None:
    """The scripted run solves a task in each of its first two iterations, and is ended within the third."""
    with recorded("scripted", {}, tasks()) as recorder:
        experience = learn([recorder], budget=Budget(tokens=12 * 110 + 8 * 310 + 1))
    client, _ = store.open_store()
    points = solved_curve(client, client.get_run(recorder.run_id))
    done = [result for result in experience.iterations if result.complete]
    assert [point["solved"] for point in points[: len(done) + 1]] == [0, *(it.solved_total for it in done)]
    assert experience.stopped == "budget" and len(done) < len(experience.iterations)
    assert points[-1] == {
        "samples": len(experience.attempts),
        "tokens": sum(count.total for count in experience.tokens.values()),
        "solved": len(experience.solved),
    }


SAME = {"task_set_digest": "d", "lm": "l'm", "temperatures": "1.0"}


def test_the_control_of_a_run_is_alike_and_shows_nothing() -> None:
    """The same seed counts more than a later start; other tasks, another LM and runs that learn are no controls."""
    runs = {}
    for name, params in {
        "own": {"optimizer": "adaptive", "seed": 1},
        "same seed": {"optimizer": "none", "seed": 1},
        "later": {"optimizer": "adaptive", "selection": "resample", "seed": 2},
        "learns": {"optimizer": "adaptive", "selection": "adaptive", "seed": 1},
        "other LM": {"optimizer": "none", "seed": 1, "lm": "other"},
        "other tasks": {"optimizer": "none", "seed": 1, "task_set_digest": "e"},
    }.items():
        with recorded(name, SAME | params, tasks()) as recorder:
            learn([recorder], budget=Budget(iterations=1))
        runs[name] = recorder.run_id
    client, experiment = store.open_store()
    control = control_of(client, experiment, runs["own"])
    assert control and control.run_id == runs["same seed"]
    assert control_of(client, experiment, runs["other LM"]) is None


def test_a_control_says_nothing_about_more_samples_than_it_took() -> None:
    points = [{"samples": 0, "solved": 0}, {"samples": 10, "solved": 3}, {"samples": 20, "solved": 4}]
    control = Control("r", points)
    assert [control.solved_at(samples) for samples in (5, 10, 19, 20, 21)] == [0, 3, 3, 4, None]
