"""Files that are replaced as a whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fleetpulse.whole_file import replacing


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_was_there_stays_until_the_new_one_is_whole(stop: BaseException, tmp_path: Path) -> None:
    """A full disk and Ctrl-C leave it; nothing else is left in the folder."""
    file = tmp_path / "curve 1.json"
    file.write_text("before")

    def half() -> None:
        with replacing(file) as fresh:
            fresh.write(b"hal")
            raise stop

    with pytest.raises(type(stop)):
        half()

    assert (file.read_text(), [*tmp_path.iterdir()]) == ("before", [file])


def test_a_link_stays_one(tmp_path: Path) -> None:
    """What it names is replaced."""
    file, link = tmp_path / "dated.json", tmp_path / "latest.json"
    file.write_text("before")
    link.symlink_to(file.name)

    with replacing(link) as fresh:
        fresh.write(b"after")

    assert (link.is_symlink(), file.read_text()) == (True, "after")


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    """So is a device such as /dev/stdout."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replacing(pipe) as file:
            file.write(b"whole")

        assert (os.read(reader, 100), pipe.is_fifo()) == (b"whole", True)
    finally:
        os.close(reader)
