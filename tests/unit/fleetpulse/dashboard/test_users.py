"""The file of users: what stands in it, who may write it, and what a change of it means to a dashboard that runs."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

import pytest

from fleetpulse.dashboard.users import (
    OPERATOR,
    VIEWER,
    User,
    UsersFile,
    changing,
    checked,
    cookie_value,
    holder,
    proof_hash,
    read,
)
from schemas.errors import ConfigError

TOKEN = "a-token-of-many-characters"


def user(name: str, role: str = VIEWER, token: str = TOKEN) -> User:
    return User(name, role, 1, proof_hash(cookie_value(token)))


def write(path: Path, *users: User) -> None:
    with changing(path) as found:
        found[:] = users


def test_the_file_is_its_owners_alone_and_holds_no_way_to_log_in(tmp_path: Path) -> None:
    """Neither the token nor the cookie stands in it."""
    path = tmp_path / "new" / "users.json"
    write(path, user("ada", OPERATOR))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read(path) == (user("ada", OPERATOR),)
    assert TOKEN not in path.read_text()
    assert cookie_value(TOKEN) not in path.read_text()


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    """Who may change it decides who is an operator."""
    path = tmp_path / "users.json"
    write(path, user("ada"))
    path.chmod(mode)

    with pytest.raises(ConfigError, match="chmod 600"):
        read(path)


def test_a_mounted_secret_may_be_the_groups_to_read(tmp_path: Path) -> None:
    """Kubernetes mounts secrets so, with fsGroup."""
    path = tmp_path / "users.json"
    write(path, user("ada"))
    path.chmod(0o440)

    assert read(path) == (user("ada"),)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"users": {}',
        b'{"users": [1]}',
        b'{"users": [{"name": "ada"}]}',
        b'{"users": [{"name": 1, "role": "viewer"}]}',
        b'{"users": [{"name": "ada", "role": "root"}]}',
        b'{"users": [{"name": "ada", "role": "viewer", "more": 1}]}',
        b'{"users": [{"name": "ada", "role": "viewer"}, {"name": "ada", "role": "operator"}]}',
    ],
)
def test_what_is_no_list_of_users_is_refused(tmp_path: Path, text: bytes) -> None:
    """By the option that names the file, whatever stands in it."""
    path = tmp_path / "users.json"
    path.write_bytes(text)
    path.chmod(0o600)

    with pytest.raises(ConfigError):
        read(path)


def test_an_error_in_the_block_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Nothing is written by halves."""
    path = tmp_path / "users.json"
    write(path, user("ada"))

    def fail() -> None:
        with changing(path) as found:
            found.clear()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert read(path) == (user("ada"),)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\n", "<b>", "é", "a" * 65, "../a"])
def test_names_are_plain(name: str) -> None:
    """They stand on pages, in logs and in the audit."""
    with pytest.raises(ConfigError, match="NAME"):
        checked(User(name, VIEWER))


def test_a_proof_is_compared_with_every_users_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the one that fits, and where nobody has one."""
    compared: list[str] = []
    real = hmac.compare_digest

    def compare(one: str, other: str) -> bool:
        compared.append(other)
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    users = [user("ada"), user("bob", token="another token of bob"), User("carl", OPERATOR)]

    assert holder(users, cookie_value(TOKEN)) == users[0]
    assert len(compared) == len(users)
    assert holder(users, "") is None
    assert holder(users, TOKEN) is None
    assert holder([User("carl", OPERATOR)], "-") is None


def test_a_running_dashboard_follows_the_file(tmp_path: Path) -> None:
    """A new user at once, and a revoked one no longer; who is not in it is a viewer."""
    path = tmp_path / "users.json"
    followed = UsersFile(path)
    assert (followed.users(), followed.exists) == ((), False)

    write(path, user("ada", OPERATOR))
    assert (followed.users(), followed.exists) == ((user("ada", OPERATOR),), True)
    assert followed.named("ada").operates
    assert followed.named("bob") == User("bob", VIEWER)

    write(path, user("bob"))
    assert followed.users() == (user("bob"),)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("{"), lambda path: path.chmod(0o666)])
def test_a_file_that_is_gone_or_spoilt_lets_nobody_in(
    tmp_path: Path, spoil: object, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not open the door that it kept."""
    path = tmp_path / "users.json"
    write(path, user("ada"))
    followed = UsersFile(path)
    spoil(path)  # type: ignore[operator]
    os.utime(tmp_path)

    assert (followed.users(), followed.exists) == ((), True)
    assert "users file cannot be read" in caplog.text
    assert proof_hash(cookie_value(TOKEN)) not in caplog.text


def test_a_spoilt_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    """A person is there to read it."""
    path = tmp_path / "users.json"
    path.write_text("{")
    path.chmod(0o600)

    with pytest.raises(ConfigError, match="--users-file"):
        UsersFile(path)
