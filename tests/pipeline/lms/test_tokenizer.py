"""Tokens are counted by a common tokenizer without the network, and by characters where there is none."""

from __future__ import annotations

import pytest

from pipeline.lms import tokenizer


def test_a_text_has_the_tokens_of_a_common_tokenizer() -> None:
    assert tokenizer.count_tokens("") == 0
    assert tokenizer.count_tokens("hello world") == 2
    assert tokenizer.count_tokens("<|endoftext|>") > 1, "as text, not as a mark"


def test_without_its_file_characters_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "_encoding", lambda: None)
    assert tokenizer.count_tokens("x" * 30) == 10


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert tokenizer._encoding.__wrapped__() is None
    monkeypatch.setattr(tokenizer, "_folder", lambda: None)
    assert tokenizer._encoding.__wrapped__() is None
