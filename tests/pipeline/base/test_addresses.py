"""Addresses of clusters: what is accepted, and that anything else is refused with what was expected."""

import pytest

from pipeline.base.addresses import cluster_address, local_nodes

GOOD = ["tcp://10.0.0.1:8786", "tls://scheduler.example:8786", "tcp://[::1]:8786", "local:1", "local:16", "none"]
BAD = ["", "local", "local:", "local:0", "local:-1", "local:two", "local:²", "8786", "tcp://host", "tcp://host:0"]
BAD += ["tcp://host:99999", "http://host:8786", "tcp://a:b@host:8786", "tcp://host:8786/x", "tcp://:8786"]
BAD += [
    "local:1001",
    f"local:{'9' * 40}",
    "tcp://host:٨٧٨٦",
    "tcp://host\x1b[2J:8786",
    "tcp://host\0:8786",
    "tcp://h\n:8786",
]


@pytest.mark.parametrize("text", GOOD)
def test_an_address_is_returned_as_it_is(text: str) -> None:
    """Of a scheduler, with or without TLS, or of nodes of this machine."""
    assert cluster_address(text) == text


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_refused(text: str) -> None:
    """The message says what was expected and what was given."""
    with pytest.raises(ValueError, match="expected tcp://HOST:PORT") as caught:
        cluster_address(text)
    assert repr(text) in str(caught.value)


def test_the_number_of_nodes_of_this_machine() -> None:
    """None for the address of a scheduler."""
    assert [local_nodes(address) for address in ("local:3", "tcp://host:8786", "none")] == [3, 0, 0]
