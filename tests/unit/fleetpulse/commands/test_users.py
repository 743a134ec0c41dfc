"""Users on the command line: made, listed, revoked.

Covers fleetpulse.commands.users.
"""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.dashboard.security import Access
from fleetpulse.dashboard.users import UsersFile, cookie_value, proof_hash, read


def run(path: Path, *words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["users", *words, "--users-file", str(path)])
    return found.exit_code, found.stdout, str(found.exception or found.stderr)


def test_the_token_is_printed_once_and_logs_in(tmp_path: Path) -> None:
    """It alone stands on stdout; the list does not have it."""
    path = tmp_path / "users.json"
    code, token, said = run(path, "add", "ada", "--role", "operator")
    _, listed, _ = run(path, "list", "--json")

    (user,) = read(path)
    found = Access(users=UsersFile(path)).user_of({"authorization": f"Bearer {token.strip()}"}, "x")
    assert (code, user.name, user.role, len(token.strip())) == (0, "ada", "operator", 43)
    assert found == user
    assert token.strip() not in said
    assert [(one["name"], one["role"], one["by"]) for one in json.loads(listed)] == [("ada", "operator", "token")]
    assert user.proof_hash == proof_hash(cookie_value(token.strip()))
    assert user.proof_hash not in listed


def test_whom_the_proxy_logs_in_needs_no_token(tmp_path: Path) -> None:
    """Only the role is kept."""
    path = tmp_path / "users.json"
    _, token, _ = run(path, "add", "ada@fleet.example", "--role", "operator", "--by-proxy")

    assert token == ""
    assert [(one.name, one.role, one.proof_hash) for one in read(path)] == [("ada@fleet.example", "operator", "")]


def test_a_user_is_made_once_and_revoked_once(tmp_path: Path) -> None:
    """A second of the name would leave open which token counts."""
    path = tmp_path / "users.json"
    run(path, "add", "ada")
    again, _, why_again = run(path, "add", "ada")
    revoked, _, _ = run(path, "revoke", "ada")
    missing, _, why_missing = run(path, "revoke", "ada")

    assert (again, revoked, missing) == (1, 0, 1)
    assert "is a user already" in why_again
    assert "is no user" in why_missing
    assert read(path) == ()


def test_an_unknown_role_makes_nobody(tmp_path: Path) -> None:
    """And leaves no file."""
    path = tmp_path / "users.json"
    code, _, why = run(path, "add", "ada", "--role", "root")

    assert (code, path.exists()) == (1, False)
    assert "viewer, operator" in why
