from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.spool.slots import Slots, sync_file

SLOT_BYTES = 64


def reopened(path: Path) -> bytes | None:
    slots = Slots.open(path, SLOT_BYTES)
    slots.close()
    return slots.read()


def test_a_fresh_file_holds_nothing(tmp_path: Path) -> None:
    """Nothing was ever written."""
    assert reopened(tmp_path / "slots") is None


def test_the_last_value_is_read_after_reopening(tmp_path: Path) -> None:
    """Every write replaces the value before it, and the file never grows."""
    path = tmp_path / "slots"
    slots = Slots.open(path, SLOT_BYTES)
    for number in range(5):
        slots.write(b"value %d" % number, durable=number % 2 == 0)
    slots.close()

    assert reopened(path) == b"value 4"
    assert path.stat().st_size == 2 * SLOT_BYTES


@pytest.mark.parametrize("writes", [1, 2, 3])
@given(written=st.integers(0, 16 + 7), damage=st.binary(min_size=1, max_size=40))
def test_a_torn_write_leaves_the_value_before_it(
    tmp_path_factory: pytest.TempPathFactory, writes: int, written: int, damage: bytes
) -> None:
    """However many bytes of a new value reached the file, one whole value is read: the old, or the new."""
    path = tmp_path_factory.mktemp("slots") / "slots"
    slots = Slots.open(path, SLOT_BYTES)
    for number in range(writes):
        slots.write(b"value %d" % number)
    before = path.read_bytes()
    slots.write(b"newest!")
    slots.close()
    after = path.read_bytes()
    start = (writes + 1) % 2 * SLOT_BYTES
    torn = before[:start] + after[start : start + written] + before[start + written :]

    path.write_bytes(torn)
    found = reopened(path)

    assert found in (b"value %d" % (writes - 1), b"newest!")
    assert (found == b"newest!") == (torn == after)


def test_a_value_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """The value before it stays."""
    path = tmp_path / "slots"
    slots = Slots.open(path, SLOT_BYTES)
    slots.write(bytes(slots.room))

    with pytest.raises(OSError, match="do not fit"):
        slots.write(bytes(slots.room + 1))

    slots.close()
    sync_file(path)
    assert reopened(path) == bytes(slots.room)


def test_a_file_that_is_too_short_keeps_its_value(tmp_path: Path) -> None:
    """A disk that was nearly full when it was made took a part of it: the rest is added, nothing is written over."""
    path = tmp_path / "slots"
    slots = Slots.open(path, SLOT_BYTES)
    for value in (b"first", b"second"):  # that of the first slot is the newer one
        slots.write(value)
    slots.close()
    os.truncate(path, SLOT_BYTES)

    assert reopened(path) == b"second"
    assert path.stat().st_size == 2 * SLOT_BYTES


def test_a_disk_that_takes_a_part_makes_no_file_that_is_taken_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused until there is room, then made to its full length."""
    path = tmp_path / "slots"
    room = [10, 20]
    write = os.pwrite

    def nearly_full(descriptor: int, data: bytes, at: int) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: room.pop()], at)

    with monkeypatch.context() as disk:
        disk.setattr("producers.spool.slots.os.pwrite", nearly_full)
        with pytest.raises(OSError, match="No space left"):
            Slots.open(path, SLOT_BYTES)
    short = path.stat().st_size

    assert reopened(path) is None
    assert (short, path.stat().st_size) == (30, 2 * SLOT_BYTES)
