"""Counts tokens where an LM does not report them, and before it is asked: an estimate by a common tokenizer.

The tokenizer is OpenAI's `cl100k_base`, whose file LiteLLM ships, so that nothing is downloaded; without it, three
characters count as a token. Other models' tokenizers differ by some 20 %.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

from optimizers.usage import estimate_tokens

NAME = "cl100k_base"
FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The tokenizer's file, by the name under which `tiktoken` keeps it."""


def count_tokens(text: str) -> int:
    """The tokens of a text, estimated."""
    encoding = _encoding()
    return estimate_tokens(text) if encoding is None else len(encoding.encode(text, disallowed_special=()))


@cache
def _encoding() -> Any:
    folder = _folder()
    if folder is None or importlib.util.find_spec("tiktoken") is None:
        return None
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    if not Path(os.environ["TIKTOKEN_CACHE_DIR"], FILE).is_file():
        return None  # it would be downloaded
    return importlib.import_module("tiktoken").get_encoding(NAME)


def _folder() -> Path | None:
    """LiteLLM's folder of tokenizers; finding it does not import LiteLLM, which takes seconds."""
    spec = importlib.util.find_spec("litellm")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0], "litellm_core_utils", "tokenizers") if places else None
