"""What one process at a time may do is refused to the second, and to nobody afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.file_lock import alone, locked
from schemas.errors import ConfigError, FleetpulseError


def test_a_second_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    """However the first ended; the folder needs not be there."""
    lock = tmp_path / "data dir" / "one.lock"

    def fail_inside() -> None:
        with alone(lock, "another is at work"):
            with pytest.raises(FleetpulseError, match="another is at work"), alone(lock, "another is at work"):
                pytest.fail("both are inside")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    with alone(lock, "another is at work"):
        assert lock.exists()


def test_a_lock_is_one_open_file_s_until_it_is_closed(tmp_path: Path) -> None:
    """Of a file or a descriptor; who comes second does not wait."""
    path = tmp_path / "a lock"
    with path.open("a") as first, path.open("a") as second:
        taken = [locked(first), locked(second), locked(second.fileno())]
        first.close()
        taken.append(locked(second))

    assert taken == [True, False, False, True]


def test_a_folder_that_cannot_be_written_is_a_setting_to_correct(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="data_dir"), alone(tmp_path / "file" / "one.lock", "another is at work"):
        pytest.fail("there is no lock")
