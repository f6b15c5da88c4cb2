"""The addresses that `--cluster` accepts, and the names of models that `--register-as` does."""

from __future__ import annotations

import re

LOCAL = "local:"
NO_CLUSTER = "none"
"""What a resumed run is given that is to leave its cluster."""

_MOST_NODES = 1000
"""Nodes of this machine: each is a process."""

_LOCAL = re.compile(rf"{LOCAL}([0-9]{{1,9}})")
_REGISTERED = re.compile(r"[\w.-]+(@[\w-]+)?", re.ASCII)
_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)


def cluster_address(text: str) -> str:
    """Checks an address on the command line, and returns it.

    Raises:
        ValueError: It is neither `local:N`, nor the address of a scheduler, nor `none`.
    """
    remote = _REMOTE.fullmatch(text)
    if text == NO_CLUSTER or 0 < local_nodes(text) <= _MOST_NODES or (remote and 0 < int(remote.group(3)) < 2**16):
        return text
    nodes = f"local:N with N from 1 to {_MOST_NODES:,}"
    raise ValueError(f"expected tcp://HOST:PORT, tls://HOST:PORT or {nodes}, got {text!r:.80}")


def local_nodes(address: str) -> int:
    """How many nodes of this machine `local:N` asks for; 0 for any other address."""
    found = _LOCAL.fullmatch(address)
    return int(found.group(1)) if found else 0


def registered_name(text: str) -> str:
    """Checks the name of a model in MLflow's registry, with or without an alias, and returns it.

    Raises:
        ValueError: It is neither `NAME` nor `NAME@ALIAS`, or the alias is MLflow's own.
    """
    if _REGISTERED.fullmatch(text) and not re.search(r"@(latest|v\d+)$", text, re.IGNORECASE):
        return text
    signs = "of letters, digits, `_`, `-` and `.`, the alias neither `latest` nor a version"
    raise ValueError(f"expected NAME or NAME@ALIAS, {signs}, got {text!r:.80}")
