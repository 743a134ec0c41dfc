import importlib.util
import stat
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from fleetpulse.stack import clickhouse

ROOT = Path(__file__).resolve().parents[3]
PASSWORDS = ("clickhouse-writer", "clickhouse-reader", "dashboard-token", "grafana-admin")


@pytest.fixture(scope="module")
def make_secrets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_secrets", ROOT / "deploy" / "make_secrets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_secrets_lie_in_a_folder_of_their_owner(make_secrets: ModuleType, tmp_path: Path) -> None:
    """Passwords are random and long, and nobody else can enter the folder."""
    folder = tmp_path / "secrets"

    make_secrets.make(folder)

    passwords = {(folder / name).read_text() for name in PASSWORDS}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [len(password) >= 32 for password in passwords] == [True] * len(PASSWORDS)


def test_making_secrets_again_keeps_them(make_secrets: ModuleType, tmp_path: Path) -> None:
    """A second run changes nothing."""
    make_secrets.make(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}

    make_secrets.make(tmp_path)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_production_grants_no_more_than_the_local_stack(make_secrets: ModuleType) -> None:
    """The same reader; the writer has a part of what the local one has."""
    assert make_secrets.READER_GRANTS == clickhouse.READER_GRANTS
    assert set(make_secrets.WRITER_GRANTS) <= set(clickhouse.WRITER_GRANTS)


def test_the_users_file_holds_hashes_alone(make_secrets: ModuleType) -> None:
    """Well-formed, two users, no password."""
    text = make_secrets.users_file("writer-password", "reader-password")

    users = [user.tag for user in ElementTree.fromstring(text).findall("users/*")]
    assert users == ["fleetpulse", "reader"]
    assert "writer-password" not in text
    assert "reader-password" not in text


def test_the_image_runs_as_an_ordinary_user() -> None:
    """Python 3.11 slim, a fixed base, not root."""
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()

    assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"python:3.11-slim-bookworm"}
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    assert "--require-hashes" in " ".join(lines)
