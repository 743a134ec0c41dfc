"""The agent's socket: its place, its permissions, its end; and what is read from it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from producers.identity.host_file import SYSTEM_SOCKET, default_socket
from producers.receiver import intake as intake_module
from producers.receiver.datagram import DATAGRAM_BYTES_MAX
from producers.receiver.intake import Intake
from producers.receiver.listening import listen
from producers.receiver.server import refuse_more
from schemas.errors import ConfigError

BUFFER = 2 * DATAGRAM_BYTES_MAX + 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


@pytest.fixture
def opened(path: Path) -> Iterator[socket.socket]:
    with contextlib.closing(listen(path)) as ours:
        yield ours


def sender(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.connect(str(path))
    return made


def test_owner_and_group_may_send(opened: socket.socket, path: Path) -> None:
    """Mode 0660, and nothing is left of the name it was made under."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert [each.name for each in path.parent.iterdir()] == ["a.sock"]


def test_a_second_agent_is_turned_away(opened: socket.socket, path: Path) -> None:
    """The first one goes on."""
    with pytest.raises(ConfigError, match="another process listens there"):
        listen(path)
    with contextlib.closing(sender(path)) as other:
        assert other.send(b"x") == 1


def test_the_socket_of_a_dead_agent_is_replaced(path: Path) -> None:
    """As a kill leaves it."""
    listen(path).close()

    with contextlib.closing(listen(path)), contextlib.closing(sender(path)) as other:
        assert other.send(b"x") == 1


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_another_kind_of_file_is_left_alone(path: Path, kind: str) -> None:
    """Nothing is removed that is no socket."""
    path.touch() if kind == "file" else path.mkdir()

    with pytest.raises(ConfigError, match="another kind of file"):
        listen(path)
    assert path.exists()


def test_a_name_too_long_for_the_kernel_is_named() -> None:
    """Before anything is made."""
    with pytest.raises(ConfigError, match="at most 100 bytes long"):
        listen(Path("/" + "x" * 100))


def test_a_group_that_is_none_is_named(path: Path) -> None:
    """And no half-made socket is left."""
    with pytest.raises(ConfigError, match="place for a socket"):
        listen(path, "no-such-group")
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"FLEETPULSE_SOCKET": "/a/b.sock", "XDG_RUNTIME_DIR": "/run/user/1"}, Path("/a/b.sock")),
        ({}, SYSTEM_SOCKET),
    ],
)
def test_the_place_nobody_names(environment: dict[str, str], expected: Path) -> None:
    """A named place first."""
    assert default_socket(environment) == expected


def test_without_rights_to_run_the_own_folder_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the SDK looks for it."""
    monkeypatch.setattr(os, "access", lambda folder, mode: False)

    assert default_socket({"XDG_RUNTIME_DIR": "/run/user/1"}) == Path("/run/user/1/fleetpulse.sock")


def test_datagrams_stand_one_behind_the_other(opened: socket.socket, path: Path) -> None:
    """An empty one included; the other buffer fills while one is looked at."""
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        for data in (b"ab", b"", b"cde"):
            other.send(data)
        assert intake.drain(10) == 3
        buffer, ends, pids = intake.take()
        other.send(b"zz")
        intake.drain(10)

    assert (bytes(buffer[:5]), ends, pids) == (b"abcde", [2, 2, 5], [os.getpid()] * 3)
    assert intake.take()[1] == [2]
    assert intake.take()[1] == []


def test_who_sent_is_looked_up_as_it_comes(opened: socket.socket, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a sender and turn: a program may end with its request. What was taken has its own."""
    looked = list[int]()

    def network_of(pid: int) -> int:
        looked.append(pid)
        return 71

    monkeypatch.setattr(intake_module, "network_of", network_of)
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        for _ in range(2):
            other.send(b"a")
            intake.drain(1)
    assert (looked, intake.networks) == ([os.getpid()], {})

    intake.take()
    assert intake.networks == {os.getpid(): 71}
    intake.take()
    assert intake.networks == {}


def test_a_sender_that_is_gone_is_where_it_was_before(
    opened: socket.socket, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what was taken the time before; nothing is remembered for longer."""
    found, pid, seen = iter([71, None, None, None]), os.getpid(), list[dict[int, int | None]]()
    monkeypatch.setattr(intake_module, "network_of", lambda _pid: next(found))
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        for datagrams in (1, 1, 1, 0, 1):
            for _ in range(datagrams):
                other.send(b"a")
            intake.drain(1)
            intake.take()
            seen.append(intake.networks)

    assert seen == [{pid: 71}, {pid: 71}, {pid: 71}, {}, {pid: None}]


def test_no_more_is_read_than_asked_for(opened: socket.socket, path: Path) -> None:
    """The rest stays in the socket."""
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        for data in (b"a", b"b", b"c"):
            other.send(data)

    assert [intake.drain(2), intake.drain(2), intake.drain(2)] == [2, 1, 0]


def test_one_that_the_kernel_cut_is_counted(opened: socket.socket, path: Path) -> None:
    """The longest is taken, one byte more is not."""
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        for size in (DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 1, 7):
            other.send(b"x" * size)
            intake.drain(1)

    assert (intake.too_long, intake.take()[1]) == (1, [DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 7])


def test_a_full_buffer_reads_no_more(opened: socket.socket, path: Path) -> None:
    """Until it is taken: then the socket is read on."""
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        other.send(b"x" * DATAGRAM_BYTES_MAX)
        other.send(b"y" * 101)
        other.send(b"z")
        assert (intake.drain(10), intake.full) == (2, True)
        intake.take()

        assert (intake.drain(10), intake.full) == (1, False)


def test_after_the_door_is_shut_what_is_inside_can_be_read(opened: socket.socket, path: Path) -> None:
    """The sender learns that the agent is gone; what it had sent before is there."""
    intake = Intake(opened, BUFFER)
    with contextlib.closing(sender(path)) as other:
        other.send(b"before")
        refuse_more(opened, path)

        with pytest.raises(OSError, match="Broken pipe"):
            other.send(b"after")
    assert not path.exists()
    assert (intake.drain(10), intake.drain(10), intake.take()[1]) == (1, 0, [6])
