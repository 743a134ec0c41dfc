"""Who may look."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetpulse.dashboard.security import COOKIE, HEADERS, HOLDER, LOCAL, Access, access_for
from fleetpulse.dashboard.users import OPERATOR, VIEWER, User, UsersFile, changing, cookie_value, proof_hash
from schemas.errors import ConfigError

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    """Only this machine can reach it."""
    assert access_for(host, None, None, ()).user_of({}, "127.0.0.1") is LOCAL


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::0", "0:0:0:0:0:0:0:0", "10.0.0.1", "dashboard.example", ""])
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

    for headers in (
        {"authorization": f"Bearer {TOKEN}"},
        {"cookie": f"a=b; {COOKIE}={cookie_value(TOKEN)}"},
    ):
        found = access.user_of(headers, "x")
        assert found is not None
        assert (found.name, found.role) == (HOLDER, OPERATOR)
    assert access.user_of({"cookie": f"{COOKIE}={TOKEN}"}, "x") is None
    assert access.user_of({"authorization": f"Basic {TOKEN}"}, "x") is None
    assert access.user_of({"authorization": "Bearer "}, "x") is None
    assert access.user_of({"cookie": "\x00;=;"}, "x") is None
    assert access.user_of({}, "x") is None


@pytest.mark.parametrize("odd", ['prefs={"a": 1, "b": [2]}', "a b=c", "na\xefve=1", "a", "a:b/c=d e", "$Path=;"])
def test_another_applications_odd_cookie_keeps_nobody_outside(odd: str) -> None:
    """Cookies are of a host, whatever the port: others set what no standard knows there."""
    ours = f"{COOKIE}={cookie_value(TOKEN)}"

    for cookies in (f"{odd}; {ours}", f"{ours}; {odd}"):
        assert Access(TOKEN).user_of({"cookie": cookies}, "x") is not None


def test_the_cookie_does_not_tell_the_token() -> None:
    """And another token has another cookie."""
    assert TOKEN not in cookie_value(TOKEN)
    assert cookie_value(TOKEN) != cookie_value(TOKEN + "x")
    assert TOKEN not in repr(Access(TOKEN))


def test_only_the_proxy_is_believed() -> None:
    """A header from anywhere else is anybody's claim."""
    access = access_for("127.0.0.1", None, "X-Forwarded-User", ("10.0.0.9",))

    assert access.user_of({"x-forwarded-user": "ada"}, "10.0.0.9") == User("ada", VIEWER)
    assert access.user_of({"x-forwarded-user": "ada"}, "10.0.0.8") is None
    assert access.user_of({"x-forwarded-user": " "}, "10.0.0.9") is None
    assert access.user_of({"x-forwarded-user": "a\nb"}, "10.0.0.9") is None
    assert access.user_of({"x-forwarded-user": "a" * 257}, "10.0.0.9") is None
    assert access.user_of({}, "10.0.0.9") is None


def file_of(folder: Path, *users: User) -> UsersFile:
    with changing(folder / "users.json") as found:
        found[:] = users
    return UsersFile(folder / "users.json")


def user(name: str, role: str, token: str = "") -> User:
    return User(name, role, 1, proof_hash(cookie_value(token)) if token else "")


def test_every_user_has_a_token_and_a_role(tmp_path: Path) -> None:
    """Beside the one token without a name, which is an operator's."""
    ada, bob = user("ada", OPERATOR, "the token of ada"), user("bob", VIEWER, "the token of bob")
    access = Access(TOKEN, users=file_of(tmp_path, ada, bob))

    assert access.user_of({"cookie": f"{COOKIE}={cookie_value('the token of bob')}"}, "x") == bob
    assert access.user_of({"authorization": "Bearer the token of ada"}, "x") == ada
    assert access.user_of({"authorization": f"Bearer {TOKEN}"}, "x").name == HOLDER  # type: ignore[union-attr]
    assert access.user_of({"authorization": f"Bearer {ada.proof_hash}"}, "x") is None
    assert access.user_of({"cookie": f"{COOKIE}={ada.proof_hash}"}, "x") is None


def test_the_proxy_names_who_it_is_and_the_file_the_role(tmp_path: Path) -> None:
    """Whoever the proxy lets in and the file does not know is a viewer."""
    access = access_for(
        "127.0.0.1", None, "X-User", ("10.0.0.9",), users=file_of(tmp_path, user("ada@fleet.example", OPERATOR))
    )

    assert access.user_of({"x-user": "ada@fleet.example"}, "10.0.0.9") == user("ada@fleet.example", OPERATOR)
    assert access.user_of({"x-user": "bob"}, "10.0.0.9") == User("bob", VIEWER)
    assert access.user_of({"x-user": "ada@fleet.example"}, "10.0.0.8") is None


def test_users_close_a_loopback_address_too_and_open_no_other_without_a_login(tmp_path: Path) -> None:
    """Once there is a user, nobody looks without being one; also when the last was revoked."""
    path = tmp_path / "users.json"
    access = access_for("127.0.0.1", None, None, (), users=UsersFile(path))
    assert access.user_of({}, "127.0.0.1") is LOCAL
    assert access.now(LOCAL) is LOCAL

    file_of(tmp_path, user("ada", VIEWER, "the token of ada"))
    assert access.user_of({}, "127.0.0.1") is None
    assert access.now(LOCAL) is None
    access_for("0.0.0.0", None, None, (), users=UsersFile(path))

    file_of(tmp_path)
    assert access.user_of({}, "127.0.0.1") is None


def test_who_was_let_in_has_the_role_of_now(tmp_path: Path) -> None:
    """A page stays open for days: revoked is revoked, and a role taken away is gone."""
    ada, bob = user("ada", OPERATOR, "the token of ada"), user("bob", OPERATOR)
    access = Access(TOKEN, "X-User", ("10.0.0.9",), users=file_of(tmp_path, ada, bob))
    holder = access.user_of({"authorization": f"Bearer {TOKEN}"}, "x")
    assert (access.now(ada), access.now(bob)) == (ada, bob)

    file_of(tmp_path, user("ada", VIEWER, "another token of ada"))
    assert access.now(ada) is None
    assert access.now(bob) == User("bob", VIEWER)
    assert holder is not None
    assert access.now(holder) == holder


def test_a_user_with_the_name_of_the_one_token_is_revoked_as_any_other(tmp_path: Path) -> None:
    """The name does not say whose token it was."""
    namesake = user(HOLDER, OPERATOR, "the token of token")
    access = Access(TOKEN, users=file_of(tmp_path, namesake))
    assert access.now(namesake) == namesake

    file_of(tmp_path)
    assert access.now(namesake) is None


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
    assert all(access_for(host, TOKEN, None, ()).host_is_ours("any.example") for host in ("0.0.0.0", "::", "::0"))
    assert not access_for("0.0.0.0", TOKEN, None, (), ("our.example",)).host_is_ours("any.example")


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"host": "a:1"}, True),
        ({"host": "a:1", "origin": "http://a:1"}, True),
        ({"host": "a:1", "origin": "http://a:2"}, False),
        ({"host": "a:1", "origin": "null"}, False),
        ({"host": "a:1", "origin": "http://evil"}, False),
        ({"host": "a:1", "origin": "http://["}, False),
        ({"origin": "http://["}, False),
    ],
)
def test_web_sockets_come_from_our_own_pages(headers: dict[str, str], ours: bool) -> None:
    """Programs send no Origin."""
    assert Access().origin_is_ours(headers) is ours


@pytest.mark.parametrize(
    ("method", "headers", "may"),
    [
        ("POST", {}, True),
        ("POST", {"origin": "http://a:1"}, True),
        ("POST", {"origin": "http://a:1", "sec-fetch-site": "same-origin"}, True),
        ("POST", {"origin": "http://evil"}, False),
        ("POST", {"origin": "null"}, False),
        ("POST", {"sec-fetch-site": "cross-site"}, False),
        ("POST", {"sec-fetch-site": "same-site"}, False),
        ("PUT", {"sec-fetch-site": "cross-site"}, False),
        ("GET", {"sec-fetch-site": "cross-site"}, True),
        ("GET", {"origin": "http://evil"}, False),
    ],
)
def test_what_changes_anything_comes_from_our_own_pages(method: str, headers: dict[str, str], may: bool) -> None:
    """A link from another site may open a page, a form or script of it may send nothing."""
    assert Access().may_change(method, {"host": "a:1", **headers}) is may


def test_headers_forbid_browsers_to_frame_load_and_send_anything() -> None:
    """Nothing from anywhere else is loaded, and nobody frames a page."""
    assert HEADERS["X-Frame-Options"] == "DENY"
    assert HEADERS["Referrer-Policy"] == "same-origin"
    assert "http" not in HEADERS["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]
