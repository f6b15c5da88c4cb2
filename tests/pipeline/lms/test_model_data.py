"""A model's price and context window are found in LiteLLM's data, or in a server's list of models."""

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.lms.model_data import known_context, known_price
from tests.support.lm_server import Server


def test_a_price_is_known_or_not() -> None:
    price = known_price("openai/gpt-4o")
    assert price is not None and (price.prompt, price.completion, price.given) == (2.5, 10.0, False)
    assert known_price("gpt-4o") == price and known_price("deepseek/deepseek-chat") is not None
    assert known_price("openai/nobody-s-model") is None and known_price("hosted_vllm/some") is None


def test_a_window_is_known_or_not() -> None:
    assert known_context("openai/gpt-4o", None) == 128_000
    assert known_context("openai/nobody-s-model", None) is None


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


VLLM = {"id": "some", "object": "model", "max_model_len": 8192}
LLAMA = {"id": "gguf", "meta": {"n_ctx_train": 131072, "n_ctx": 4096}}


@pytest.mark.parametrize(
    ("reply", "context"),
    [
        ({"data": [VLLM]}, 8192),
        ({"data": [{"id": "other", "max_model_len": 1}, VLLM]}, 8192),
        ({"data": [LLAMA]}, 4096),
        ({"data": [{"id": "gguf", "meta": {"n_ctx_train": 131072}}]}, 131072),
        ({"data": [LLAMA, {"id": "other", "max_model_len": 1}]}, None),
        ({"data": [{"id": "some", "max_model_len": "many"}]}, None),
        ({"data": "none"}, None),
        (["some"], None),
    ],
)
def test_a_server_s_own_word_comes_first(server: Server, reply: Any, context: int | None) -> None:
    """As vLLM and llama.cpp say it; of the model asked for, or of the only one."""
    server.set(models_reply=reply)
    assert known_context("hosted_vllm/some", server.address) == context


def test_a_server_without_a_list_or_none_at_all_is_not_an_error(server: Server) -> None:
    server.set(models_reply=None)
    assert known_context("openai/gpt-4o", server.address) == 128_000
    assert known_context("hosted_vllm/some", "http://127.0.0.1:9/v1") is None
