"""The agent holds these:

- no request shows the task's own solution;
- whatever the LM answers, the agent gives a text, and the verifier the verdict;
- DSPy's own settings stay as they are.

The guardian holds these:

- each mode asks an LM when it says, and at no other time;
- a program that needs no correction stays as it is written, and an answer without a program changes nothing.
"""

import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import Attempt, SinglePass
from optimizers.ledger import estimate_tokens
from pipeline import load_program
from pipeline.agent.agent import TOOLS, Agent, ProgramVerifier, ToolContext, demonstrated_predictors, tool_context
from pipeline.agent.compiled import read_program, save_program
from pipeline.agent.domain import closeness, code_length, language_domain, structures
from pipeline.base.errors import UsageError
from pipeline.base.settings import GuardianMode, ProposerKind
from pipeline.lms.embedded import engine_named
from pipeline.verification.metric import Metric, Reward
from signatures import GuardianPrompt, ProposerPrompt, load_prompt
from step_runtime import load_task, verify
from step_runtime.base.errors import STAGES, TaskError
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import SolvedTask, Task
from tests.support.paths import PROJECT
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, WRONG, asks_guardian, task
from tests.support.scripted_lm import Engine, scripted
from tests.support.scripted_runs import tasks


def ask(proposal: str, mode: GuardianMode, guardian: str = RIGHT) -> tuple[dspy.Prediction, Engine]:
    """An agent's answer where the LM proposes and corrects by script."""
    lm, engine = scripted(lambda request: guardian if asks_guardian(request) else proposal)
    with dspy.context(lm=lm):
        return Agent(mode, prompts={"proposer": "Propose.", "guardian": "Guard."})(task=task()), engine


@pytest.mark.parametrize("answer", ["", "I can't do that."])
def test_an_answer_that_is_not_a_program_is_handed_on(answer: str) -> None:
    """It fails at the stage `parse`, with its text kept."""
    prediction, engine = ask(answer, "gated")
    assert prediction.impl == answer
    assert verify(task(), prediction.impl).stage == "parse"
    assert len(engine.requests) == 1


@pytest.mark.parametrize("mode", ["paper", "gated"])
def test_no_request_shows_the_solution(mode: GuardianMode) -> None:
    """Neither to the proposer nor to the guardian."""
    lm, engine = scripted(lambda request: RIGHT if asks_guardian(request) else REUSING)
    with dspy.context(lm=lm):
        Agent(mode)(task=task(impl="return E0  # the oracle's"))
    assert len(engine.texts) == 2
    assert not any("oracle" in text for text in engine.texts)


def test_the_agent_speaks_yaml_whatever_dspy_is_set_to() -> None:
    """And leaves the setting as it was."""
    adapter = dspy.JSONAdapter()
    lm, engine = scripted(RIGHT)
    with dspy.context(lm=lm, adapter=adapter):
        Agent("none")(task=task())
        assert dspy.settings.adapter is adapter
    assert "[[ ## task ## ]]\ninputs:\n" in engine.texts[0]


def test_what_is_not_a_task_is_refused() -> None:
    """A path is the likely mistake."""
    with pytest.raises(TypeError, match=r"expected a Task, such as step_runtime.load_task gives, found 'task.yaml'"):
        Agent("none")(task="task.yaml")


def test_a_broken_base_prompt_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A command that meets one ends with it, exit code 2."""
    monkeypatch.setattr("pipeline.agent.agent.PROMPTS", tmp_path)
    with pytest.raises(UsageError, match=r"proposer\.yaml: cannot read the prompt"):
        Agent()


def test_the_short_prompt_is_the_same_language_in_at_most_3000_tokens() -> None:
    """As estimated; its examples pass."""
    full, short = (
        load_prompt(ProposerPrompt, path / "proposer.yaml")
        for path in (PROJECT / "data/prompts", PROJECT / "data/prompts/short")
    )
    guardian = load_prompt(GuardianPrompt, PROJECT / "data/prompts/short/guardian.yaml")
    for of_full, of_short in ((full.primitives, short.primitives), (full.patterns, short.patterns)):
        assert [each.name for each in of_full] == [each.name for each in of_short]
    agent = Agent("paper", prompt="short", refine=1)
    sizes = [estimate_tokens(predictor.signature.instructions) for predictor in agent.predictors()]
    assert len(sizes) == 3 and max(sizes) <= 3000
    examples = [example for _, example in short.located_examples()]
    assert len(examples) == 3 and all(verify(example, example.impl).passed for example in examples)
    for _, example in guardian.located_examples():
        assert verify(example, example.input_impl).stage == "affine" and verify(example, example.output_impl).passed


@pytest.mark.parametrize(
    ("mode", "proposal", "impl", "requests"),
    [
        ("none", REUSING, REUSING, 1),
        ("none", RIGHT, RIGHT, 1),
        ("paper", REUSING, RIGHT, 2),
        ("paper", RIGHT, RIGHT, 2),
        ("paper", BROKEN, RIGHT, 2),
        ("gated", REUSING, RIGHT, 2),
        ("gated", RIGHT, RIGHT, 1),
        ("gated", BROKEN, BROKEN, 1),
        ("gated", ILL_TYPED, ILL_TYPED, 1),
        ("compiler", RIGHT, RIGHT, 1),
        ("compiler", BROKEN, BROKEN, 1),
    ],
)
def test_each_mode_asks_when_it_says(mode: GuardianMode, proposal: str, impl: str, requests: int) -> None:
    """`none` and `compiler` never ask a guardian, `gated` only about a violation, `paper` always."""
    prediction, engine = ask(proposal, mode)
    assert (prediction.impl, prediction.proposal, len(engine.requests)) == (impl, proposal, requests)


def test_the_compiler_inserts_what_is_missing() -> None:
    """Without a request, and so that the program passes."""
    prediction, engine = ask(REUSING, "compiler")
    assert "step.Copy()" in prediction.impl
    assert verify(task(), prediction.impl).passed
    assert len(engine.requests) == 1


def test_a_clean_proposal_stays_as_it_is_written() -> None:
    """Comments and layout are kept where nothing is to be fixed."""
    commented = RIGHT.replace("\n", "  # a comment\n\n", 1)
    assert ask(commented, "gated")[0].impl == commented
    assert ask(commented, "compiler")[0].impl == commented


@pytest.mark.parametrize("answer", ["No change is needed.", "", "[[ ## output_impl ## ]]\n"])
def test_a_guardian_that_writes_no_program_changes_nothing(answer: str) -> None:
    """The proposal stands, and is judged as it is."""
    assert ask(REUSING, "gated", guardian=answer)[0].impl == REUSING


def test_the_guardian_sees_task_and_proposal() -> None:
    """Its request is the task, then the program."""
    _, engine = ask(REUSING, "gated")
    asked = engine.requests[-1].messages[-1].text or ""
    assert asked.startswith("[[ ## task ## ]]\ninputs:\n")
    assert f"[[ ## input_impl ## ]]\n{REUSING}\n" in asked
    assert "`[[ ## output_impl ## ]]`" in asked


@pytest.mark.parametrize(("temperature", "asked"), [(0.0, 1), (0.7, 2)])
def test_samples_share_a_guardian_s_answer_at_temperature_0_alone(temperature: float, asked: int) -> None:
    """There equal proposals make equal requests, which the response cache answers; elsewhere answers are draws."""
    engine = Engine(lambda request: RIGHT if asks_guardian(request) else REUSING)
    agent = Agent("gated", prompts={"proposer": "Propose.", "guardian": "Guard."})
    model = f"scripted-{uuid.uuid4()}"
    for seed in (1, 2):
        own = {"rollout_id": seed} if temperature else {}
        lm = dspy.LM(model, engine=engine, cache=True, temperature=temperature, seed=seed, **own)
        with dspy.context(lm=lm):
            assert agent(task=task()).impl == RIGHT
    assert sum(map(asks_guardian, engine.requests)) == asked
    assert len(engine.requests) == 2 + asked


def test_a_compiler_s_answer_keeps_no_reuse_without_the_ir_either() -> None:
    """Every mode works on bare prompts."""
    for mode in ("gated", "paper", "compiler"):
        lm, engine = scripted(lambda request: RIGHT if asks_guardian(request) else REUSING)
        with dspy.context(lm=lm):
            impl = Agent(mode, ir=False)(task=task()).impl  # type: ignore[arg-type]
        assert verify(task(), impl).passed
        assert all("def make_case(" in (request.messages[-1].text or "") for request in engine.requests)


# The kinds of proposer hold these:
#
# - `cot` asks for reasoning first, keeps it, and shows it in demonstrations;
# - `react` has tools that tell types and shapes of a program for the task, and run programs on solved examples;
# - no tool runs anything on the task's own reference, even where the task itself is among the examples;
# - whatever the LM does with its turns, there is an answer;
# - saved programs propose as before.


def turn(tool: str, **arguments: str) -> str:
    """One turn of an LM that calls tools."""
    return (
        f"[[ ## next_thought ## ]]\nLet me see.\n\n[[ ## next_tool_name ## ]]\n{tool}\n\n"
        f"[[ ## next_tool_args ## ]]\n{json.dumps(arguments)}\n\n[[ ## completed ## ]]"
    )


ANSWER = f"[[ ## reasoning ## ]]\nIt is checked.\n\n[[ ## impl ## ]]\n{RIGHT}\n\n[[ ## completed ## ]]"


def react(
    *turns: str, demos: list[dspy.Example] | None = None, tasks: Sequence[Task] = ()
) -> tuple[dspy.Prediction, Engine]:
    """An agent's answer where the LM takes these turns."""
    left = list(turns)
    lm, engine = scripted(lambda request: left.pop(0) if left else ANSWER)
    agent = Agent("none", proposer="react", prompts={"proposer": "Propose."})
    agent.proposer.predict.extract.predict.demos = demos or []
    agent.verifier.tasks = [task("square/0"), *tasks]
    with dspy.context(lm=lm):
        return agent(task=task()), engine


def test_cot_keeps_its_reasoning() -> None:
    """It is asked for first, and part of the answer."""
    lm, engine = scripted(f"[[ ## reasoning ## ]]\nA product of two copies.\n\n[[ ## impl ## ]]\n{RIGHT}")
    with dspy.context(lm=lm):
        prediction = Agent("none", proposer="cot", prompts={"proposer": "Propose."})(task=task())
    assert (prediction.reasoning, prediction.impl) == ("A product of two copies.", RIGHT)
    asked = engine.texts[0]
    assert asked.index("[[ ## reasoning ## ]]") < asked.index("[[ ## impl ## ]]")


def test_react_calls_tools_and_answers() -> None:
    """Each turn shows what the tools said before; the turns are kept."""
    prediction, engine = react(turn("check", program=REUSING), turn("list_examples"), turn("finish"))
    assert (prediction.impl, prediction.reasoning) == (RIGHT, "It is checked.")
    assert len(engine.requests) == 4
    assert "affine" in engine.texts[1]
    assert "There is none." in engine.texts[2]
    assert prediction.turns["tool_name_0"] == "check"


@pytest.mark.parametrize("text", [RIGHT, f"I need no tools:\n```python\n{RIGHT}\n```"])
def test_a_program_instead_of_a_turn_is_an_answer(text: str) -> None:
    """Tools are an offer."""
    assert react(text)[0].impl == RIGHT


def test_a_tool_that_is_none_ends_no_attempt() -> None:
    """The LM is told, or answers; nothing raises."""
    assert react(turn("check", text=RIGHT), turn("finish"))[0].impl == RIGHT


def test_examples_are_demonstrations_without_the_task_itself() -> None:
    """The task may be among the demonstrations of a compiled program; its reference stays out of reach."""
    other = task("other/0").model_copy(update={"sizes": {"M": [3, 4]}}).named("other/0")
    demos = [dspy.Example(augmented=True, task=shown, impl=RIGHT) for shown in (task("square/0"), other)]
    _, engine = react(
        turn("list_examples"),
        turn("verify_on_example", name="demonstration 2", program=WRONG),
        turn("finish"),
        demos=demos,
        tasks=[other],
    )
    observed = engine.texts[1].partition("observation_0")[2]
    assert "demonstration 2" in observed and "demonstration 1" not in observed
    assert "output S0 differs from the reference" in engine.texts[2]


def test_the_base_prompt_s_examples_can_be_run() -> None:
    """They are read out of the instructions, so a saved program has them too."""
    names = dict(Agent("none", proposer="react").proposer._examples(task()))
    assert {"Map 1", "Accum 1", "Partition with Merge 1"} <= names.keys()
    assert all(example.program for example in names.values())


@pytest.mark.parametrize("kind", ["predict", "cot", "react"])
@pytest.mark.parametrize("ir", [True, False])
def test_a_saved_program_asks_what_it_asked(tmp_path: Path, kind: ProposerKind, ir: bool) -> None:
    """Request for request; a demonstration keeps its reasoning."""
    agent = Agent("none", proposer=kind, ir=ir, prompts={"proposer": "Propose."})
    demo = {"task": task("square/1"), "impl": RIGHT} | ({"reasoning": "Well."} if kind != "predict" else {})
    dict(agent.named_predictors())[demonstrated_predictors(agent)[0]].demos = [dspy.Example(augmented=True, **demo)]
    save_program(agent, tmp_path / "p.json")
    asked = []
    for program in (agent, load_program(tmp_path / "p.json"), agent.deepcopy()):
        left = [turn("finish")] if kind == "react" else []
        lm, engine = scripted(lambda request, left=left: left.pop(0) if left else ANSWER)  # type: ignore[misc]
        with dspy.context(lm=lm):
            assert program(task=task()).impl == RIGHT
        asked.append(engine.texts)
    assert asked[0] == asked[1] == asked[2]
    assert ("def make_case(" in asked[0][0]) is not ir


class Refusing:
    """A metric that must not be asked about one task."""

    def __init__(self, forbidden: Task) -> None:
        self.forbidden = forbidden
        self.asked: list[str] = []

    def __call__(self, example: Any, prediction: Any) -> Any:
        assert example.task.without_impl() != self.forbidden
        self.asked.append(example.task.name)
        return Reward(score=0.0, stage="value", feedback="output S0 differs; first at [0]: 1, expected 2")


def test_the_tools_tell_types_and_run_examples_alone() -> None:
    """What a program computes is reported for examples; for the task only what its text shows."""
    metric = Refusing(task())
    example = task("other/0").model_copy(update={"sizes": {"M": [3, 4]}})
    solved = SolvedTask(example, RIGHT)
    check, list_examples, show_example, verify_on_example = TOOLS
    with tool_context(ToolContext(task(), {"other/0": solved}, ProgramVerifier(metric), frozenset({"other/0"}))):
        assert "E1, E2  fp32 [M, N]  Copy of E0" in check(RIGHT)
        assert "No rule is broken" in check(WRONG)
        assert "fn_mul takes [fp32, fp32]" in check(ILL_TYPED)
        assert list_examples() == "other/0"
        assert RIGHT in show_example("other/0")
        assert "the examples are: other/0" in show_example("square/0")
        assert verify_on_example("other/0", WRONG) == "output S0 differs; first at [0]"
        assert "No example is called 'square/0'" in verify_on_example("square/0", RIGHT)
    assert metric.asked == ["other/0"]


# Repairs hold these:
#
# - a refused answer is repaired until it passes, K times at most, or until a repair brings nothing new;
# - the LM reads its program, the task and what the verifier found, and no number of the reference;
# - an attempt passes if its last program does; each program before is on record, with why it was refused;
# - without `refine`, nothing is different.


OTHER = "E1, E2 = step.Copy().apply(E0)\nreturn E2"


def asks_refiner(request: lm15.Request) -> bool:
    return "[[ ## diagnostics ## ]]" in (request.messages[-1].text or "")


def answering(*programs: str) -> Callable[[lm15.Request], str]:
    """The first to the proposer, the others to the refiner in turn."""
    left = list(programs[1:])
    return lambda request: left.pop(0) if asks_refiner(request) else programs[0]


def refined(
    refine: int, *programs: str, guardian: GuardianMode = "none", metric: Metric | None = None
) -> tuple[dspy.Prediction, Engine]:
    lm, engine = scripted(answering(*programs))
    agent = Agent(guardian, refine=refine, prompts={"proposer": "Propose.", "guardian": "", "refiner": "Repair."})
    agent.verifier.metric = metric
    with dspy.context(lm=lm):
        return agent(task=task()), engine


@pytest.mark.parametrize(
    ("refine", "programs", "impl", "stages"),
    [
        (2, [RIGHT], RIGHT, []),
        (1, [ILL_TYPED, RIGHT], RIGHT, ["type"]),
        (3, [BROKEN, REUSING, WRONG, RIGHT], RIGHT, ["parse", "affine", "value"]),
        (2, [BROKEN, REUSING, WRONG, RIGHT], WRONG, ["parse", "affine"]),
        (5, [WRONG, OTHER, WRONG], WRONG, ["value", "value"]),
        (5, [ILL_TYPED, "I can't."], ILL_TYPED, ["type"]),
    ],
)
def test_a_chain_ends_where_it_passes_or_stands_still(
    refine: int, programs: list[str], impl: str, stages: list[str]
) -> None:
    """The last program is the answer; a program that was refused already, or none, ends the chain."""
    prediction, engine = refined(refine, *programs)
    assert prediction.impl == impl
    assert prediction.proposal == programs[0]
    assert [repair["stage"] for repair in prediction.repairs] == stages
    assert [repair["impl"] for repair in prediction.repairs] == programs[: len(stages)]
    assert len(engine.requests) == 1 + len(stages)


def test_the_lm_reads_task_program_and_diagnostics() -> None:
    """The diagnostics are those on record, and quote its own lines."""
    prediction, engine = refined(1, ILL_TYPED, RIGHT)
    asked = engine.requests[-1].messages[-1].text or ""
    (repair,) = prediction.repairs
    assert asked.startswith("[[ ## task ## ]]\ninputs:\n")
    assert f"[[ ## input_impl ## ]]\n{ILL_TYPED}\n" in asked
    assert f"[[ ## diagnostics ## ]]\n{repair['feedback']}\n" in asked
    assert "E1 = step.Map(fn=fn_mul).apply(E0)\n  " in repair["feedback"]


def test_no_number_of_the_reference_is_reported() -> None:
    """Which output, where, and in how many places, is."""
    verdict = verify(task(), WRONG)
    whole = verdict.render(WRONG, "square/0")
    prediction, engine = refined(1, WRONG, RIGHT)
    feedback = prediction.repairs[0]["feedback"]
    assert "output S0 differs from the reference in" in feedback
    assert "; first at [0, 0]\n" in feedback
    assert "expected" in whole
    numbers = whole.partition("first at [0, 0]: ")[2].partition("\n")[0].split(", expected ")
    assert len(numbers) == 2
    assert not any(number in text for number in numbers for text in engine.texts)


def test_a_repair_passes_the_guardian() -> None:
    """What reuses a stream is fixed there, as any proposal."""
    prediction, _ = refined(1, ILL_TYPED, REUSING, guardian="compiler")
    assert verify(task(), prediction.impl).passed


def test_a_task_that_fails_is_left_to_who_judges() -> None:
    """It is no failure of the LM's."""

    class Failing(Metric):
        def __call__(self, *_: object) -> object:  # type: ignore[override]
            raise TaskError("task.yaml: the reference failed")

    prediction, engine = refined(2, WRONG, RIGHT, metric=Failing())
    assert (prediction.impl, prediction.repairs, len(engine.requests)) == (WRONG, [], 1)


def test_attempts_record_repairs_and_their_tokens() -> None:
    """Once an attempt, whatever it took: pass@k counts answers, not programs."""
    lm, _ = scripted(lambda request: RIGHT if asks_refiner(request) else WRONG)
    metric = Metric()
    agent = Agent("none", refine=2, prompts={"proposer": "Propose.", "refiner": "Repair."})
    agent.verifier.metric = metric
    example = dspy.Example(task=task()).with_inputs("task")
    with dspy.context(lm=lm):
        optimizer = SinglePass(metric, 3, temperatures=(0.7,), threads=1)
        experience = optimizer.compile(agent, trainset=[example]).experience
    assert len(experience.attempts) == 3
    assert experience.iterations[0].pass_at_1 == 1.0
    for attempt in experience.attempts:
        assert attempt.passed
        assert {name: count.calls for name, count in attempt.tokens.items()} == {
            "proposer.predict": 1,
            "refiner.predict": 1,
        }
        (repair,) = json.loads(json.dumps(attempt.to_dict()))["outputs"]["repairs"]
        assert (repair["impl"], repair["stage"]) == (WRONG, "value")


def test_without_refine_there_is_no_refiner() -> None:
    """Predictors and predictions are as they were."""
    agent = Agent("none")
    assert [name for name, _ in agent.named_predictors()] == ["proposer.predict"]
    prediction, _ = refined(0, WRONG)
    assert list(prediction.keys()) == ["impl", "proposal"]


def test_the_refiner_begins_as_the_proposer_does() -> None:
    """To the letter, so that providers' caches serve both."""
    agent = Agent("none", refine=1)
    proposer, refiner = (predictor.signature.instructions for predictor in agent.predictors())
    assert refiner.startswith(f"{proposer}\n\n")
    assert "`affine`" in refiner[len(proposer) :]


def test_a_saved_program_repairs_as_before(tmp_path: Path) -> None:
    """K and the refiner's instructions are in the file."""
    agent = Agent("none", refine=2, prompts={"proposer": "Propose.", "guardian": "", "refiner": "Repair well."})
    save_program(agent, tmp_path / "p.json")
    assert read_program(tmp_path / "p.json").refine == 2
    lm, engine = scripted(answering(ILL_TYPED, RIGHT))
    assert load_program(tmp_path / "p.json", lm=lm)(task=task()).impl == RIGHT
    assert "Repair well." in engine.texts[1]


def test_the_embedded_lm_solves_more_by_repairs() -> None:
    """On a task of the benchmark that it seldom solves at once."""
    shown = load_task(PROJECT / "data" / "tasks" / "gemm" / "1.yaml")
    engine = engine_named("embedded/4")
    metric, passed = Metric(), []
    for refine in (0, 3):
        agent = Agent("none", refine=refine)
        agent.verifier.metric = metric
        example = dspy.Example(task=shown).with_inputs("task")
        with dspy.context(lm=dspy.LM(engine.model, engine=engine, cache=False)):
            optimizer = SinglePass(metric, 16, temperatures=(1.0,), threads=1)
            experience = optimizer.compile(agent, trainset=[example]).experience
        passed.append(sum(attempt.passed for attempt in experience.attempts))
    engine.close()
    assert passed[1] > passed[0], passed


# Answers are grouped by what they compute as text, and the shorter one is preferred.


def test_names_and_comments_make_no_other_answer() -> None:
    """Another function does."""
    key = language_domain(None).grouping_key
    one = key({"impl": "E1 = step.Map(fn=fn_a).apply(E0)\nreturn E1"})
    assert one == key({"impl": "# why\nx = step.Map(fn=fn_a).apply(E0)\nreturn x"})
    assert one != key({"impl": "E1 = step.Map(fn=fn_b).apply(E0)\nreturn E1"})


@pytest.mark.parametrize(
    ("text", "length"),
    [("return E0", (1, 9)), ("  a = E0  # an alias\n\n# alone\nreturn a\n", (2, 14)), ("", (0, 0)), ("# x", (0, 0))],
)
def test_a_length_counts_lines_of_code_then_their_characters(text: str, length: tuple[int, int]) -> None:
    """Comments, empty lines and indentation are free."""
    assert code_length(text) == length and language_domain(None).length({"impl": text}) == length


def test_tasks_are_known_by_name_and_shown_with_their_programs() -> None:
    """Not with the turns that it took to write them."""
    domain = language_domain(None)
    assert domain.task_key(dspy.Example(task=tasks()[0])) == "easy/0"
    assert not domain.traced_demos


TASK = loads_task("""
global: open("executed", "w")
inputs:
- {name: E0, dtype: "Buffer(fp32, [D])", dims: [2*M, N], data_gen: torch.rand}
fns:
- {name: Sum, apply: "return [torch.sum(input[0]).exp()]", input_dtype: "Buffer(fp32, [D])", output_dtype: fp32,
   func_name: fn_sum}
outputs:
- {name: S0, dtype: fp32, dims: [2*M, N], data_transform: ["E0.softmax(-1) @ E0"]}
""")


OF_TASK = {
    "in Buffer(1) [2]", "out fp32 [2]", "dim 2*M", "fn Buffer(1) -> fp32", "fn sum", "fn exp", "fn index",
    "ref softmax", "ref matmul",
}  # fmt: skip


def test_a_task_is_its_types_signatures_and_operators() -> None:
    assert structures({"task": TASK}, None) == OF_TASK


def test_a_program_adds_its_primitives_edges_and_paths() -> None:
    """With the streams on the edges; names do not matter."""
    for names in ("E1 E2 E3", "a b c"):
        one, two, three = names.split()
        text = f"{one}, {two} = step.Copy().apply(E0)\n{three} = step.Map(fn=fn_sum).apply({one})\n"
        text += f"last = step.Promote(b=1).apply({three})\nreturn last"
        assert structures({"task": TASK}, {"impl": text}) - OF_TASK == {
            "Copy", "Map", "Promote", "Copy > Map on Buffer(1) [2]", "Map > Promote on fp32 [2]",
            "Copy > Map > Promote",
        }  # fmt: skip


@pytest.mark.parametrize("text", ["", "no program", "return (", "x" * 100_000, "\ud800"])
def test_an_unreadable_program_adds_nothing(text: str) -> None:
    assert structures({"task": TASK}, {"impl": text}) == OF_TASK


def test_an_answer_is_the_closer_the_later_it_fails() -> None:
    """A pass is closest, an answer that no adapter could read as far as one that does not parse."""

    def attempt(passed: bool = False, **feedback: str) -> Attempt:
        return Attempt(0, 0, "t", 0.4, 0, 0, score=float(passed), passed=passed, feedback=feedback)

    found = [closeness(attempt(stage=stage)) for stage in STAGES] + [closeness(attempt(True))]
    assert found == sorted(set(found)) and (found[0], found[-1]) == (0, 1)
    assert closeness(attempt()) == closeness(attempt(stage="internal")) == 0
