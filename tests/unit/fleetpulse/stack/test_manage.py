"""Commands that the stack advises are ready to be copied into a shell."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fleetpulse.stack import manage
from fleetpulse.stack.manage import down, kill, make_folder, up
from fleetpulse.stack.report import command_for
from runtime.live_process import Process
from runtime.local_stack import Ports, StackState, write_state
from schemas.errors import StackError


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("/data", "fleetpulse up --data-dir /data"),
        ("/a b", "fleetpulse up --data-dir '/a b'"),
        ("/it's", """fleetpulse up --data-dir '/it'\"'\"'s'"""),
    ],
)
def test_a_folder_is_quoted(folder: str, command: str) -> None:
    """Whatever is in its name."""
    assert command_for("up", Path(folder)) == command


def test_a_folder_without_a_stack_is_told_how_to_get_one(tmp_path: Path) -> None:
    """With its own name in the command."""
    folder = tmp_path / "a b"

    with pytest.raises(StackError, match=r"start one: fleetpulse up --data-dir '.*/a b'$"):
        kill(folder, "kafka")


def test_the_size_of_a_stack_is_decided_once(tmp_path: Path) -> None:
    """What it holds is spread over its brokers and shards."""
    write_state(StackState(tmp_path, "c", Ports(1, 2, 3, 4), "w", "r"))

    with pytest.raises(StackError, match=r"has 1 brokers and 1 shards, .*make another: --data-dir"):
        up(tmp_path, brokers=3)


def test_other_ports_for_a_stack_that_runs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were asked for, and would not be chosen."""
    write_state(StackState(tmp_path, "c", Ports(1, 2, 3, 4), "w", "r", processes={"kafka": Process(7, "then")}))
    monkeypatch.setattr(manage, "alive", lambda process: process is not None)
    monkeypatch.setattr(manage, "_start", pytest.fail)

    with pytest.raises(
        StackError, match=r"^kafka of the stack in .* runs, .* run `fleetpulse down --data-dir .*` first"
    ):
        up(tmp_path, new_ports=True)


def test_a_full_disk_keeps_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is stopped where that cannot be noted, and then the disk is named."""
    clickhouse = Process(7, "then")
    write_state(StackState(tmp_path, "c", Ports(1, 2, 3, 4), "w", "r", True, {"clickhouse": clickhouse}))
    stopped: list[Process] = []

    def full(_state: StackState) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def stop(process: Process, _within_s: float) -> bool:
        stopped.append(process)
        return True

    monkeypatch.setattr(manage, "write_state", full)
    monkeypatch.setattr(manage, "alive", lambda process: process is not None)
    monkeypatch.setattr(manage.daemons, "terminate", lambda _process: None)
    monkeypatch.setattr(manage.daemons, "stop", stop)

    with pytest.raises(OSError, match="No space left"):
        down(tmp_path)
    assert stopped == [clickhouse]


@pytest.mark.parametrize("name", ["a:b", "a,b", os.fsdecode(b"a\xff")])
def test_a_folder_that_a_part_cannot_work_in_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing is made."""
    with pytest.raises(StackError, match="choose another --data-dir") as refused:
        make_folder(tmp_path / name)
    assert str(refused.value).encode(), "can be printed"

    assert list(tmp_path.iterdir()) == []
