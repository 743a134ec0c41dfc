"""The file that fills a disk: it takes what becomes free, and stays away once it was removed."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.drills.full_disks import BALLAST, grow

ROOM = 3 << 20


@pytest.fixture
def _no_room_beyond() -> Iterator[None]:
    """No file may be longer: writing on fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_no_room_beyond")
def test_what_becomes_free_is_taken_again_until_the_file_is_removed(tmp_path: Path) -> None:
    """No write recreates it."""
    file = tmp_path / BALLAST
    file.touch()

    assert grow(file)
    assert file.stat().st_size == ROOM

    with file.open("r+b") as held:
        held.truncate(ROOM // 2)
    assert grow(file)
    assert file.stat().st_size == ROOM

    file.unlink()
    assert not grow(file)
    assert not file.exists()
