"""A run's curve: what was spent and solved after each iteration, an interrupted one included."""

import pytest

from optimizers import Budget
from pipeline.record import store
from pipeline.record.curve import solved_curve
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
