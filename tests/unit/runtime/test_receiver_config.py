"""Settings of the receiver: their bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runtime.edge_config import ReceiverConfig
from schemas.limits import DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("linger_ms", 1, True),
        ("linger_ms", 0, False),
        ("buffer_bytes", 256 * 1024, True),
        ("buffer_bytes", 256 * 1024 - 1, False),
        ("http_port", 65_535, True),
        ("http_port", 65_536, False),
        ("http_port", None, True),
        ("clients_max", 15, False),
        ("socket_group", "", False),
        ("sockets", "/a", False),
    ],
)
def test_each_setting_has_its_bounds(name: str, value: Any, good: bool) -> None:
    """On the bound it is taken, one beyond it is named."""
    if good:
        assert getattr(ReceiverConfig(**{name: value}), name) == value
        return
    with pytest.raises(ValidationError, match=name):
        ReceiverConfig(**{name: value})


def test_requests_linger_less_than_an_edge_may() -> None:
    """The default leaves time for the sender's own linger."""
    assert ReceiverConfig().linger_ms < DEFAULT_LIMITS.edge_linger_ms
