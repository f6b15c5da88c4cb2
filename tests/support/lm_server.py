"""An OpenAI-compatible server for tests: real HTTP from a process of its own, scripted answers, faults on demand.

    with Server(latency=0.1, slots=8) as server:          # $ python -m tests.support.lm_server '{"latency": 0.1}'
        server.set(faults=[fault("reset", at=[3]), fault("status", 429, every=5, retry_after="1")])
        ...                                                # --lm openai/anything --api-base server.address
        server.stats()["prompt_tokens"], server.requests()

- Requests are numbered from 1 as they come; a fault says by number which it strikes; the first that fits is taken.
- Usage is counted as it is reported: four characters a token, in and out, the input once however many answers `n` asks
  for. Tokens of answers that never went out whole are counted under `lost_tokens` only.
- What a request and an earlier one begin with alike is reported as read from the prompt cache, if `prompt_cache` is on.
- Nothing is imported but the standard library and the module of the answers, so that it starts in a tenth of a second.
"""

import asyncio
import importlib
import json
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from tests.support.choosing import constrained
from tests.support.faults import Fault, fault, too_long
from tests.support.paths import PROJECT

HTML = "<!doctype html><html><head><title>Welcome</title></head><body>nginx</body></html>"

__all__ = ["Config", "Fault", "Server", "doubling", "fault", "text_of", "tokens"]

Json = dict[str, Any]
Answers = Callable[[Json, int], str]
"""Of a request's body, and of the number of its answer from 0 (`n` asks for several): the text."""


@dataclass
class Config:
    """How a server answers.

    Attributes:
        answers: `module:function`, see `Answers`.
        latency: seconds to an answer.
        slots: requests worked on at a time; the others wait, which their latency does not count.
        faults: what befalls requests.
        n: `native`, as many answers as asked for; `ignored`, one; `refused`, an error of status 400.
        context: tokens that a request may have with the answer it asks for; 0: any number.
        too_long: how a longer one is refused, see `tests.support.faults.too_long`.
        models_reply: what `GET /v1/models` gives; None: 404.
        key: the only key that is let in; None: any.
        models: those that there are; none: any.
        prompt_cache: whether beginnings that were seen before are reported as cached.
        path: of the one endpoint; another is answered with 404 and a web page.
        chooses: the protocol of choices that it follows, see `tests.support.choosing`; none: settings for it are
            ignored.
        echoes: whether an answer that goes on from the last message begins with it, as llama.cpp's do.
    """

    answers: str = "tests.support.lm_server:doubling"
    latency: float = 0.0
    slots: int = 1000
    faults: list[Fault] = field(default_factory=list)
    n: str = "native"
    context: int = 0
    too_long: str = "openai"
    models_reply: Any = None
    key: str | None = None
    models: list[str] = field(default_factory=list)
    prompt_cache: bool = False
    path: str = "/v1/chat/completions"
    chooses: str = ""
    echoes: bool = False

    @classmethod
    def read(cls, data: Json) -> "Config":
        """The configuration that `json.dumps(asdict(...))` wrote."""
        return cls(**{**data, "faults": [Fault(**item) for item in data.get("faults", [])]})


def doubling(body: Json, index: int) -> str:
    """Solves tasks that double their input (see `tests.support.answering_lm`), with one wrong answer in four."""
    task = body["messages"][-1]["content"]
    turn = (body.get("seed") or 0) + index
    right = isinstance(task, str) and ("'] * 2" in task or "'] * 3" in task) and turn % 4
    impl = "E1 = step.Map(fn=fn).apply((E0))\nreturn E1" if right else "return E0"
    return f"[[ ## impl ## ]]\n{impl}\n\n[[ ## completed ## ]]"


def text_of(body: Json) -> str:
    """All that a request's messages say."""
    parts = []
    for message in body.get("messages", []):
        content = message.get("content") or ""
        parts.append(content if isinstance(content, str) else "".join(part.get("text", "") for part in content))
    return "\n".join(parts)


def tokens(text: str) -> int:
    """Four characters a token."""
    return (len(text) + 3) // 4


# --- the process ------------------------------------------------------------------------------------------------------


class _Serving:
    """The state of the server's process, and how it answers one connection."""

    def __init__(self, config: Config) -> None:
        self.configure(config)
        self.reset()

    def configure(self, config: Config) -> None:
        module, _, name = config.answers.partition(":")
        self.answers: Answers = getattr(importlib.import_module(module), name)
        self.config, self.free = config, asyncio.Semaphore(config.slots)
        self.struck: list[Counter[str]] = [Counter() for _ in config.faults]  # how often each request was

    def reset(self) -> None:
        self.requests: list[Json] = []
        self.prefixes: list[str] = []
        self.counts = dict.fromkeys(
            ("prompt_tokens", "cached_tokens", "completion_tokens", "lost_tokens", "answers", "most_at_once"), 0
        )
        self.at_once = self.gone = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection until it closes."""
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split(" ", 2)
                headers = {}
                while (header := (await reader.readline()).strip()) != b"":
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length") or 0))
                if path == "/control":
                    self._control(writer, method, body)
                elif method == "GET" and path.endswith("/models") and self.config.models_reply is not None:
                    _send(writer, 200, json.dumps(self.config.models_reply).encode())
                elif path not in (self.config.path, "/moved"):
                    _send(writer, 404, HTML.encode(), "text/html")
                elif not await self._complete(writer, json.loads(body), headers):
                    break
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the server is to go
        finally:
            writer.close()

    def _control(self, writer: asyncio.StreamWriter, method: str, body: bytes) -> None:
        if method == "PUT":
            self.configure(Config.read(json.loads(body)))
        elif method == "DELETE":
            self.reset()
        _send(writer, 200, json.dumps(self.requests if method == "POST" else self.counts).encode())

    async def _complete(self, writer: asyncio.StreamWriter, body: Json, headers: dict[str, str]) -> bool:
        """Answers one request; whether the connection lives on."""
        number = len(self.requests) + 1
        entry: Json = {"number": number, "body": body, "came": time.time(), "fault": None, "status": 200}
        self.requests.append(entry)
        self.at_once += 1
        self.counts["most_at_once"] = max(self.at_once, self.counts["most_at_once"])
        try:
            async with self.free:
                struck = self._fault(number, json.dumps(body))
                entry["fault"] = struck and struck.kind
                await self._wait(struck)
                if struck and struck.kind == "drip":
                    await self._drip(writer)
                return self._answer(writer, entry, struck, headers)
        finally:
            self.at_once -= 1
            self.gone += 1
            entry["left"] = time.time()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        """Sends the reply's head, then a byte now and then, until the client is gone."""
        writer.write(_head(200, 2**30, "application/json") + b"{")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    async def _wait(self, struck: Fault | None) -> None:
        """Until the answer may go out."""
        end = time.monotonic() + self.config.latency + (struck.seconds if struck else 0.0)
        while (left := end - time.monotonic()) > 0:
            if struck and (0 < struck.crowd <= self.counts["most_at_once"] or 0 < struck.after <= self.gone):
                return
            await asyncio.sleep(min(left, 0.01) if struck and (struck.crowd or struck.after) else left)

    def _fault(self, number: int, request: str) -> Fault | None:
        for each, struck in zip(self.config.faults, self.struck, strict=True):
            free = not each.count or struck.total() < each.count
            if each.strikes(number) and free and (not each.most or struck[request] < each.most):
                struck[request] += 1
                return each
        return None

    def _refusal(self, body: Json, struck: Fault | None, headers: dict[str, str]) -> Fault | None:
        """The error to answer with, if any."""
        if self.config.key and headers.get("authorization") != f"Bearer {self.config.key}":
            return Fault("status", 401, "Incorrect API key provided", "invalid_api_key")
        if self.config.models and body["model"] not in self.config.models:
            return Fault("status", 404, f"The model `{body['model']}` does not exist", "model_not_found")
        if struck and struck.kind == "status":
            return struck
        if (body.get("n") or 1) > 1 and self.config.n == "refused":
            return Fault("status", 400, "n: only 1 is allowed", "invalid_request_error")
        return self._too_long(body)

    def _too_long(self, body: Json) -> Fault | None:
        prompt = tokens(text_of(body))
        answer = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        fits = not self.config.context or prompt + answer <= self.config.context
        return None if fits else too_long(self.config.too_long, self.config.context, prompt, answer)

    def _answer(self, writer: asyncio.StreamWriter, entry: Json, struck: Fault | None, headers: dict[str, str]) -> bool:
        body, kind = entry["body"], struck.kind if struck else None
        if refusal := self._refusal(body, struck, headers):
            entry["status"] = refusal.status
            error = {"message": refusal.message, "type": "error", "code": refusal.code}
            extra = {"Retry-After": refusal.retry_after} if refusal.retry_after else {}
            _send(writer, refusal.status, json.dumps({"error": error}).encode(), **extra)
            return True
        if kind == "refuse":
            return _break(writer)
        if struck and kind == "redirect":
            entry["status"] = struck.status
            _send(writer, struck.status, b"", Location=struck.location or "/moved")
            return True
        if kind == "html":
            _send(writer, 200, HTML.encode(), "text/html")
            return True
        answer = self._completion(body, kind)
        data = json.dumps(answer).encode()
        if kind in ("reset", "truncated"):
            self.counts["lost_tokens"] += answer["usage"]["total_tokens"]
            if kind == "truncated":
                _send(writer, 200, data[: len(data) // 2])
                return True
            writer.write(_head(200, len(data), "application/json") + data[: len(data) // 2])
            return _break(writer)
        self._count(answer["usage"], len(answer["choices"]))
        if kind in ("usage", "no_usage"):
            reported = {"usage": struck.usage} if struck and kind == "usage" else {}
            data = json.dumps({key: value for key, value in answer.items() if key != "usage"} | reported).encode()
        _send(writer, 200, data, "text/plain" if kind == "plain" else "application/json")
        return True

    def _completion(self, body: Json, kind: str | None) -> Json:
        wanted = (body.get("n") or 1) if self.config.n == "native" else 1
        texts: list[str | None] = [self.answers(body, index) for index in range(wanted)]
        if self.config.chooses:
            texts = [constrained(body, self.config.chooses, text or "") for text in texts]
        if self.config.echoes and body["messages"][-1]["role"] == "assistant":
            texts = [body["messages"][-1]["content"] + (text or "") for text in texts]
        if kind == "length":
            texts = [text and text[: len(text) // 2] for text in texts]
        elif kind in ("empty", "null", "filtered"):
            texts = ["" if kind == "empty" else None] * wanted
        prompt, written = text_of(body), sum(tokens(text or "") for text in texts)
        usage: Json = {"prompt_tokens": tokens(prompt), "completion_tokens": written}
        usage["total_tokens"] = usage["prompt_tokens"] + written
        if self.config.prompt_cache:
            usage["prompt_tokens_details"] = {"cached_tokens": self._seen(prompt)}
        reason = {"length": "length", "filtered": "content_filter"}.get(kind or "", "stop")
        choices = [
            {"index": index, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
            for index, text in enumerate(texts)
        ]
        made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": body["model"]}
        return {**made, "choices": [] if kind == "no_choices" else choices, "usage": usage}

    def _seen(self, prompt: str) -> int:
        """Tokens that the prompt begins with and that an earlier one began with."""
        longest = max((_alike(prompt, earlier) for earlier in self.prefixes), default=0)
        self.prefixes = [*self.prefixes, prompt][-8:]
        return longest // 4

    def _count(self, usage: Json, answers: int) -> None:
        for name in ("prompt_tokens", "completion_tokens"):
            self.counts[name] += usage[name]
        self.counts["cached_tokens"] += (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        self.counts["answers"] += answers


def _alike(one: str, other: str) -> int:
    """Characters that two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _head(status: int, length: int, content_type: str, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", f"Content-Type: {content_type}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, content_type: str = "application/json", **headers: str
) -> None:
    writer.write(_head(status, len(body), content_type, **headers) + body)


def _break(writer: asyncio.StreamWriter) -> bool:
    """Closes with a reset, where `close` would end the connection politely."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def _run(config: Config) -> None:
    serving = _Serving(config)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0, limit=2**24, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The process ends with whoever started it: standard input then comes to its end.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


# --- for tests --------------------------------------------------------------------------------------------------------


class Server:
    """A server process, from `with` to its end.

    Args:
        settings: see `Config`.
    """

    def __init__(self, **settings: Any) -> None:
        self._config = Config(**settings)

    def __enter__(self) -> "Server":
        command = [sys.executable, "-m", "tests.support.lm_server", json.dumps(asdict(self._config))]
        self._process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.origin = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    @property
    def address(self) -> str:
        """For `--api-base`."""
        return f"{self.origin}{self._config.path.removesuffix('/chat/completions')}"

    def set(self, **settings: Any) -> None:
        """Changes the configuration; the counts go on."""
        unknown = set(settings) - {each.name for each in fields(Config)}
        assert not unknown, unknown
        self._config = replace(self._config, **settings)
        self._control("PUT", asdict(self._config))

    def clear(self) -> None:
        """Counts from nothing again: the next request is number 1."""
        self._control("DELETE")

    def stats(self) -> Json:
        """`prompt_tokens`, `cached_tokens`, `completion_tokens`, `lost_tokens`, `answers`, `most_at_once`."""
        found: Json = self._control("GET")
        return found

    def requests(self) -> list[Json]:
        """Every request: `number`, `body`, `status`, `fault`, and when it `came` and its answer `left`."""
        found: list[Json] = self._control("POST")
        return found

    def _control(self, method: str, data: Json | None = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(f"{self.origin}/control", body, method=method)
        with urllib.request.urlopen(request) as response:
            return json.load(response)


if __name__ == "__main__":
    asyncio.run(_run(Config.read(json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}"))))
