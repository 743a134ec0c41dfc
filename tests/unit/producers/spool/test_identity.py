"""Who a spool is after its folder was moved, copied and put back, with real folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from producers.spool import identity as module
from producers.spool.books import book_rows
from producers.spool.frame import Spooled
from producers.spool.identity import COPIED, OTHER_MACHINE, RESTARTED, RESTORED, Place, next_identity
from producers.spool.spool import Spool
from runtime import live_process
from schemas.rows.tables import SEQ_ALL

TOPIC = "llm.requests"


def spooled(folder: Path, records: int = 3, *, delivered: bool = False) -> Spool:
    """A life of a spool that writes so many records, and is killed."""
    spool = Spool.open(folder)
    for _ in range(records):
        spool.append(Spooled(0, 0, 5, TOPIC, 1, f"{TOPIC}/1", "application/x-ndjson", b"host", 10, b"v"))
    spool.sync()
    if delivered:
        spool.acknowledge(spool.take())
        spool.save()
    spool.abandon()
    return spool


def identities(spool: Spool) -> list[tuple[str, int, int]]:
    """What consumers know the records by that a spool hands out."""
    return [(spool.identity.source_of(each.boot), each.boot, each.seq) for each in spool.take()]


def test_the_same_folder_keeps_its_source(tmp_path: Path) -> None:
    """Over any number of starts; boots count."""
    lives = [spooled(tmp_path / "spool") for _ in range(3)]

    assert len({life.source for life in lives}) == 1
    assert [life.boot for life in lives] == [1, 2, 3]
    assert [life.identity.renewed for life in lives] == [None] * 3


@pytest.mark.parametrize("command", [("cp", "-a"), ("cp", "-r")], ids=["with all its attributes", "plainly"])
def test_a_copy_is_a_source_of_its_own(
    tmp_path: Path, command: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """What it writes has numbers that nobody else uses; what both have keeps its own, and counts once."""
    original = spooled(tmp_path / "one")
    subprocess.run([*command, tmp_path / "one", tmp_path / "two"], check=True)
    spooled(tmp_path / "one")
    spooled(tmp_path / "two")
    one, two = Spool.open(tmp_path / "one"), Spool.open(tmp_path / "two")
    taken = identities(one), identities(two)
    one.abandon()
    two.abandon()

    assert taken[0] == [(original.source, boot, seq) for boot in (1, 2) for seq in range(3)]
    assert taken[1] == [(original.source, 1, seq) for seq in range(3)] + [(two.source, 2, seq) for seq in range(3)]
    assert two.source != original.source
    (warning,) = [each.__dict__ for each in caplog.records if each.levelname == "WARNING"]
    assert (warning["why"], warning["before"], warning["source"]) == (COPIED, original.source, two.source)


def test_a_copy_of_a_running_spool_is_a_source_of_its_own(tmp_path: Path) -> None:
    """Its books say of the start that it was copied from only what the copy holds: the original goes on."""
    original = Spool.open(tmp_path / "one")
    record = Spooled(0, 0, 5, TOPIC, 1, f"{TOPIC}/1", "application/x-ndjson", b"host", 10, b"v")
    original.append(record)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    original.append(record)
    two = Spool.open(tmp_path / "two")
    two.append(record)
    rows = book_rows(two.books, two.identity.source_of, "h", 7, two.end_of)
    original.abandon()
    two.abandon()

    lines = [(row["source"], row["boot"], row["events"], row["seq_to"]) for row in rows]
    assert lines == [(original.source, 1, 10, 1), (two.source, 2, 10, 1)]


@pytest.mark.parametrize(
    ("field", "renewed"),
    [("machine", OTHER_MACHINE), ("started", RESTARTED), ("folder", COPIED)],
    ids=["another machine", "the machine restarted, or is a copy with the same id", "another disk"],
)
def test_a_source_is_bound_to_its_place(tmp_path: Path, field: str, renewed: str) -> None:
    """Whatever of it differs, the source is another; back again it is a third, since the numbers went on meanwhile."""
    place = Place("machine", "start", "folder")
    (tmp_path / "spool").mkdir()
    known = [next_identity(tmp_path / "spool", fresh=True, place=place)]
    known += [
        next_identity(tmp_path / "spool", fresh=False, place=each)
        for each in (place, replace(place, **{field: "other"}), place)
    ]

    assert [each.renewed for each in known] == [None, None, renewed, renewed]
    assert [each.boot for each in known] == [1, 2, 3, 4]
    assert len({each.source for each in known}) == 3
    assert [known[3].source_of(boot) for boot in (1, 2, 3, 4)] == [each.source for each in known]


def test_a_place_is_read_from_this_machine(tmp_path: Path) -> None:
    """Two folders differ; where the system names neither machine nor start, the folder alone tells."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here, there = Place.of(tmp_path / "a"), Place.of(tmp_path / "b")

    assert (here.machine, here.started) == (there.machine, there.started)
    assert here.folder != there.folder


def test_a_container_without_a_machine_id_keeps_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a volume: its folder stays the same."""
    monkeypatch.setattr(module, "_MACHINE_ID", tmp_path / "missing")
    monkeypatch.setattr(live_process, "BOOT_ID", tmp_path / "missing")

    assert spooled(tmp_path / "spool").source == spooled(tmp_path / "spool").source


@pytest.mark.parametrize("with_time", [True, False], ids=["with the times of its files", "without"])
def test_an_older_copy_that_is_put_back_uses_no_number_again(tmp_path: Path, with_time: bool) -> None:
    """File by file into the folder that it was made of: inode and machine are the same."""
    folder, backup = tmp_path / "spool", tmp_path / "backup"
    spooled(folder, 3)
    shutil.copytree(folder, backup)
    lost = spooled(folder, 5)
    for path in (path for path in backup.rglob("*") if path.is_file()):
        (shutil.copy2 if with_time else shutil.copyfile)(path, folder / path.relative_to(backup))
    again = Spool.open(folder)
    taken = identities(again)
    again.abandon()

    assert again.identity.renewed == RESTORED
    assert again.boot == lost.boot
    assert again.source != lost.source
    assert taken[:3] == [(lost.source, 1, seq) for seq in range(3)]


def test_a_folder_of_the_release_before_is_bound_when_it_is_opened(tmp_path: Path) -> None:
    """It keeps its source: nothing says that it is a copy. The next copy is noticed."""
    first = spooled(tmp_path / "spool")
    path = tmp_path / "spool" / "identity.json"
    path.write_text(json.dumps({"source": first.source, "boot": 1}))
    (tmp_path / "spool" / "lock").write_text("")
    upgraded = spooled(tmp_path / "spool")
    shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    copy = spooled(tmp_path / "copy")

    assert (upgraded.source, upgraded.boot, upgraded.identity.renewed) == (first.source, 2, None)
    assert copy.source != first.source


def test_sources_are_forgotten_with_their_records(tmp_path: Path) -> None:
    """Those whose boots are in segments or books are kept, however often the folder moves."""
    folder = tmp_path / "0"
    spooled(folder, delivered=True)
    sources = []
    for number in range(1, 4):
        shutil.copytree(folder, tmp_path / str(number))
        folder = tmp_path / str(number)
        sources.append(spooled(folder, 1).source)
    last = Spool.open(folder)
    earlier = [source for source, _ in last.identity.earlier]
    last.abandon()
    next_identity(folder, fresh=False, oldest_boot=99)

    assert len(set(sources)) == 3
    assert earlier[-2:] == sources[:2]
    assert json.loads((folder / "identity.json").read_bytes())["earlier"] == []


def test_a_boot_of_its_own_ends_for_good(tmp_path: Path) -> None:
    """Its row covers every number, whether its segments are there or not; one of a copied source only what is there."""
    first = spooled(tmp_path / "spool", 3)
    again = Spool.open(tmp_path / "spool")
    ends = [again.end_of(boot) for boot in (1, 2)]
    again.abandon()

    assert first.boot == 1
    assert ends == [SEQ_ALL, 0]


def files(folder: Path) -> set[tuple[int, int]]:
    """Inode and blocks of all that lies there."""
    return {(found.st_ino, found.st_blocks) for each in folder.rglob("*") if (found := each.stat())}


def test_an_opening_takes_no_more_of_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is made and none grows, so that a spool that filled its disk can be opened, and drained."""
    folder = tmp_path / "spool"
    spooled(folder)
    before = files(folder)
    open_file = os.open

    def full(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and not path.exists():
            raise OSError(28, "No space left on device")
        return open_file(path, flags, mode)

    monkeypatch.setattr("producers.spool.identity.os.open", full)
    boots = [spooled(folder, 0).boot for _ in range(3)]

    assert boots == [2, 3, 4]
    assert files(folder) == before


def test_a_disk_without_room_for_the_next_start_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a start of the release before, which leaves no file for the next one; this start is not held up."""
    folder = tmp_path / "spool"
    spooled(folder, 0)
    (folder / "identity.new").replace(folder / "identity.json")
    (folder / "identity.json").write_text(json.dumps({"source": "ab" * 16, "boot": 7}))
    write = os.write
    room = [16 * 1024, 64]

    def nearly_full(descriptor: int, data: bytes) -> int:
        if len(data) not in room:
            raise OSError(28, "No space left on device")
        room.remove(len(data))
        return write(descriptor, data)

    with monkeypatch.context() as disk:
        disk.setattr("producers.spool.identity.os.link", nothing)
        disk.setattr("producers.spool.identity.os.write", nearly_full)
        boots = [spooled(folder, 0).boot]
    boots += [spooled(folder, 0).boot for _ in range(2)]

    assert boots == [8, 9, 10]
    assert (folder / "identity.new").stat().st_size == 16 * 1024


def nothing(*_: Any) -> None:
    """A file system that has no second names."""
    raise OSError(1, "Operation not permitted")


class Killed(BaseException):
    pass


def killed_before(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The call with this number that changes something on disk is not made."""
    left = [step]

    def wrap(target: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(target, name)

        def counted(*args: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return call(*args, **named)

        monkeypatch.setattr(target, name, counted)

    for name in ("link", "write", "ftruncate", "fsync"):
        wrap(os, name)
    for name in ("replace", "unlink"):
        wrap(Path, name)


@pytest.mark.parametrize("before", ["a start", "a start that was killed after its link", "the release before"])
def test_a_kill_between_any_two_steps_leaves_an_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Of the last start or of this one; no number of a start whose records were sent is given again under a source."""
    step = 0
    finished = False
    while not finished:
        folder = tmp_path / str(step)
        known = [spooled(folder).identity]
        if before == "a start that was killed after its link":
            os.link(folder / "identity.json", folder / "identity.old")
        elif before == "the release before":
            (folder / "identity.new").unlink()
        with monkeypatch.context() as killing:
            killed_before(killing, step)
            try:
                known.append(next_identity(folder, fresh=False))
                finished = True
            except Killed:
                pass
        known += [next_identity(folder, fresh=False) for _ in range(2)]
        kept = json.loads((folder / "identity.json").read_bytes())
        step += 1

        assert len({(each.source, each.boot) for each in known}) == len(known)
        assert {each.source_of(1) for each in known} == {known[0].source}
        assert {each.renewed for each in known} <= {None, RESTORED}
        assert (known[-1].renewed, kept["source"], kept["boot"]) == (None, known[-1].source, known[-1].boot)
        assert (folder / "identity.json").stat().st_nlink == (folder / "identity.new").stat().st_nlink == 1
        assert not (folder / "identity.old").exists()
    assert step > 10
