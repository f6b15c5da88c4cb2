"""Programs line by line: what is asked, what is not asked, and what becomes of an answer."""

from typing import Any

import dspy
from dspy import lm15

from signatures import LineAdapter, Propose
from signatures.lines import ChoiceKind, Lessons
from tests.support.benchmark_tasks import task_named

TASK = task_named("gemm/0")
LINES = {"": ("first", "other"), "first\n": ("second",), "first\nsecond\n": ("return a", "return b")}


class Engine:
    """Answers in order, and keeps the requests."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.requests = list(answers), list[lm15.Request]()

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        message = lm15.Message.assistant(self.answers.pop(0))
        usage = lm15.Usage(input_tokens=1, output_tokens=1)
        return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)


def asked(engine: Engine, kind: ChoiceKind | None, demos: list[Any] | None = None) -> str:
    """The program of an LM that answers so."""
    lm: Any = dspy.LM("scripted", engine=engine, cache=False)
    if kind is not None:
        lm.choice_kind = kind
    adapter = LineAdapter(lambda task, text, repeats: LINES.get(text, ()), lambda task, text: f"plain {text}")
    answers = adapter(lm, {}, Propose, demos or [], {"task": TASK})
    return str(answers[0]["impl"])


def texts(request: lm15.Request) -> list[tuple[str, str]]:
    return [(message.role, message.text or "") for message in request.messages]


def test_without_a_server_that_chooses_lines_are_listed_with_numbers() -> None:
    """A line without an alternative costs no request; an answer of few tokens is asked for."""
    engine = Engine("2", "1")
    assert asked(engine, None) == "other\n"
    engine = Engine("1", "number 2")
    assert asked(engine, None) == "first\nsecond\nreturn b\n"
    first, last = (texts(request)[-1] for request in engine.requests)
    assert first[0] == last[0] == "user"
    assert "(nothing)" in first[1] and first[1].endswith("1. first\n2. other\n\nAnswer with one number only.")
    assert "first\nsecond" in last[1] and "2. return b" in last[1]
    assert {request.config.max_tokens for request in engine.requests} == {8}


def test_all_requests_of_a_sample_begin_alike() -> None:
    """What differs is at the end, after the task."""
    engine = Engine("1", "1")
    asked(engine, None)
    first, last = engine.requests
    assert first.system == last.system
    task = texts(first)[-1][1].partition("The program so far")[0]
    assert texts(last)[-1][1].startswith(task) and len(task) > 500


def test_an_answer_that_is_no_choice_ends_the_program() -> None:
    """It stays in it, so that the record shows what the LM said."""
    assert asked(Engine("No", "I can't say"), None) == "I can't say\n"
    assert asked(Engine("1", "7", "7"), None) == "first\nsecond\n7\n"
    assert asked(Engine("1", "", ""), None) == "first\nsecond\n\n"


def test_an_lm_that_thinks_first_gets_the_room_for_it() -> None:
    """Once its first answer has been cut off."""
    engine = Engine("<think>\nThere are 2", "<think>\nThere are 2\n</think>\n\n1", "So 1 is wrong. I take 2")
    assert asked(engine, None) == "first\nsecond\nreturn b\n"
    assert [request.config.max_tokens for request in engine.requests] == [8, None, None]


def test_where_no_line_fits_the_last_choice_is_taken_back() -> None:
    """And made again among the others, without a request where a single one is left; then the last two choices."""
    lines = {"": ("a", "b", "c"), "b\n": ("d", "e")}

    def following(task: Any, text: str, repeats: int) -> tuple[str, ...]:
        if text in ("a\n", "b\nd\n"):
            raise ValueError("no line fits")
        return lines.get(text, ())

    engine = Engine("1", "1", "1")
    (answer,) = LineAdapter(following)(dspy.LM("scripted", engine=engine, cache=False), {}, Propose, [], {"task": TASK})
    assert answer["impl"] == "c\n" and len(engine.requests) == 3
    assert texts(engine.requests[1])[-1][1].endswith("1. b\n2. c\n\nAnswer with one number only.")


def test_demonstrations_are_shown_as_the_lines_to_choose_from() -> None:
    """Their programs go through the language's own form."""
    engine = Engine("2")
    asked(engine, None, [{"task": task_named("gemm/1"), "impl": "return E0"}])
    assert [role for role, _ in texts(engine.requests[0])] == ["user", "assistant", "user"]
    assert "plain return E0" in texts(engine.requests[0])[1][1]


def test_a_schema_is_asked_for_by_the_requests_format() -> None:
    """Its answer is read as JSON."""
    engine = Engine('{"line": "\\nfirst"}', '{"line": "\\nreturn a"}')
    assert asked(engine, "json_schema") == "first\nsecond\nreturn a\n"
    schema: Any = engine.requests[0].config.response_format
    assert "other" in str(schema) and "second" not in str(schema)


def test_how_often_functions_may_be_applied_again_is_drawn_by_the_samples_seed() -> None:
    """No further time in half of the samples, or in the share that was learned, and every number of times in some."""
    for share in (0.5, 0.1):
        times = list[int]()

        def following(task: Any, text: str, repeats: int, times: list[int] = times) -> tuple[str, ...]:
            times.append(repeats)
            return ()

        for seed in range(400):
            lm: Any = dspy.LM("scripted", engine=Engine("1"), cache=False, seed=seed)
            LineAdapter(following, lessons=Lessons(again=share))(lm, {}, Propose, [], {"task": TASK})
        assert 400 * share * 0.7 < sum(map(bool, times)) < 400 * share * 1.5 and max(times) > 2


def drawn(engine: Engine, lessons: Lessons, **settings: Any) -> dict[str, Any]:
    """The answer with lessons of an LM that has such attributes."""
    lm: Any = dspy.LM("scripted", engine=engine, cache=False, seed=1)
    vars(lm).update(settings)
    adapter = LineAdapter(lambda task, text, repeats: LINES.get(text, ()), lessons=lessons)
    return adapter(lm, {}, Propose, [], {"task": TASK})[0]


def test_the_grammar_refuses_what_it_finds_absurd_and_chooses_after_four_draws() -> None:
    """What it finds as likely as anything is kept at once."""
    engine = Engine("1", "1", "1", "1")
    answer = drawn(engine, Lessons(bits=lambda task, text, lines: [80.0, 0.0]))
    assert (answer["impl"], answer["experts"], len(engine.requests)) == ("other\n", {"grammar": 1}, 4)
    engine = Engine("1", "2")
    answer = drawn(engine, Lessons(bits=lambda task, text, lines: [7.0, 7.0]))
    assert (answer["impl"], answer["experts"]) == ("first\nsecond\nreturn b\n", {"LM": 2})


def test_later_samples_ask_the_lm_less() -> None:
    """The first always, the eighth hardly ever, the ninth always again."""
    lessons = Lessons(bits=lambda task, text, lines: [0.0, 80.0])
    asked = []
    for sample in (0, 7, 8):
        engine = Engine("1", "1")
        assert drawn(engine, lessons, sample=sample)["impl"] == "first\nsecond\nreturn a\n"
        asked.append(len(engine.requests))
    assert asked == [2, 0, 2]


def test_a_refused_program_is_not_written_again() -> None:
    """The last choice is taken back; where all programs are refused, one is written all the same."""
    engine = Engine("1", "1")
    assert drawn(engine, Lessons(refused=lambda task, text: text.endswith("a\n")))["impl"].endswith("return b\n")
    engine = Engine("1", "1")
    assert drawn(engine, Lessons(refused=lambda task, text: True))["impl"] == "other\n"
