"""After a run, the LM's history and DSPy's hold its last requests, and only these."""

from __future__ import annotations

import io

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY

from optimizers import AdaptiveFewShot
from optimizers.recent_history import KEPT
from tests.support.scripted_program import ScriptedEngine, Solver, is_right, some, tasks


def run(lm: dspy.LM, samples: int) -> None:
    with dspy.context(lm=lm):
        AdaptiveFewShot(is_right, samples, temperatures=(0.7,)).compile(Solver(), trainset=tasks("ax"))


def test_the_last_requests_are_in_the_histories_and_others_stay():
    """Whatever number of samples was made; what the user asked before and in between is not touched."""
    lm = dspy.LM("scripted", engine=ScriptedEngine(some, 4), cache=False)
    with dspy.context(lm=lm):
        Solver()(task="before")
    before = list(lm.history)
    run(lm, 80)
    assert len(lm.history) == 1 + KEPT and lm.history[0] is before[0]
    assert lm.history[-1] is GLOBAL_HISTORY[-1] and "x" in str(lm.history[-1]["messages"][-1])
    with dspy.context(lm=lm):
        Solver()(task="between")
    run(lm, 80)
    asked = [str(entry["messages"][-1]["content"]).split()[5] for entry in lm.history]
    assert asked[:2] == ["before", "between"] and len(asked) == 2 + KEPT
    shown = io.StringIO()
    lm.inspect_history(1, file=shown)
    assert "[[ ## answer ## ]]" in shown.getvalue()


def test_a_user_who_switched_histories_off_gets_none():
    lm, known = dspy.LM("scripted", engine=ScriptedEngine(some, 4), cache=False), len(GLOBAL_HISTORY)
    for setting in ({"disable_history": True}, {"max_history_size": 0}):
        with dspy.context(**setting):
            run(lm, 4)
    assert lm.history == [] and len(GLOBAL_HISTORY) == known
    with dspy.context(max_history_size=3):
        run(lm, 4)
    assert len(lm.history) == 3
