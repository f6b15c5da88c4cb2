"""A compiled program comes with the programs it could have been, best first."""

from __future__ import annotations

from optimizers import SinglePass
from tests.support.scripted_program import learn, some, tasks


def demonstrated(candidate):
    return [demo.task for demo in candidate["program"].solve.demos]


def test_the_candidates_are_the_strategy_s_and_the_result_is_the_first():
    """Without a validation set none was measured."""
    compiled = learn("abx", some)
    assert [(demonstrated(each), each["score"], each["label"]) for each in compiled.candidate_programs] == [
        (["a"], None, "H_2"),
        (["a", "b"], None, "HM_2"),
    ]
    assert [demo.task for demo in compiled.solve.demos] == ["a"]
    assert all(each["program"] is not compiled for each in compiled.candidate_programs)


def test_a_validation_set_gives_them_their_scores_and_their_order():
    """As percentages, like those of DSPy's optimizers."""

    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return len(demos) if task == "v" else some(task, demos, visit)

    compiled = learn("abx", script, compiling={"valset": tasks("v")})
    assert [(demonstrated(each), each["score"]) for each in compiled.candidate_programs] == [
        (["a", "b"], 50.0),
        (["a"], 25.0),
    ]
    assert [demo.task for demo in compiled.solve.demos] == ["a", "b"]


def test_a_program_that_was_only_sampled_is_its_own_candidate():
    """Its score is the mean success rate."""
    (candidate,) = learn("abx", some, optimizer=SinglePass).candidate_programs
    assert (candidate["score"], candidate["label"], demonstrated(candidate)) == (100 * (1 / 4 + 2 / 4) / 3, "none", [])


def test_a_compiled_student_does_not_hand_on_its_candidates():
    """Those of an earlier optimizer are about other programs."""
    first = learn("ab", some)
    again = learn("ab", some, student=first)
    assert "candidate_programs" not in vars(again.candidate_programs[0]["program"])
    assert again.experience is not first.experience and first.candidate_programs
