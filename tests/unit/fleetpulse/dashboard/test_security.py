"""Who may look."""

from __future__ import annotations

import pytest

from fleetpulse.dashboard.security import COOKIE, HEADERS, Access, access_for
from schemas.errors import ConfigError

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    """Only this machine can reach it."""
    assert access_for(host, None, None, ()).lets_in({}, "127.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "dashboard.example", ""])
def test_any_other_address_needs_a_token_or_a_proxy(host: str) -> None:
    """Nobody opens a fleet to the network by an oversight."""
    with pytest.raises(ConfigError, match="reachable from the network"):
        access_for(host, None, None, ())
    access_for(host, TOKEN, None, ())
    access_for(host, None, "X-User", ("10.0.0.9",))


def test_a_short_token_is_refused_and_not_shown() -> None:
    """It could be guessed."""
    with pytest.raises(ConfigError, match="at least 16") as refused:
        access_for("127.0.0.1", "hunter2", None, ())
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("header", "trusted"), [("X-User", ()), ("X-User", ("proxy.example",))])
def test_a_login_header_needs_the_address_that_may_send_it(header: str, trusted: tuple[str, ...]) -> None:
    """Names could be pointed elsewhere."""
    with pytest.raises(ConfigError, match="--trusted-proxy"):
        access_for("127.0.0.1", None, header, trusted)


def test_a_token_comes_as_a_bearer_or_as_the_cookie() -> None:
    """Nothing else lets in."""
    access = Access(TOKEN)

    assert access.lets_in({"authorization": f"Bearer {TOKEN}"}, "x")
    assert access.lets_in({"cookie": f"a=b; {COOKIE}={access.cookie_value()}"}, "x")
    assert not access.lets_in({"cookie": f"{COOKIE}={TOKEN}"}, "x")
    assert not access.lets_in({"authorization": f"Basic {TOKEN}"}, "x")
    assert not access.lets_in({"authorization": "Bearer "}, "x")
    assert not access.lets_in({"cookie": "\x00;=;"}, "x")
    assert not access.lets_in({}, "x")


def test_the_cookie_does_not_tell_the_token() -> None:
    """And another token has another cookie."""
    assert TOKEN not in Access(TOKEN).cookie_value()
    assert Access(TOKEN).cookie_value() != Access(TOKEN + "x").cookie_value()
    assert TOKEN not in repr(Access(TOKEN))


def test_only_the_proxy_is_believed() -> None:
    """A header from anywhere else is anybody's claim."""
    access = access_for("127.0.0.1", None, "X-Forwarded-User", ("10.0.0.9",))

    assert access.lets_in({"x-forwarded-user": "ada"}, "10.0.0.9")
    assert not access.lets_in({"x-forwarded-user": "ada"}, "10.0.0.8")
    assert not access.lets_in({"x-forwarded-user": " "}, "10.0.0.9")
    assert not access.lets_in({}, "10.0.0.9")


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8600", True),
        ("localhost", True),
        ("[::1]:8600", True),
        ("fleet.example", True),
        ("FLEET.example:1", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("[", False),
    ],
)
def test_only_our_own_names_are_answered(host: str, ours: bool) -> None:
    """A foreign name that points here is somebody's trick."""
    assert access_for("127.0.0.1", None, None, (), ("Fleet.example",)).host_is_ours(host) is ours


def test_bound_to_everything_every_name_is_answered_unless_some_are_given() -> None:
    """The token keeps strangers out there."""
    assert access_for("0.0.0.0", TOKEN, None, ()).host_is_ours("any.example")
    assert not access_for("0.0.0.0", TOKEN, None, (), ("our.example",)).host_is_ours("any.example")


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"host": "a:1"}, True),
        ({"host": "a:1", "origin": "http://a:1"}, True),
        ({"host": "a:1", "origin": "http://a:2"}, False),
        ({"host": "a:1", "origin": "null"}, False),
        ({"host": "a:1", "origin": "http://evil"}, False),
    ],
)
def test_web_sockets_come_from_our_own_pages(headers: dict[str, str], ours: bool) -> None:
    """Programs send no Origin."""
    assert Access().origin_is_ours(headers) is ours


def test_headers_forbid_browsers_to_frame_load_and_send_anything() -> None:
    """Nothing from anywhere else is loaded, and nobody frames a page."""
    assert HEADERS["X-Frame-Options"] == "DENY"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert "http" not in HEADERS["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]
