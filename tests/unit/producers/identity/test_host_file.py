"""The file in which an agent's engines are found by other edges of its host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from producers.identity import host_file
from producers.identity.host_file import FILE_BYTES_MAX, NAME, found_by, held, is_held, path_beside, read, write
from schemas.contract.engines import Engine
from schemas.errors import RejectedError

ENGINE = Engine("e", "h-1", "g", ("h-1:8000",))


def test_engines_are_read_as_they_were_written(tmp_path: Path) -> None:
    """With the host that loopback means, in the same network namespace; readable by everybody; nothing is left over."""
    path = tmp_path / "run" / NAME

    write(path, "h-1", [ENGINE])

    assert read(path).engines == (ENGINE,)
    assert read(path).at("127.0.0.1:8000") == ENGINE
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == [NAME]


def test_in_another_network_namespace_loopback_is_not_the_host(tmp_path: Path) -> None:
    """A container sees the file by a mounted folder; its loopback is its own."""
    path = tmp_path / NAME
    write(path, "h-1", [ENGINE])
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"netns": -1}))

    assert read(path).at("127.0.0.1:8000") is None
    assert read(path).at("h-1:8000") == ENGINE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"host": "h", "netns": 1, "engines": [{}]}',
        b'{"host": "h", "netns": 1, "engines": 5}',
        b'{"host": "h", "engines": []}',
        b" " * (FILE_BYTES_MAX + 1),
    ],
)
def test_a_file_that_is_not_the_agents_is_rejected(content: bytes, tmp_path: Path) -> None:
    """Truncated, of another shape, too large."""
    (tmp_path / NAME).write_bytes(content)

    with pytest.raises(RejectedError):
        read(tmp_path / NAME)


def test_a_folder_that_cannot_be_written_raises(tmp_path: Path) -> None:
    """And leaves nothing behind."""
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match="file"):
        write(tmp_path / "file" / NAME, "h", [])


def test_a_file_is_held_for_as_long_as_its_agent_lives(tmp_path: Path) -> None:
    """Known at once, however it ended and whatever it left; one who looks holds nobody up."""
    path = tmp_path / "run" / NAME
    code = f"""
from pathlib import Path
from producers.identity import host_file
with host_file.held(Path({str(path)!r})):
    host_file.write(Path({str(path)!r}), "h-1", [])
    print("up", flush=True)
    input()
"""
    assert not is_held(path)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"up\n"
        assert [is_held(path), is_held(path)] == [True, True]
        agent.kill()
        agent.wait()

    assert path.exists()
    assert not is_held(path)


def test_a_second_agent_goes_on_without_holding(tmp_path: Path) -> None:
    """The file is held by the first; where it cannot be held at all the agent goes on as well."""
    (tmp_path / "file").touch()
    with held(tmp_path / NAME), held(tmp_path / NAME), held(tmp_path / "file" / NAME):
        assert is_held(tmp_path / NAME)
    assert not is_held(tmp_path / NAME)
    assert not is_held(tmp_path / "file" / NAME)


def test_a_living_agents_file_comes_before_a_dead_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands."""
    monkeypatch.setattr(host_file, "SYSTEM_SOCKET", tmp_path / "run" / "agent.sock")
    of_session, of_system = tmp_path / f"fleetpulse.{NAME}", tmp_path / "run" / NAME
    write(of_session, "h-1", [])
    write(of_system, "h-1", [])

    with held(of_session):
        assert found_by({"XDG_RUNTIME_DIR": str(tmp_path)}) == of_session
    assert found_by({"XDG_RUNTIME_DIR": str(tmp_path)}) == of_system


def test_a_folder_that_cannot_be_looked_into_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of another user (``su`` keeps ``XDG_RUNTIME_DIR``); root may look everywhere, but at no name so long."""
    monkeypatch.setattr(host_file, "SYSTEM_SOCKET", tmp_path / "run" / "agent.sock")
    write(tmp_path / "run" / NAME, "h-1", [])

    assert found_by({"XDG_RUNTIME_DIR": str(tmp_path / ("x" * 300))}) == tmp_path / "run" / NAME


def test_the_file_stands_beside_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents with sockets of their own have files of their own; an edge takes that of the socket it is given, else the
    first that is there."""
    system = tmp_path / "run" / "agent.sock"
    monkeypatch.setattr(host_file, "SYSTEM_SOCKET", system)
    named, session = {"FLEETPULSE_SOCKET": str(tmp_path / "mine.sock")}, {"XDG_RUNTIME_DIR": str(tmp_path)}
    of_session, of_system = tmp_path / f"fleetpulse.{NAME}", tmp_path / "run" / NAME

    assert path_beside(system) == of_system
    assert found_by(session) == of_session
    write(of_system, "h-1", [])
    assert found_by(session) == of_system
    assert found_by(named) == tmp_path / f"mine.{NAME}"
