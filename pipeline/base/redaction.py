"""Secrets never leave a command: all that it prints or records passes through here.

A secret is the value of an environment variable whose name says so, user and password of an address, and a password,
key or token in its query.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

MASK = "[redacted]"

_SECRET_NAME = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?<![A-Z])(PAT|AUTH))(?=S?(_|\d|$))", re.IGNORECASE
)
_LEAST = 6
"""Characters of a secret: shorter ones, such as `none`, are words that texts are full of."""
# As urlsplit, up to the last @ before the path: a password may hold one.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s\"'<>]*@")
_ADDRESS_PARTS = re.compile(r"://([^/?#\s]*)@")
_QUERY = re.compile(
    r"([?&](?:[\w.-]*[_.-])?(?:api|access|auth)?(?:key|token|secret|password|passwd|pwd|credentials?|signature)=)"
    r"([^&#\s\"'<>]+)",
    re.IGNORECASE,
)
_told: set[str] = set()


def hide(address: str | None) -> None:
    """Counts the secrets of an address, as they are and decoded, among the secrets from here on."""
    if "://" not in (address or ""):
        return
    _told.update(text for _, part in _QUERY.findall(address or "") for text in _forms(part))
    for part in _ADDRESS_PARTS.findall(address or ""):
        for piece in (part, *part.split(":", 1)):
            _told.update(_forms(piece))


def _forms(piece: str) -> list[str]:
    """A part of an address as it is and decoded, if it is long enough to be a secret."""
    return [text for text in (piece, unquote(piece), unquote_plus(piece)) if len(text) >= _LEAST]


def secret_names() -> list[str]:
    """The environment variables whose names say that they hold a secret."""
    return [name for name in os.environ if _is_secret(name)]


@functools.lru_cache(maxsize=1000)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def without_secrets(address: str) -> str:
    """An address without user, password, and secrets in its query."""
    return _QUERY.sub(r"\1", _CREDENTIALS.sub("", address)) if "://" in address else address


def secrets() -> list[str]:
    """The secrets, the longest first: one may be part of another."""
    variables = [*os.environ.items()]
    named = {value for name, value in variables if _is_secret(name)}
    long = {text for value in named for text in (value, value.strip()) if len(text) >= _LEAST}
    own = {text for text in long if not (text.startswith("/") and os.path.exists(text))}  # noqa: PTH110
    for _, value in variables:
        hide(value)
    written = {form for text in own | _told for form in _written(text)}
    return sorted(written, key=len, reverse=True)


@functools.cache
def _written(secret: str) -> frozenset[str]:
    """A secret as it is, and as it is written in JSON, Python, HTML, an address, and Base64, as `Basic` logins are."""
    quoted = json.dumps(secret)[1:-1]
    inner = json.dumps(quoted)[1:-1], repr(secret)[1:-1], html.escape(secret)
    encoded = base64.b64encode(secret.encode("utf-8", "surrogateescape")).decode()
    addresses = quote(secret, safe=""), quote(secret), quote_plus(secret)
    return frozenset({secret, quoted, *inner, encoded, encoded.rstrip("="), *addresses})


def redacted(text: str) -> str:
    """The text without secrets."""
    for secret in secrets():
        if secret in text:
            text = text.replace(secret, MASK)
    if "://" not in text:
        return text
    return _QUERY.sub(rf"\1{MASK}", _CREDENTIALS.sub(f"{MASK}@", text))


def redacted_value(value: Any) -> Any:
    """The value, such as what JSON holds, without secrets in any of its texts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {redacted_value(key): redacted_value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return type(value)(map(redacted_value, value)) if isinstance(value, list | tuple) else value
    return value
