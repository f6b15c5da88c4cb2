"""Records, experiences and sweeps of others hold these; each attack has a control beside it:

- an experience with junk, wrong programs or impossible figures is one message that names the file and the place;
- a tag that names the process of a run can't steer a terminal, whoever wrote it;
- a sweep of very many runs is refused before any is made;
- alternatives are never written, nor removed, through a link that somebody planted.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optimizers import Attempt, Entry, Experience, TokenCount
from pipeline.actions.run_sweep import MOST, read_spec
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import parse_program, save_program
from pipeline.base.config import RunConfig
from pipeline.base.errors import RunLive, UsageError
from pipeline.record import attempts, store
from pipeline.record.request import Request, parse_experience
from tests.pipeline.conftest import empty_store, store_folder
from tests.support.oracles import oracle, task

__all__ = ["empty_store", "store_folder"]

NAME = "norm/2"


def learned() -> dict[str, Any]:
    fields = (NAME, {"task": task(NAME)}, {"impl": oracle(NAME)}, 3, 8, 0.7, 0, 0.7, 1, TokenCount())
    content: dict[str, Any] = json.loads(json.dumps(Experience((NAME,), (Entry(*fields),)).to_dict()))
    return content


def entry(**changed: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["entries"][0].update(changed)


JUNK: dict[str, Callable[[dict[str, Any]], object]] = {
    "no samples": entry(samples=0),
    "more successes than samples": entry(successes=9),
    "no successes": entry(successes=0),
    "endless samples": entry(samples=10**30),
    "a temperature of NaN": entry(temperature=float("nan")),
    "an endless temperature": entry(answer_temperature=float("inf")),
    "a temperature below zero": entry(temperature=-1),
    "a temperature beyond all": entry(answer_temperature=1e308),
    "an iteration before the first": entry(iteration=-1),
    "an endless iteration": entry(answer_iteration=10**30),
    "a sample before the first": entry(answer_sample=-1),
    "tokens that are owed": entry(tokens={"prompt": -1}),
    "endless tokens": entry(tokens={"prompt": 10**300}),
    "a cost that is owed": entry(cost=-1.0),
    "a cost of NaN": entry(cost=float("nan")),
    "more pooled successes than samples": entry(pooled_successes=9, pooled_samples=8),
    "pooled successes of no samples": entry(pooled_successes=0, pooled_samples=0),
    "half of the pooled counts": entry(pooled_successes=3),
    "no answer": entry(outputs={}),
    "an answer of numbers": entry(outputs={"impl": [1]}),
    "an answer that is code": entry(outputs={"impl": "import os\nos.mkdir('executed')"}),
    "an answer that is ill-typed": entry(outputs={"impl": "return step.Zip().apply(E0)"}),
    "an answer of hex digits": entry(outputs={"impl": "return 0x" + "f" * 4000}),
    "no task": entry(inputs={}),
    "a task of words": entry(inputs={"task": "x"}),
    "a task with junk": entry(inputs={"task": {"inputs": 3}}),
    "a lone surrogate": entry(task_key="\ud800"),
    "a name of numbers": entry(task_key=3),
    "calls of words": entry(calls="x"),
    "entries of words": lambda content: content.update(entries="x"),
    "no entries": lambda content: content.pop("entries"),
    "another format": lambda content: content.update(format="1"),
}
TEXTS = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "deep nesting": b"[" * 200_000,
    "many digits": b'{"format": ' + b"9" * 5000 + b"}",
    "no UTF-8": b"\xff\xfe",
    "a key that occurs twice": b'{"entries": [], "entries": []}',
}


@pytest.mark.parametrize("attack", [*JUNK, *TEXTS])
def test_an_experience_with_junk_is_one_message(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of it is executed."""
    monkeypatch.chdir(tmp_path)
    content = learned()
    assert parse_experience(json.dumps(content), "e.json").entries[0].rate == 3 / 8
    if attack in JUNK:
        JUNK[attack](content)
    text = json.dumps(content).encode() if attack in JUNK else TEXTS[attack]
    with pytest.raises(UsageError, match=r"^e\.json: expected the experience of a run in JSON: "):
        parse_experience(text, "e.json")
    assert not [*tmp_path.iterdir()]


PROGRAMS: dict[str, Callable[[str], str]] = {
    "repairs without end": lambda text: text.replace('"refine": 0', '"refine": 1000000'),
    "a key that occurs twice": lambda text: text.replace('"refine": 0', '"refine": 0, "refine": 0'),
    "numbers beyond all": lambda text: text.replace('"refine": 0', f'"refine": {"9" * 300}'),
    "numbers below zero": lambda text: text.replace('"refine": 0', '"refine": -1'),
}


@pytest.mark.parametrize("attack", PROGRAMS)
def test_a_compiled_program_asks_for_what_can_be(attack: str, tmp_path: Path) -> None:
    """Each repair is a request that its user pays for; the control is read."""
    save_program(Agent("none", prompts={"proposer": "Propose."}), path := tmp_path / "p.json")
    text = path.read_text()
    control = text.replace('"refine": 0', '"refine": 3')
    assert parse_program(control, "p.json").refine == 3
    assert PROGRAMS[attack](text) != text
    with pytest.raises(UsageError, match=r"^p\.json: "):
        parse_program(PROGRAMS[attack](text), "p.json")


REQUESTS: dict[str, Any] = {
    "deep nesting": "[" * 100_000,
    "a list": [],
    "a number": 3,
    "options of words": {"options": "x"},
    "an option of another type": {"options": {"samples": "many"}},
    "an option that is none": {"options": {"output": "/etc/passwd"}},
    "tasks of numbers": {"tasks": 5},
    "a task that is none": {"tasks": [["a", "{"]]},
    "a task that nests deep": {"tasks": [["a", "[ " * 5000]]},
    "a task without a name": {"tasks": [["inputs: []"]]},
    "an experience of words": {"experience": "x"},
    "an experience of lists": {"experience": [1]},
}


@pytest.mark.parametrize("attack", REQUESTS)
def test_a_doctored_request_is_an_error_of_its_own(attack: str) -> None:
    """Which the command reports as one message; the control is read."""
    good = Request(RunConfig(optimizer="adaptive"), "x", [task(NAME)])
    assert [one.name for one in Request.from_json(good.to_json()).tasks] == [NAME]
    found = REQUESTS[attack]
    content = json.loads(good.to_json()) | found if isinstance(found, dict) else found
    with pytest.raises(ValueError, match=r"\w") as error:
        Request.from_json(content if isinstance(content, str) else json.dumps(content))
    assert not isinstance(error.value, UnicodeError)


@pytest.mark.parametrize(("text", "message"), [(b"[" * 200_000, "recursion"), (b"{}\n" * 2**20, "more than")])
def test_hostile_lines_of_attempts_are_one_message(
    text: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deep ones, and so many in a small file that they would fill a disk; see below for what is read."""
    line = json.dumps({"task": 0, "temperature": 1.0, "sample": 0, "score": None}).encode()
    monkeypatch.setattr(attempts, "LARGEST", 2**20)
    folder = tmp_path / "iterations" / "01"
    folder.mkdir(parents=True)
    (folder / "attempts.jsonl.gz").write_bytes(gzip.compress(text.replace(b"{}", line)))
    with pytest.raises(UsageError, match=rf"attempts\.jsonl\.gz: cannot read the attempts: .*{message}"):
        [*attempts.read_folder(tmp_path)]


def test_a_compressed_line_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of attempts that unpacks to more than memory holds is one message; the control is read."""
    monkeypatch.setattr(attempts, "LONGEST_LINE", 2**20)
    folder = tmp_path / "iterations" / "01"
    folder.mkdir(parents=True)
    fields = {"task": 0, "temperature": 1.0, "sample": 0, "score": None}
    long = json.dumps(fields).encode() + b" " * 2**21 + b"\n"
    for name, data in {"attempts.jsonl.gz": gzip.compress(long), "attempts.jsonl": long}.items():
        (folder / name).write_bytes(data)
        with pytest.raises(UsageError, match=r"attempts\.jsonl\.gz: cannot read the attempts: .*a line of more than"):
            [*attempts.read_folder(tmp_path)]
        (folder / "attempts.jsonl.gz").unlink(missing_ok=True)
    for path in folder.iterdir():
        path.unlink()
    one = Attempt(0, 0, "t", 1.0, 0, 0, {"impl": "x"}, score=0.0)
    (folder / "attempts.jsonl.gz").write_bytes(gzip.compress(json.dumps(one.to_dict()).encode() + b"\n"))
    assert [attempt for _, attempt in attempts.read_folder(tmp_path)] == [one]


@pytest.mark.parametrize("words", ["\x1b[2J", "\u202e", "a\nrun finished", "x" * 4000])
def test_who_records_a_run_is_data(words: str, store_folder: Path) -> None:
    """Anybody who can write to the store can name the process, which the refusal of a second one shows."""
    client, experiment = store.open_store()
    run_id = client.create_run(experiment, tags={store.WRITER_TAG: words}).info.run_id
    with pytest.raises(RunLive) as caught:
        store.claim(client, run_id, force=False)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


SWEEPS = {
    "a long list": f"seed: [{', '.join(map(str, range(30_000)))}]",
    "many lists": "seed: [1, 2, 3]\n  samples: " + "\n  granularity: ".join([str(list(range(1, 100)))] * 2),
    "aliases": "seed: &a [1, 2]\n  samples: [*a, *a, *a]",
    "a tag": "seed: [!!python/object/apply:os.mkdir ['executed']]",
    "an alias in its own anchor": "seed: &a [*a]",
    "deep nesting": f"seed: [{'[' * 500}]",
    "booleans": "seed: [true, {a: b}]",
}


@pytest.mark.parametrize("attack", SWEEPS)
def test_a_sweep_is_bounded(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its runs are listed, with file and line."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sweep.yaml"
    path.write_text("base: {optimizer: none, lm: embedded}\nsweep: {seed: [1, 2]}")
    assert len(read_spec(path).combinations) == 2
    path.write_text(f"base: {{optimizer: none, lm: embedded}}\nsweep:\n  {SWEEPS[attack]}\n")
    with pytest.raises(UsageError, match=r"sweep\.yaml(:\d+)*: "):
        read_spec(path)
    assert [*tmp_path.iterdir()] == [path]
    assert MOST < 30_000
