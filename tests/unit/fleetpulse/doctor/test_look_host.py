"""Covers fleetpulse.doctor.look_host where it needs no servers: who reaches a file with a password."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetpulse.doctor.look_host import is_open, look_at_host

OURS, ANOTHER, ROOT = 7, 8, 0
SHUT, PASSED = (0o700, ROOT), (0o755, ROOT)


def entry(mode: int, group: int) -> SimpleNamespace:
    return SimpleNamespace(st_mode=mode, st_gid=group)


@pytest.mark.parametrize(
    ("file", "folder", "opened"),
    [
        pytest.param((0o600, OURS), PASSED, False, id="its owner's alone"),
        pytest.param((0o644, OURS), PASSED, True, id="everybody's"),
        pytest.param((0o602, OURS), PASSED, True, id="written by everybody"),
        pytest.param((0o644, OURS), SHUT, False, id="everybody's in a folder that is closed"),
        pytest.param((0o640, OURS), PASSED, False, id="read by the service's group"),
        pytest.param((0o660, OURS), PASSED, True, id="written by the service's group"),
        pytest.param((0o640, ANOTHER), PASSED, True, id="read by another group"),
        pytest.param((0o640, ANOTHER), (0o750, ANOTHER), True, id="in a folder of that group"),
        pytest.param((0o640, ANOTHER), (0o750, OURS), False, id="in a folder of ours"),
        pytest.param((0o644, OURS), (0o750, OURS), False, id="everybody's in a folder of ours"),
        pytest.param((0o644, OURS), (0o750, ANOTHER), True, id="everybody's of ours in a folder of another group"),
        pytest.param((0o644, ANOTHER), (0o750, ANOTHER), True, id="everybody's in a folder of another group"),
    ],
)
def test_who_reaches_a_file_is_by_it_and_its_folders(
    file: tuple[int, int], folder: tuple[int, int], opened: bool
) -> None:
    """Whichever folder on the way it is that is closed."""
    ways = [(folder, PASSED), (PASSED, folder)]

    found = [is_open(entry(*file), [entry(*each) for each in way], {OURS}) for way in ways]

    assert found == [opened] * 2


def test_a_file_in_a_closed_folder_is_nobodys_but_its_owners(tmp_path: Path) -> None:
    """As deploy/make_secrets.py leaves them for containers, which read them as users of their own."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    secret = folder / "kafka-people"
    secret.write_text("p")
    secret.chmod(0o644)

    assert look_at_host(tmp_path, [secret, folder / "missing"]).open_secrets == ()
