"""What tests of several modules use."""

import pytest


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that failed are repeated at once."""
    monkeypatch.setattr("optimizers.requests._wait", lambda error, attempt: 0.0)
