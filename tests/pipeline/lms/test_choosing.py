"""Choices by the protocols that servers document: what is sent to each, and what each answer is read as.

The shapes are those of the documentation of vLLM (0.12), SGLang, Ollama (its address for OpenAI's protocol) and OpenAI.
No such server is asked.
"""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pipeline.lms.factory import make_lm, prepare_choosing
from signatures.lines import ChoiceKind, choice_settings

Json = dict[str, Any]
LINES = ["\nE1 = a", "\nreturn E0"]
USAGE = {"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25, "prompt_tokens_details": None}


def vllm(body: Json) -> Json:
    """Follows `structured_outputs`, ignores fields that it does not know, and refuses to go on and begin at once."""
    assert not (body.get("continue_final_message") and body.get("add_generation_prompt", True))
    text = body["structured_outputs"]["choice"][0] if "structured_outputs" in body else "Sure: ready"
    message = {"role": "assistant", "content": text, "refusal": None, "tool_calls": [], "reasoning_content": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    own = {"service_tier": None, "prompt_logprobs": None, "kv_transfer_params": None}
    return _completion("chatcmpl-8f7b", body, choice) | own


def sglang(body: Json) -> Json:
    """Follows one of `regex` and `ebnf`, and marks what its answer stopped at."""
    assert not {"regex", "ebnf"} <= {*body}
    text = body["regex"].split(")|(")[0].strip("()").replace("\\", "") if "regex" in body else "Sure: ready"
    message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "matched_stop": 151645}
    return _completion("c0ffee", body, choice) | {"metadata": {"weight_version": "default"}}


def openai(body: Json) -> Json:
    """Follows `response_format`; its server refuses arguments that it does not know."""
    assert not {"grammar", "regex", "structured_outputs"} & {*body}
    text = "ready"
    if "response_format" in body:
        named = body["response_format"]["json_schema"]
        assert body["response_format"]["type"] == "json_schema" and named["strict"] is True and named["name"]
        text = json.dumps({"line": _enum(named["schema"])[0]})
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return _completion("chatcmpl-B9MB", body, choice) | {"system_fingerprint": "fp_50cad350e4"}


def ollama(body: Json) -> Json:
    """OpenAI's protocol, of which `response_format` is what it calls `format`; without the details of usage."""
    assert not {"grammar", "regex", "structured_outputs"} & {*body}
    schema = body["response_format"]["json_schema"]["schema"] if "response_format" in body else None
    message = {"role": "assistant", "content": json.dumps({"line": _enum(schema)[0]}) if schema else "ready"}
    whole = _completion("chatcmpl-123", body, {"index": 0, "message": message, "finish_reason": "stop"})
    return whole | {"system_fingerprint": "fp_ollama", "usage": {k: v for k, v in USAGE.items() if v is not None}}


def _completion(name: str, body: Json, choice: Json) -> Json:
    created = {"id": name, "object": "chat.completion", "created": 1764000000, "model": body["model"]}
    return {**created, "choices": [choice], "usage": USAGE}


def _enum(schema: Json) -> list[str]:
    """The texts of a schema as strict as OpenAI demands it: every field required, and no others."""
    assert schema["type"] == "object" and schema["additionalProperties"] is False
    assert schema["required"] == [*schema["properties"]] == ["line"]
    texts: list[str] = schema["properties"]["line"]["enum"]
    return texts


class Recorded:
    """A server with one answer to each request, which keeps the requests."""

    def __init__(self, answer: Callable[[Json], Json]) -> None:
        self.requests: list[tuple[str, Json]] = []
        recorded = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                recorded.requests.append((self.path, body))
                data = json.dumps(answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Json], Json]], Recorded]]:
    """Starts servers that end with the test."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    servers: list[Recorded] = []

    def start(answer: Callable[[Json], Json]) -> Recorded:
        servers.append(Recorded(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("answer", "model", "kind", "sent"),
    [
        (vllm, "hosted_vllm/m", "structured_outputs", {"structured_outputs": {"choice": LINES}}),
        (sglang, "openai/m", "regex", {"regex": "(\\\nE1\\ =\\ a)|(\\\nreturn\\ E0)"}),
        (ollama, "ollama_chat/m", "json_schema", {}),
        (openai, "openai/m", "json_schema", {}),
    ],
)
def test_each_servers_way_is_found_and_followed(
    answer: Any,
    model: str,
    kind: ChoiceKind,
    sent: Json,
    serving: Callable[[Any], Recorded],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By one request or two; a request for a line then has the server's own form."""
    server = serving(answer)
    base = f"{server.address}/v1"
    monkeypatch.setenv("OPENAI_API_BASE", base)  # for OpenAI's own server, which no option names
    lm: Any = make_lm(model, None if answer is openai else base, probed=False, cache=False)
    prepare_choosing(lm)
    assert lm.choice_kind == kind and len(server.requests) <= 2
    lm("a task", **choice_settings(kind, LINES))
    assert {path for path, _ in server.requests} == {"/v1/chat/completions"}
    body = server.requests[-1][1]
    assert {name: body[name] for name in sent} == sent
    if kind == "json_schema":
        assert _enum(body["response_format"]["json_schema"]["schema"]) == LINES
