"""The file that a restart goes on from. Readings in it: gpu/test_remembered.py, engines/test_engine_remembered.py."""

from __future__ import annotations

from pathlib import Path

from producers.kept_file import KeptFile


def test_what_was_saved_last_is_loaded_by_the_next(tmp_path: Path) -> None:
    """The same object goes on after it let go of the file."""
    file = KeptFile(tmp_path / "kept", 100)
    before = file.load()
    assert [file.save(b"first"), file.save(b"second")] == [None, None]
    file.close()

    assert (before, KeptFile(tmp_path / "kept", 100).load()) == (None, b"second")
    file.save(b"third")
    assert KeptFile(tmp_path / "kept", 100).load() == b"third"


def test_the_first_failure_alone_is_handed_back(tmp_path: Path) -> None:
    """A value that does not fit, a folder that is missing."""
    small, nowhere = KeptFile(tmp_path / "kept", 100), KeptFile(tmp_path / "missing" / "kept", 100)

    assert [isinstance(small.save(bytes(100)), OSError), small.save(bytes(100))] == [True, None]
    assert [isinstance(nowhere.save(b""), OSError), nowhere.save(b"")] == [True, None]
    assert nowhere.load() is None
