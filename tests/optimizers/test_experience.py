"""The record: immutable, whole in JSON, and enough to compute every figure from."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest
from pydantic import BaseModel

from optimizers import Experience, pass_at_k
from optimizers.jsonable import to_jsonable
from tests.support.scripted_program import Heard, learn, tasks


class Point(BaseModel):
    x: int


class Holder(BaseModel):
    held: Any


def some(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 2}.get(task, 3 if demos else 0)


def test_json_round_trip(tmp_path):
    record = learn("abx", some, compiling={"valset": tasks("v")}).experience
    record.dump(tmp_path / "experience.json")
    loaded = Experience.load(tmp_path / "experience.json")
    assert loaded.to_dict() == json.loads(json.dumps(record.to_dict()))
    for part in ("entries", "iterations", "attempts", "validation", "tokens", "demos"):
        assert getattr(loaded, part) == getattr(record, part)


def test_codecs_bring_back_the_types_of_inputs_and_answers():
    record = learn("a", some).experience
    data = record.to_dict(encode=lambda fields: {name: f"<{value}>" for name, value in fields.items()})
    assert data["entries"][0]["inputs"] == {"task": "<a>"}
    loaded = Experience.from_dict(data, decode=lambda fields: {n: v.strip("<>") for n, v in fields.items()})
    assert loaded.entries == record.entries


def test_attempts_can_be_left_out():
    record = learn("a", some).experience
    assert record.attempts and record.to_dict(attempts=False)["attempts"] == []


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="format 99"):
        Experience.from_dict({"format": 99})


def test_every_figure_follows_from_the_attempts():
    record = learn("abx", some, n=8, temperatures=(0.4, 1.0)).experience
    figures: dict[str, tuple[int, int]] = {}
    prompt = 0
    for result in record.iterations:
        drawn = [attempt for attempt in record.attempts if attempt.iteration == result.index]
        for key in result.tasks:
            rates = []
            for temperature in record.settings["temperatures"]:
                mine = [a for a in drawn if (a.task_key, a.temperature) == (key, temperature)]
                own = [a.passed for a in mine if a.scored]
                rates.append((sum(own), len(own)))
            if any(c for c, _ in rates):
                figures[key] = max(rates, key=lambda rate: rate[0] / rate[1])
        assert set(result.solved) <= set(figures) and result.solved_total == len(figures)
        for k, value in ((1, result.pass_at_1), (8, result.pass_at_8)):
            assert value == pytest.approx(sum(pass_at_k(n, c, k) for c, n in figures.values()) / 3)
        prompt += sum(count.prompt for a in drawn for count in a.tokens.values())
        assert result.tokens_prompt_per_task == pytest.approx(prompt / 3)
    for entry in record.entries:
        assert figures[entry.task_key] == (entry.successes, entry.samples)
        (answer,) = [
            a
            for a in record.attempts
            if (a.iteration, a.task_key, a.temperature, a.sample)
            == (entry.iteration, entry.task_key, entry.answer_temperature, entry.answer_sample)
        ]
        assert answer.passed and answer.outputs == entry.outputs


def test_values_of_any_kind_become_to_jsonable():
    value = {"p": Point(x=1), "e": dspy.Example(a=Point(x=2)), "s": {2, 1}, "t": (1, None), 3: b"x"}
    out = to_jsonable(value)
    assert (out["p"], out["e"], out["s"], out["t"]) == ({"x": 1}, {"a": {"x": 2}}, [1, 2], [1, None])
    assert json.dumps(out) and to_jsonable(Heard) == str(Heard)
    assert to_jsonable(Holder(held=len)) == "held=<built-in function len>"
