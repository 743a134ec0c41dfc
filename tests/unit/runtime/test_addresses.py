"""Addresses of HTTP servers."""

from __future__ import annotations

import pytest

from runtime.addresses import http_address


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("http://127.0.0.1:8123", "http://127.0.0.1:8123"),
        ("https://[::1]:8443/", "https://[::1]:8443"),
        ("https://host/a/b/", "https://host/a/b"),
    ],
)
def test_an_address_ends_without_a_slash(told: str, address: str) -> None:
    assert http_address(told) == address


@pytest.mark.parametrize(
    "told", ["", "host:8123", "ftp://host", "http://", "http://host:0", "http://host:x", "http://["]
)
def test_what_is_no_address_is_refused_with_its_form(told: str) -> None:
    with pytest.raises(ValueError, match=r"^must be http://host:port/p or https://host:port/p$"):
        http_address(told, path="/p")


@pytest.mark.parametrize("told", ["http://u@host", "http://:p@host", "http://u:p@host"])
def test_credentials_have_another_place(told: str) -> None:
    """The sentence does not repeat them."""
    with pytest.raises(ValueError, match=r"^must not hold credentials: set user$"):
        http_address(told, instead=": set user")
