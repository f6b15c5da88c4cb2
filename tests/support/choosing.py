"""What servers do with a request for one of several texts, protocol by protocol, and LMs that answer such."""

import json
import re
from typing import Any

Json = dict[str, Any]

PROTOCOLS = ("grammar", "structured_outputs", "regex", "json_schema")


def constrained(body: Json, protocol: str, wanted: str) -> str:
    """The answer of a server that follows one protocol, for an LM that would answer `wanted` if it were free.

    Of several choices it is the longest that the LM would go on with where the last message ends, else one by the
    request's seed; without a choice it is what the LM wants, up to the request's limit.
    """
    choices = choices_of(body, protocol)
    if not choices:
        return wanted
    last = (body.get("messages") or [{"role": "user"}])[-1]
    begun = last["content"].rpartition("\n")[2].partition("[[")[0] if last["role"] == "assistant" else ""
    fitting = [choice for choice in choices if _goes_on(f"{begun}{choice}".strip(), wanted)]
    text = max(fitting, key=len) if fitting else choices[(body.get("seed") or 0) % len(choices)]
    return json.dumps({"line": text}) if protocol == "json_schema" else text


def _goes_on(begun: str, wanted: str) -> bool:
    """Whether a text has these lines, the last of them up to the end of a word."""
    return re.search(rf"^{re.escape(begun)}(?!\w)", wanted, re.MULTILINE) is not None


def choices_of(body: Json, protocol: str) -> list[str]:
    """The texts that a request allows; none where it has no choice in this protocol."""
    if protocol == "grammar" and "grammar" in body:
        return texts_of_grammar(body["grammar"])
    if protocol == "structured_outputs" and "structured_outputs" in body:
        found: list[str] = body["structured_outputs"]["choice"]
        return found
    if protocol == "regex" and "regex" in body:
        inner = body["regex"].removeprefix("(").removesuffix(")").split(")|(")
        return [re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) for text in inner]
    if protocol == "json_schema" and "response_format" in body:
        schema = body["response_format"]["json_schema"]["schema"]
        listed: list[str] = schema["properties"][schema["required"][0]]["enum"]
        return listed
    return []


def texts_of_grammar(grammar: str) -> list[str]:
    """All texts of a GBNF grammar of one rule, made of literals, sequences, groups and alternatives."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|[()|]', grammar.removeprefix("root ::="))
    texts = _alternatives(tokens)
    assert not tokens, f"left over: {tokens}"
    return texts


def _alternatives(tokens: list[str]) -> list[str]:
    texts = _sequence(tokens)
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        texts += _sequence(tokens)
    return texts


def _sequence(tokens: list[str]) -> list[str]:
    texts = [""]
    while tokens and tokens[0] not in ("|", ")"):
        token = tokens.pop(0)
        if token == "(":
            parts = _alternatives(tokens)
            assert tokens.pop(0) == ")"
        else:
            parts = [str(json.loads(token))]
        texts = [text + part for text in texts for part in parts]
    return texts


def numbered(body: Json, index: int) -> str:
    """An LM that answers a list of choices with a number, by the request's seed; and else one word."""
    text = body["messages"][-1]["content"]
    numbers = re.findall(r"^(\d+)\. ", text.rpartition("each with its number:")[2], re.MULTILINE)
    return numbers[(body.get("seed") or 0) % len(numbers)] if numbers else "ready"


def ready(body: Json, index: int) -> str:
    """An LM that answers one word, whatever it is asked."""
    return "ready"


KNOWN = (
    "E2 = step.Bufferize(a=1).apply(E1)\nE3 = step.Repeat(n=M).apply(E2)\nE4 = step.Streamify().apply(E3)\n"
    "E5 = step.Map(fn=fn_mul).apply((E0, E4))\nE6 = step.Accum(fn=fn_add, b=1).apply(E5)\nreturn E6\n"
)


def knowing(body: Json, index: int) -> str:
    """An LM that knows the program of `gemm/0`, and says all of it."""
    return KNOWN
