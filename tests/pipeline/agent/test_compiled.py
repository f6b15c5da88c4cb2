"""A compiled program's file holds these:

- what is loaded behaves as what was saved: the same requests, whatever LM answers them;
- it is JSON that a person can read, with a line of text on a line of the file;
- loading runs no code of the file's, and refuses what is wrong with the place and what was expected.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from optimizers import Entry, TokenCount
from optimizers.strategies import DemoPool
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import read_program, save_program
from pipeline.base.errors import UsageError
from pipeline.base.settings import GuardianMode
from pipeline.record.models import load_program
from signatures import digest
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, asks_guardian, task
from tests.support.scripted_lm import scripted

PROMPT = "desc: |\n  Propose.\n\nsyntax: |\n  Well."
Change = Callable[[dict[str, Any]], None]


def compiled(mode: GuardianMode = "gated") -> Agent:
    agent = Agent(mode, prompts={"proposer": PROMPT, "guardian": "desc: Guard."})
    agent.proposer.predict.demos = [dspy.Example(augmented=True, task=task("square/1", impl="return E0"), impl=RIGHT)]
    return agent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "compiled.json"
    save_program(compiled(), path, {"run_id": "abc"})
    return path


def with_pool(*names: str) -> Agent:
    """An agent that shows each task those that suit it."""
    agent = compiled("none")
    entries = [Entry(name, {"task": task(name)}, {"impl": RIGHT}, n, 2, 0.7, 0, 0.7, 0, TokenCount())
               for n, name in enumerate(names)]  # fmt: skip
    agent.pool = DemoPool(tuple(entries), 400)
    return agent


def changed(path: Path, change: Change) -> Path:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def demonstration(content: dict[str, Any]) -> Any:
    return content["predictors"]["proposer.predict"]["demonstrations"][0]


@pytest.mark.parametrize("mode", ["gated", "paper", "compiler", "none"])
def test_a_loaded_program_asks_what_the_saved_one_asked(tmp_path: Path, mode: GuardianMode) -> None:
    """Request for request, and so it gives the same answers."""
    agent = compiled(mode)
    save_program(agent, tmp_path / "p.json")
    asked = []
    for program in (agent, load_program(tmp_path / "p.json")):
        lm, engine = scripted(lambda request: RIGHT if asks_guardian(request) else REUSING)
        with dspy.context(lm=lm):
            prediction = program(task=task())
        asked.append((engine.texts, prediction.toDict()))
    assert asked[0] == asked[1]
    assert "Propose." in asked[0][0][0]


def test_a_pool_is_saved_and_chosen_from(tmp_path: Path) -> None:
    """No task is shown a solution of its own name, nor what others were shown."""
    save_program(with_pool("square/1", "square/2"), tmp_path / "p.json")
    loaded = load_program(tmp_path / "p.json")
    assert loaded.pool is not None and loaded.pool.tokens == 400
    assert [entry.rate for entry in loaded.pool.entries] == [0, 0.5], "a teacher's solution is no success of the LM's"
    for program in (with_pool("square/1", "square/2"), loaded):
        lm, engine = scripted(RIGHT)
        with dspy.context(lm=lm):
            assert [program(task=task(name)).impl for name in ("square/0", "square/1", "square/0")] == [RIGHT] * 3
        assert [len(request.messages) // 2 for request in engine.requests] == [2, 1, 2]
    assert list(loaded.shown([task("square/1")]).reasons["square/1"]) == ["square/2"]
    with pytest.raises(ValueError, match="no pool"):
        compiled().shown([task()])


def test_the_file_reads_well(path: Path) -> None:
    """Programs and tasks stand in it line by line, and above them what it is and where it comes from."""
    lines = [line.strip().rstrip(",") for line in path.read_text(encoding="utf-8").split("\n")]
    assert [json.dumps(line) in lines for line in RIGHT.split("\n")] == [True] * 3
    assert '"dtype: fp32"' not in lines
    assert lines[1:4] == ['"format": "adaptive-step"', '"version": 1', '"lm": null']
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["metadata"] == {"run_id": "abc"}
    assert content["predictors"]["proposer.predict"]["prompt"] == digest(PROMPT)
    assert demonstration(content)["name"] == "square/1"
    assert "return E0" not in path.read_text(encoding="utf-8")


def test_saving_replaces_a_file_as_a_whole(path: Path) -> None:
    """Nothing else is left in the folder."""
    save_program(compiled("none"), path)
    assert read_program(path).guardian == "none"
    assert list(path.parent.iterdir()) == [path]


def test_the_lm_s_name_is_kept(tmp_path: Path) -> None:
    """Whether DSPy or the program holds it."""
    lm, _ = scripted(RIGHT)
    with dspy.context(lm=lm):
        save_program(compiled(), tmp_path / "p.json")
    assert read_program(tmp_path / "p.json").lm == "scripted"
    agent = compiled()
    agent.set_lm(lm)
    save_program(agent, tmp_path / "q.json")
    assert read_program(tmp_path / "q.json").lm == "scripted"


def test_any_lm_answers(path: Path) -> None:
    """The one given, before the one that DSPy is configured to."""
    given, engine = scripted(RIGHT)
    other, unasked = scripted(ILL_TYPED)
    with dspy.context(lm=other):
        assert load_program(path, lm=given)(task=task()).impl == RIGHT
    assert load_program(path, lm=given)(task=task()).impl == RIGHT
    assert (len(engine.requests), len(unasked.requests)) == (2, 0)


def test_without_an_lm_it_is_the_one_it_was_compiled_with(path: Path) -> None:
    """It is made when the program is loaded, and not asked before the program is called."""
    changed(path, lambda content: content.update(lm="openai/gpt-4o"))
    assert load_program(path).proposer.predict.lm.model == "openai/gpt-4o"


def test_a_demonstration_kept_as_json_is_saved_as_a_task(tmp_path: Path) -> None:
    """Experience that was read from a file makes the same program."""
    agent = compiled()
    agent.proposer.predict.demos = [{"task": task().model_dump(mode="json"), "impl": RIGHT}]
    save_program(agent, tmp_path / "p.json")
    assert load_program(tmp_path / "p.json").proposer.predict.demos[0].task == task()


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda c: c.update(format="dspy"), 'expected a compiled program, with "format": "adaptive-step"'),
        (lambda c: c.update(version=2), "the file is of version 2; this code reads version 1"),
        (lambda c: c.update(version="1"), "the file is of version '1'; this code reads version 1"),
        (lambda c: c.update(guardian="strict"), "guardian: expected 'gated', 'paper', 'compiler' or 'none', found"),
        (lambda c: c.update(pickle="…"), "pickle: unknown key"),
        (lambda c: c.pop("predictors"), "predictors: this key is missing"),
        (lambda c: c["predictors"].pop("guardian.predict"), "expected proposer.predict and guardian.predict, found"),
        (lambda c: demonstration(c)["fields"].pop("impl"), "demonstrations[0]: fields: expected impl, found none"),
        (lambda c: demonstration(c).update(task=["inputs: 3"]), "demonstrations[0].task:1: inputs: "),
        (
            lambda c: demonstration(c)["fields"].update(zzz=1),
            "[0]: fields: expected impl, found impl, zzz",
        ),
        (lambda c: demonstration(c)["fields"].update(impl=1), "[0].fields.impl: expected a list of lines, found 1"),
        (lambda c: demonstration(c)["fields"].update(impl=[BROKEN]), "demonstrations[0].fields.impl:1:"),
        (lambda c: demonstration(c)["fields"].update(impl=ILL_TYPED.split("\n")), "fn_mul"),
        (lambda c: demonstration(c)["fields"].update(impl=["__import__('os')"]), "demonstrations[0].fields.impl:1:"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(path: Path, change: Change, reported: str) -> None:
    """A file of another kind or version, a missing part, a demonstration that can teach nothing good."""
    with pytest.raises(UsageError) as caught:
        load_program(changed(path, change))
    assert str(caught.value).startswith(f"{path}: ")
    assert reported in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\x80\x04]", b"[" * 100_000, b"[]", b"{"])
def test_a_file_that_is_not_a_program_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A file that is not there, a pickle, JSON of something else or cut off."""
    path = tmp_path / "p.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"p\.json: (cannot read|expected)"):
        load_program(path)


@pytest.mark.parametrize(
    ("code", "impl"),
    [("fns = make()", "E1 = step.Map(fn=fns[0]).apply((E0, E0))\nreturn E1"), ("ctx[E] = int(3.0)", ILL_TYPED)],
)
def test_no_code_of_the_file_s_is_run(path: Path, code: str, impl: str) -> None:
    """What only running the task's code could check in a demonstration stays unchecked."""

    def add_code(content: dict[str, Any]) -> None:
        demo = demonstration(content)
        demo["task"] = ["global: |", "  raise SystemExit", f"  {code}", *demo["task"]]
        demo["fields"]["impl"] = impl.split("\n")

    assert load_program(changed(path, add_code)).proposer.predict.demos[0].impl == impl
