"""Makes a `dspy.LM` from `--lm`, and checks it before anything is sampled."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

import dspy
from dspy import lm15
from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import CacheConfig, ProviderError
from dspy.lm15 import TimeoutError as LateError
from dspy.utils import exceptions as lm_errors

from optimizers import NoAnswerError, TemperatureError
from optimizers.errors import one_line
from optimizers.ledger import Ledger, TokenCount, whole
from optimizers.requests import ONLY, Deadline, DeadlineReached, refused, sampled, temperature_of
from pipeline.base.errors import LMUnavailable, UsageError
from pipeline.base.settings import EMBEDDED, is_embedded
from pipeline.base.text import MASK, hide
from pipeline.languages import registry
from pipeline.lms.model_data import known_price
from pipeline.verification.shown_programs import read_shown
from signatures import render_task
from signatures.lines import ChoiceKind, choice_settings, chosen
from step_runtime.tasks.task import Task

# --- a language's own programs as an LM, to try a run without a model: `--lm scripted/LANGUAGE` -----------------------
# It knows an oracle and a wrong program of each task. In the order of their names, tasks need 0 to 3 demonstrations in
# the request to be answered rightly, and then every other answer is right. A token is counted as four characters.

PREFIX = "scripted/"
Row = tuple[frozenset[str], str, str, int]
"""The lines of a task, a right and a wrong program, and the demonstrations that it needs."""


def scripted_lm(model: str) -> dspy.LM:
    """The LM of such a name.

    Raises:
        UsageError: No installed language has this name.
    """
    shown = read_shown(registry.find(model.removeprefix(PREFIX)))
    right, wrong = ({each.task.name: each.text for each in found} for found in (shown.oracles, shown.near_misses))
    table = [
        (_lines(task), right.get(task.name, "none"), wrong.get(task.name, "wrong"), place * 4 // len(shown.tasks))
        for place, task in enumerate(shown.tasks.values())
    ]
    engine = SimpleNamespace(complete=partial(_complete, table))
    return dspy.LM(model, engine=engine, cache=False, num_retries=0)


def _complete(table: Sequence[Row], request: lm15.Request) -> lm15.Response:
    """A right answer where enough is shown and the request's seed is even."""
    *shown, asked = [message.text or "" for message in request.messages]
    lines = {*map(str.strip, asked.splitlines())}
    known = [row for row in table if row[0] <= lines]
    _, right, wrong, needed = max(known, key=lambda row: len(row[0]), default=(frozenset(), "none", "none", 0))
    knows = len(shown) // 2 >= needed and (request.config.seed or 0) % 2 == 0
    answer = f"[[ ## impl ## ]]\n```\n{right if knows else wrong}\n```\n"
    prompt = len(str(request.system)) + sum(map(len, [*shown, asked]))
    usage = lm15.Usage(input_tokens=prompt // 4, output_tokens=len(answer) // 4)
    message = lm15.Message.assistant(answer)
    return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)


def _lines(task: Any) -> frozenset[str]:
    """The lines of a task as a request shows it."""
    text = render_task(task) if isinstance(task, Task) else task.statement
    return frozenset(map(str.strip, text.strip().splitlines()))


# --- servers: what DSPy's client does not handle ----------------------------------------------------------------------
# - A redirect of status 307 or 308 is followed; the key goes to no other host.
# - A reply is read to `max_tokens` and to the request's timeout, whatever the server sends.
# - Token counts that are not whole numbers from 0 on are repaired, or removed from the reply, where DSPy's client would
#   discard the paid answer.
#
# DSPy's client has no hook for these. Its requests pass through one transport per engine, which is replaced here as
# soon as DSPy makes the engine.

MOST_REDIRECTS = 5
LONGEST_REQUEST = 600.0
"""Seconds of a request whose connection knows none."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
"""What providers call a request's limit of the answer."""
BYTES_OF_A_TOKEN = 1024
BYTES_BESIDE = 2**20
MOST_TOKENS = 2**16
"""What a reply may have: of each token, beside them, and of requests without `max_tokens`."""

REPORTS = ("usage", "usageMetadata")
"""The fields of a reply with token counts, by OpenAI's and Google's names."""


class ServedLM(dspy.LM):
    """A `dspy.LM`; its native engines have the transport below."""

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._engine_store = _Engines()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._engine_store = _Engines()


class _Engines(dict[Any, Any]):
    """DSPy's store of an LM's engines."""

    def __setitem__(self, key: Any, engine: Any) -> None:
        if isinstance(engine, LM15Engine):
            router = engine.router
            router._transport = Transport(router._shared_transport())
        super().__setitem__(key, engine)


class Transport:
    """A transport of DSPy's client, around another, that follows redirects and reads every reply within bounds."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def stream(self, request: Any) -> Any:
        """The response to a request."""
        seconds = request.read_timeout or getattr(self._inner, "_read_timeout", LONGEST_REQUEST)
        most, until = largest_reply(request.body), time.monotonic() + seconds
        for redirects in range(MOST_REDIRECTS + 1):
            response = self._inner.stream(request)
            response._chunks = _bounded(response, response._chunks, most, until)
            target = response.header("location") if response.status in (307, 308) else None
            if not target or redirects == MOST_REDIRECTS:
                break
            response.read()  # which frees the connection
            request = _redirected(request, urljoin(request.url, target))
        if response.status == 200 and "event-stream" not in (response.header("content-type") or ""):
            response._chunks = _repaired(response._chunks)
        return response


def largest_reply(body: bytes | None) -> int:
    """Bytes that the reply to a request may have: of a stream each token is an event of its own."""
    asked: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        found = json.loads(body or b"")
        asked = found if isinstance(found, dict) else {}
    config = asked.get("generationConfig")
    fields = {**(config if isinstance(config, dict) else {}), **asked}
    limits = [whole(fields.get(name)) for name in LIMITS]
    tokens = max((limit for limit in limits if limit), default=MOST_TOKENS)
    return BYTES_BESIDE + min(tokens, MOST_TOKENS) * (whole(asked.get("n")) or 1) * BYTES_OF_A_TOKEN


def _bounded(response: Any, chunks: Iterator[bytes], most: int, until: float) -> Iterator[bytes]:
    """The parts of a reply; a server that goes on beyond a request's limits is left."""
    read = 0
    for chunk in chunks:
        read += len(chunk)
        late = time.monotonic() > until
        if late or read > most:
            response._release_once(body_consumed=False)  # which closes the connection
            if late:
                raise LateError("the reply was not complete in time")
            raise ProviderError(f"the reply has more than {most:,} bytes, which max_tokens does not allow")
        yield chunk


def _redirected(request: Any, url: str) -> Any:
    """The request to another address; another host gets no credentials."""
    headers = request.headers
    if _origin(url) != _origin(request.url):
        secret = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
        headers = [(name, value) for name, value in headers if name.lower() not in secret]
    return replace(request, url=url, headers=headers)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _repaired(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A reply's body; as it was if it is not a JSON object with token counts to repair."""
    yield repaired(b"".join(chunks))


def repaired(body: bytes) -> bytes:
    """A reply in which every token count is a whole number from 0 on, or absent."""
    with suppress(ValueError, RecursionError):
        reply = json.loads(body)
        for name in REPORTS if isinstance(reply, dict) else ():
            usage = reply.get(name)
            # as texts: 1.0 equals 1 in Python
            if usage is not None and json.dumps(counts := _counts(usage)) != json.dumps(usage):
                return json.dumps({**reply, name: counts}).encode()
    return body


def _counts(usage: Any) -> dict[str, Any]:
    """The readable counts of a report, and its other fields as they are."""
    if not isinstance(usage, dict):
        return {}
    counts: dict[str, Any] = {}
    for name, value in usage.items():
        if name.endswith("_details"):
            counts[name] = _counts(value) if value is not None else None
        elif name.endswith(("_tokens", "TokenCount")):
            if (number := whole(value)) is not None:
                counts[name] = number
        else:
            counts[name] = value
    return counts


PROVIDERS = ("anthropic",)
"""Providers that need marks; others cache common beginnings automatically, or not at all."""


class MarkingLM(ServedLM):
    """Marks the system message and, where there are demonstrations, the last of them: only the task comes after."""

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """As `dspy.LM`, whose default for all requests can't mark the end of a request's constant part."""
        marked = {"prompt_cache": constant_part(messages)} if messages else {}
        return super().__call__(prompt, messages=messages, **{**marked, **kwargs})


def constant_part(messages: list[dict[str, Any]]) -> CacheConfig:
    """The part of a request to cache: all but its last message."""
    turns = sum(message["role"] != "system" for message in messages)
    return CacheConfig(prefix_until_index=turns - 2) if turns > 1 else CacheConfig(prefix="stable")


# --- an LM from `--lm` ------------------------------------------------------------------------------------------------

_KNOWN_EMBEDDED = re.compile(rf"{EMBEDDED}(?:/[1-9]\d{{0,5}})?")
"""With or without the candidates of a sample, which records and compiled programs name."""

TIMEOUT = 600.0
"""Seconds without data before a request has failed: the providers' own default, as models may think for minutes."""

MAX_TOKENS = 4096
"""Length limit of an answer: programs need a tenth of it, and models that reason first need the rest."""

PROBE_SECONDS = 60.0
PROBE_TOKENS = 16

ENDS = ("[[ ## completed ## ]]", "[[ ## task ## ]]")
"""Where an answer is complete, though small LMs go on. Servers of one's own stop there; some providers refuse to."""

IN_A_ROW = 8
"""Samples of one task before those of the next one, where each takes several requests that begin alike."""

_OFFERED: tuple[ChoiceKind, ...] = ("grammar", "structured_outputs", "regex")
"""What servers of one's own offer beside OpenAI's protocol; each ignores the others' settings."""
_OLLAMA = ("ollama", "ollama_chat")
"""A server that ignores them all; and DSPy would send them to another address than other requests."""
_JSON = ("openai", *_OLLAMA)
"""Providers that take a JSON schema and refuse, or drop, settings of others."""
_TOKENS = 32

_DSPY_REMEMBERED, _REMEMBERED = 1_000_000, 1000
"""Answers that DSPy keeps in memory by default, some 12 KB each, and that it keeps here."""


def make_lm(
    model: str,
    api_base: str | None = None,
    *,
    max_tokens: int = MAX_TOKENS,
    num_retries: int = 5,
    cache: bool | None = None,
    probed: bool = True,
    timeout: float = TIMEOUT,
    n: int = 1,
    temperatures: Sequence[float] = (ONLY,),
) -> dspy.LM:
    """The LM that a string names.

    Args:
        model: `embedded`, `embedded/N` with N candidates a sample, `scripted/LANGUAGE`, or any DSPy/LiteLLM model
            string, whose key is read from the environment.
        api_base: The address of an OpenAI-compatible server.
        max_tokens: Limit of an answer.
        num_retries: How often a request that fails transiently is retried.
        cache: Whether answers are cached on disk; None for all but the embedded LM's, which cost nothing.
        probed: Whether to send a short request first at each of `temperatures`, to detect a wrong key, model, address
            or temperature at once; never for the embedded LM.
        timeout: Seconds without data after which a request has failed.
        n: Completions that one request asks for.
        temperatures: Those at which it will be sampled.

    Raises:
        LMUnavailable: The LM can't be used.
        UsageError: It refuses a temperature; an address or a batch for the embedded LM, which has neither.
    """
    hide(api_base)
    if api_base and MASK in api_base:
        raise UsageError("--api-base: the record keeps no user and password; give the whole address again")
    # Otherwise LiteLLM, which connects to some providers, fetches prices from the network when imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    settings: dict[str, Any] = {"max_tokens": max_tokens, "num_retries": num_retries}
    if model.startswith(PREFIX):
        return scripted_lm(model)
    if is_embedded(model):
        return _embedded(model, api_base, n, settings | {"cache": bool(cache)})
    if cache is not False:
        _bound_memory_cache()
    settings |= {"cache": cache is not False, "timeout": timeout}
    settings |= ({"api_base": api_base, "stop": list(ENDS)} if api_base else {}) | ({"n": n} if n > 1 else {})
    # DSPy would warn of every truncated answer; the ledger counts them.
    logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)
    try:
        lm = _remote(model, settings)
        if n > 1:
            # Batches go through LiteLLM, which several threads must not import at once.
            importlib.import_module("litellm")
        lm.price = known_price(model)
        lm.probe_tokens = probe(lm, temperatures) if probed else TokenCount()
    except TemperatureError as error:
        raise UsageError(f"--{error}") from None
    except lm_errors.LMError as error:
        raise LMUnavailable(f"{model}: {reason(error, model, api_base)}") from None
    except (TypeError, ValueError) as error:
        raise LMUnavailable(f"{model}: {error}") from None
    return lm


def prepare_choosing(lm: dspy.LM) -> None:
    """Finds out how an LM's server chooses among texts, which is from then on the LM's attribute `choice_kind`.

    Its attribute `in_a_row` has a task's samples follow each other: they read most of their prompts from the cache of a
    server that keeps a single prompt.

    Raises:
        LMUnavailable: The LM can't be used.
    """
    try:
        kind, taken = _find_choice_kind(lm)
    except lm_errors.LMError as error:
        raise LMUnavailable(f"{lm.model}: {reason(error, lm.model, lm.kwargs.get('api_base'))}") from None
    lm.choice_kind, lm.in_a_row = kind, IN_A_ROW
    lm.probe_tokens = getattr(lm, "probe_tokens", TokenCount()) + taken


def _find_choice_kind(lm: dspy.LM) -> tuple[ChoiceKind, TokenCount]:
    """The way in which an LM's server chooses among texts, and the tokens spent to find it.

    A first request names another word in each way that a server may choose: the answer says which is followed. Where
    none is, a second request tries a JSON schema.

    Raises:
        LMError: The LM can't be used.
    """
    ledger = Ledger()
    twin = sampled(lm.copy(cache=False), ledger, lambda callers: "probe", temperature=0.0, n=None)
    own_server, provider = bool(lm.kwargs.get("api_base")), lm.model.partition("/")[0]
    if own_server and provider not in _OLLAMA:
        together: dict[str, Any] = {}
        for kind in _OFFERED:
            together |= choice_settings(kind, [kind])["extra_body"]
        together.pop("continue_final_message", None)
        together.pop("add_generation_prompt", None)
        answer = _asked(twin, extra_body=together)
        followed = [kind for kind in _OFFERED if answer.strip() == kind]
        if followed:
            return followed[0], ledger.total
    if own_server or provider in _JSON:
        words = ["zebra", "quartz"]
        if chosen("json_schema", _asked(twin, **choice_settings("json_schema", words)), words) is not None:
            return "json_schema", ledger.total
    return "numbers", ledger.total


def _asked(lm: Any, **settings: Any) -> str:
    """The answer; none where the server refuses the settings."""
    bound = {} if "max_completion_tokens" in lm.kwargs else {"max_tokens": _TOKENS}
    try:
        answers = lm("Reply with the word: ready", **bound, **settings, seed=0)
    except (lm_errors.LMInvalidRequestError, lm_errors.LMUnsupportedFeatureError):
        return ""
    first = answers[0] if answers else ""
    return str(first.get("text", "") if isinstance(first, dict) else first or "")


def probe(lm: dspy.LM, temperatures: Sequence[float] = (ONLY,)) -> TokenCount:
    """Asks for one word at each temperature, with the settings that samples use; returns the tokens spent.

    Raises:
        LMError: The LM can't be used.
        TemperatureError: It refuses a temperature.
    """
    ledger, answered = Ledger(), list[float]()
    for temperature in temperatures:
        try:
            _ask_twice(lm, ledger, temperature)
        except lm_errors.LMError as error:
            if not refused(error) or (temperature == ONLY and not answered):
                raise  # it takes no temperature at all
            taken = ", ".join(map(str, answered)) or ONLY
            message = f"temperatures: {lm.model} refuses {temperature:g}; try --temperatures {taken}"
            raise TemperatureError(f"{message}: {one_line(error)}") from error
        answered.append(temperature)
    return ledger.total


def _ask_twice(lm: dspy.LM, ledger: Ledger, temperature: float) -> None:
    """Asks again, once, if the first request fails in passing."""
    for last in (False, True):
        try:
            return _ask(lm, ledger, temperature)
        except (lm_errors.LMRateLimitError, NoAnswerError):
            return None  # it shows that the key, the model and the address are right
        except Exception as error:
            if last or not lm_errors.is_retryable_lm_error(error):
                raise
            time.sleep(1.0)
    return None


def _ask(lm: dspy.LM, ledger: Ledger, temperature: float) -> None:
    # Models that reason would spend so few tokens on thoughts, and may reject the limit.
    bound = {} if "max_completion_tokens" in lm.kwargs else {"max_tokens": PROBE_TOKENS}
    timeout = min(PROBE_SECONDS, lm.kwargs.get("timeout", PROBE_SECONDS))
    settings = {"temperature": temperature_of(lm, temperature, own=False), "timeout": timeout, "n": None}
    deadline = Deadline(time.monotonic() + PROBE_SECONDS + 5.0)  # a server may send a byte now and then
    twin = sampled(lm.copy(cache=False, num_retries=0), ledger, lambda callers: "probe", deadline=deadline, **settings)
    try:
        twin("Reply with the word: ready", **bound, seed=0)
    except DeadlineReached:
        raise lm_errors.LMTimeoutError(f"no complete answer within {PROBE_SECONDS:g} s") from None


def _bound_memory_cache() -> None:
    """Has DSPy keep few answers in memory, unless the user has set how many: those of a long run are on disk, too."""
    answers = dspy.cache.memory_cache
    if getattr(answers, "maxsize", None) == _DSPY_REMEMBERED:
        dspy.cache.memory_cache = type(answers)(maxsize=_REMEMBERED)


def _embedded(model: str, api_base: str | None, n: int, settings: dict[str, Any]) -> dspy.LM:
    if not _KNOWN_EMBEDDED.fullmatch(model):
        raise LMUnavailable(f"{model}: no such embedded LM; expected {EMBEDDED}, or {EMBEDDED}/N with N candidates")
    if api_base is not None:
        raise UsageError("--api-base: the embedded LM has no address; name another with --lm")
    if n > 1:
        raise UsageError("--batch-n: the embedded LM does not read a prompt twice; omit the option")
    from pipeline.lms.embedded import engine_named

    engine = engine_named(model)
    return dspy.LM(engine.model, engine=engine, **settings)


def _remote(model: str, settings: dict[str, Any]) -> dspy.LM:
    cls = MarkingLM if model.partition("/")[0] in PROVIDERS else ServedLM
    try:
        return cls(model, **settings)
    except lm_errors.LMConfigurationError:
        # Models that reason accept no small limit, as their thoughts count as tokens too.
        return cls(model, **settings | {"max_tokens": None})


def reason(error: Exception, model: str, api_base: str | None) -> str:
    """One line with the reason why an LM can't be used, and a remedy."""
    text = re.sub(r"^\[[^\]]*\]\s*", "", str(error))
    message = text.partition("\n")[0].strip() or type(error).__name__
    keys = list(dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b", text)))
    where = api_base or "the provider"
    if isinstance(error, lm_errors.LMNotConfiguredError) and keys:
        any_value = " (any value, if the server asks for none)" if api_base else ""
        return f"no API key; set {' or '.join(keys)} in the environment{any_value}"
    if "LLM Provider NOT provided" in text:
        return "no such provider; expected PROVIDER/MODEL, such as openai/gpt-4o, or embedded"
    if _is_no_lm(error):
        return f"no OpenAI-compatible server at {where}; such an address usually ends in /v1: {message:.200}"
    too_long = "the prompt is too long for it, even without demonstrations; see --prompt short"
    kinds = {
        lm_errors.ContextWindowExceededError: too_long,
        lm_errors.LMNotConfiguredError: "it is not configured",
        lm_errors.LMAuthError: f"{where} rejects the key",
        lm_errors.LMBillingError: f"{where} rejects requests: insufficient credit",
        lm_errors.LMUnsupportedModelError: f"{where} has no such model",
        lm_errors.LMTransportError: f"no answer from {where}",
        lm_errors.LMTimeoutError: f"no answer from {where}",
    }
    kind = next((kind for cls, kind in kinds.items() if isinstance(error, cls)), "it can't be used")
    missing = _missing_keys(model) if isinstance(error, lm_errors.LMProviderError) else []
    hint = f" ({' and '.join(missing)} not set)" if missing else ""
    return f"{kind}: {message}{hint}"


def _is_no_lm(error: Exception) -> bool:
    """Whether the address is another kind of web server: it returns a page, or an unknown path not due to the model."""
    status = getattr(error, "status", None)
    text = str(error).lower()
    unknown_path = type(error) is lm_errors.LMInvalidRequestError and status == 404 and "model" not in text
    return unknown_path or (type(error) is lm_errors.LMProviderError and status == 200) or "<html" in text


def _missing_keys(model: str) -> list[str]:
    """The environment variables with keys that LiteLLM reads for a model and does not find."""
    if "/" not in model:
        return []
    import litellm

    litellm.suppress_debug_info = True  # it would print an advertisement on stdout
    return [name for name in litellm.validate_environment(model)["missing_keys"] if "KEY" in name]
