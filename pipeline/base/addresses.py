"""The addresses that `--cluster` accepts."""

from __future__ import annotations

import re

LOCAL = "local:"
NO_CLUSTER = "none"
"""What a resumed run is given that is to leave its cluster."""

_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+):(\d{1,5})")


def cluster_address(text: str) -> str:
    """Checks an address on the command line, and returns it.

    Raises:
        ValueError: It is neither `local:N`, nor the address of a scheduler, nor `none`.
    """
    remote = _REMOTE.fullmatch(text)
    if text == NO_CLUSTER or local_nodes(text) or (remote and 0 < int(remote.group(3)) < 2**16):
        return text
    raise ValueError(f"expected tcp://HOST:PORT, tls://HOST:PORT or local:N with N from 1 on, got {text!r}")


def local_nodes(address: str) -> int:
    """How many nodes of this machine `local:N` asks for; 0 for any other address."""
    count = address.removeprefix(LOCAL)
    return int(count) if address.startswith(LOCAL) and count.isascii() and count.isdecimal() else 0
