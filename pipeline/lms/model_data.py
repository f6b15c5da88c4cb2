"""Facts about a model that are known without a paid request: its price and its context window.

Sources are LiteLLM's model data, of which DSPy ships a copy, and the model list of an OpenAI-compatible server, such as
vLLM's and llama.cpp's.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.error import URLError

from dspy.utils.exceptions import LMError

from optimizers.ledger import Price, whole
from optimizers.requests import Deadline

SECONDS = 10.0
"""How long a server may take to list its models."""

_SIZES = ("max_model_len", "n_ctx", "context_length", "context_window", "max_context_length", "n_ctx_train")
"""The fields that hold a model's context in the lists of servers; the size in use precedes that of training."""


def model_data(model: str) -> Mapping[str, Any]:
    """A model's entry in LiteLLM's data; empty if it has none."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the data is fetched from the network
    from dspy.clients.model_metadata import model_info

    provider, separator, name = model.partition("/")
    found: Mapping[str, Any] = model_info(provider, name) if separator else model_info("openai", model)
    return found


def known_price(model: str) -> Price | None:
    """A model's price; None if it is not known."""
    data = model_data(model)
    names = ("input_cost_per_token", "output_cost_per_token")
    cache = ("cache_read_input_token_cost", "cache_creation_input_token_cost")
    prompt, completion, cached, written = (_rate(data.get(name)) for name in (*names, *cache))
    return None if prompt is None or completion is None else Price(prompt, completion, cached, written)


def _rate(value: Any) -> float | None:
    """Dollars per million tokens, given those per token."""
    return 1e6 * value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def known_context(model: str, api_base: str | None) -> int | None:
    """The tokens that a model reads and writes in one request; None if that is not known.

    The word of an OpenAI-compatible server at `api_base` precedes the data.
    """
    if api_base and (found := _served_context(model, api_base)):
        return found
    return whole(model_data(model).get("max_input_tokens")) or None


def _served_context(model: str, api_base: str) -> int | None:
    provider, _, name = model.partition("/")
    key = os.environ.get(f"{provider.upper()}_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with suppress(URLError, OSError, ValueError, LMError):
        request = urllib.request.Request(f"{api_base.rstrip('/')}/models", headers=headers)
        deadline = Deadline(time.monotonic() + SECONDS)
        reply = json.loads(deadline.run(lambda: _read(request)))
        return _listed_context(reply, name)
    return None


def _read(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        body: bytes = response.read(16 * 2**20)
        return body


def _listed_context(reply: Any, name: str) -> int | None:
    """A model's context in a server's list: of the entry with its name, or of the only one."""
    entries = reply.get("data") if isinstance(reply, dict) else None
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    named = [entry for entry in entries if entry.get("id") == name] or (entries if len(entries) == 1 else [])
    for entry in named:
        meta = entry.get("meta")
        fields = {**(meta if isinstance(meta, dict) else {}), **entry}
        sizes = [size for field in _SIZES if (size := whole(fields.get(field)))]
        if sizes:
            return sizes[0]
    return None
