from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import orjson
import pytest

from producers.batch import Batch
from producers.log_tail.mapping import Line, made_id
from producers.log_tail.service import run_log_tail
from producers.log_tail.tail import LogTailSettings
from producers.spool.slots import Slots
from runtime.counters import Counters
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS

FIELDS = {
    "at_ms": "t ms",
    "model": "=m",
    "tenant": "who",
    "request_id": "id",
    "engine_id": "engine",
    "placement_group": "engine",
}


class OneSpool:
    """A publisher that writes to a spool and sends nothing. ``room``: how many batches it takes before it is full."""

    def __init__(self, room: int = 1_000, refuse: Exception | None = None) -> None:
        self.taken: list[Batch] = []
        self.room = room
        self.full = asyncio.Event()
        self.came = asyncio.Event()
        self.refuse = refuse

    async def put(self, topic: str, key: bytes, batch: Batch, *, wait: bool = False) -> bool:
        assert wait
        assert topic == batch.topic
        if self.refuse is not None:
            raise self.refuse
        if len(self.taken) >= self.room:
            self.full.set()
            await asyncio.Event().wait()
        self.taken.append(batch)
        self.came.set()
        return True

    def shed(self, topic: str, events: int) -> None:
        raise AssertionError("nothing may be shed")

    async def ids(self, count: int) -> list[str]:
        """Request ids in the order they were spooled, when there are ``count``."""
        while len(found := [each["request_id"] for batch in self.taken for each in rows_in(batch)]) < count:
            self.came.clear()
            await self.came.wait()
        return found


def rows_in(batch: Batch) -> list[dict[str, Any]]:
    return rows_of(LLM_REQUESTS.fields, decode(batch.value, LLM_REQUESTS.fields))


class Noticing(Counters):
    """Counters that can be waited for, also from threads."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._seen: dict[str, asyncio.Event] = {}

    def add(self, name: str, by: float = 1, **labels: object) -> None:
        super().add(name, by, **labels)
        self._loop.call_soon_threadsafe(self._event(str(labels["field"])).set)

    async def counted(self, field: str) -> None:
        await self._event(field).wait()

    async def counted_more(self, field: str, times: int) -> None:
        for _ in range(times):
            self._event(field).clear()
            await self.counted(field)

    def _event(self, field: str) -> asyncio.Event:
        return self._seen.setdefault(field, asyncio.Event())


class Rig:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "requests.log"
        self.settings = LogTailSettings(
            self.path, folder / "state" / "position", FIELDS, {"host": "h"}, from_start=True, poll_ms=5, rotated_ms=0
        )
        self.counters = Noticing()

    def write(self, *ids: str, engine: str = "e") -> None:
        with self.path.open("ab") as file:
            for each in ids:
                file.write(orjson.dumps({"t": 1, "id": each, "engine": engine}) + b"\n")

    async def run(self, publisher: OneSpool, until: Any) -> None:
        """The service, until ``until`` is done and it is stopped."""
        stop = asyncio.Event()
        service = asyncio.ensure_future(
            run_log_tail(publisher, self.settings, stop, counters=self.counters)  # type: ignore[arg-type]
        )
        waiting = asyncio.ensure_future(until)
        await asyncio.wait([service, waiting], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await service
        await waiting


@pytest.fixture
async def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_lines_become_requests_and_the_place_is_kept(rig: Rig) -> None:
    """Over an end of the agent; one record per key; nothing twice."""
    rig.write("1", "2")
    rig.write("3", engine="f")
    first = OneSpool()
    await rig.run(first, first.ids(3))
    rig.write("4")
    second = OneSpool()
    await rig.run(second, second.ids(1))

    assert [(batch.key, batch.count) for batch in first.taken] == [(b"e", 2), (b"f", 1)]
    assert {name: value for name, value in rows_in(first.taken[0])[0].items() if value} == {
        "at_ms": 1,
        "model": "m",
        "host": "h",
        "origin": "measured",
        "reported_by": "log",
        "engine_id": "e",
        "placement_group": "e",
        "request_id": "1",
        "status": "ok",
    }
    assert await second.ids(1) == ["4"]


async def test_an_end_between_spool_and_position_sends_one_chunk_again(rig: Rig) -> None:
    """Raw rows carry the same ids, generated ones included."""
    rig.path.write_bytes(b'{"t": 1}\n{"t": 2, "id": "mine"}\n')
    publisher = OneSpool()

    class KilledError(Exception):
        pass

    async def put(topic: str, key: bytes, batch: Batch, *, wait: bool = False) -> bool:
        publisher.taken.append(batch)
        raise KilledError

    dying: Any = OneSpool()
    dying.put = put
    with pytest.raises(KilledError):
        await run_log_tail(dying, rig.settings, asyncio.Event(), counters=rig.counters)
    await rig.run(publisher, publisher.ids(4))

    made = made_id(Line(0, b'{"t": 1}'), "h", str(rig.settings.path))
    assert await publisher.ids(4) == [made, "mine", made, "mine"]


async def test_a_full_spool_is_waited_for_and_an_end_leaves_the_rest_in_the_log(rig: Rig) -> None:
    """Nothing is shed; what was not spooled is read at the next start."""
    rig.write("1")
    full = OneSpool(room=0)
    await rig.run(full, full.full.wait())
    publisher = OneSpool()
    await rig.run(publisher, publisher.ids(1))

    assert await publisher.ids(1) == ["1"]


async def test_a_disk_that_takes_no_position_repeats_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service goes on from what it knows, and the position is written as soon as the disk takes it."""
    publisher, write, written = OneSpool(), Slots.write, asyncio.Event()

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "broken")

    def taken(slots: Slots, value: bytes, *, durable: bool = True) -> None:
        write(slots, value, durable=durable)
        written.set()

    async def mended() -> None:
        await publisher.ids(1)
        await rig.counters.counted_more("position", 2)
        rig.write("2")
        await publisher.ids(2)
        monkeypatch.setattr(Slots, "write", taken)
        await written.wait()

    rig.write("1")
    monkeypatch.setattr(Slots, "write", refused)
    await rig.run(publisher, mended())
    rig.write("3")
    after = OneSpool()
    await rig.run(after, after.ids(1))

    assert (await publisher.ids(2), await after.ids(1)) == (["1", "2"], ["3"])


async def test_lines_left_out_are_counted_once_they_are_passed(rig: Rig) -> None:
    """Also when none is left of a chunk."""
    rig.path.write_bytes(b"broken\n")
    publisher = OneSpool()

    async def next_line() -> None:
        await rig.counters.counted("no JSON")
        rig.write("1")
        await publisher.ids(1)

    await rig.run(publisher, next_line())

    assert rig.counters.value("sampler_errors", sampler="log_tail", field="no JSON") == 1


async def test_a_log_that_cannot_be_read_is_counted_and_tried_again(rig: Rig) -> None:
    """The service goes on."""
    rig.path.mkdir()
    publisher = OneSpool()

    async def mended() -> None:
        await rig.counters.counted("file")
        rig.path.rmdir()
        rig.write("1")
        await publisher.ids(1)

    await rig.run(publisher, mended())

    assert await publisher.ids(1) == ["1"]


async def test_the_same_trouble_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Until the log can be read again, or the trouble is another; it is counted each time."""
    publisher = OneSpool()

    async def trouble() -> None:
        await rig.counters.counted_more("file", 3)
        rig.path.rmdir()
        rig.path.symlink_to(rig.path)
        await rig.counters.counted_more("file", 3)
        rig.path.unlink()
        rig.write("1")
        await publisher.ids(1)
        rig.path.unlink()
        rig.path.mkdir()
        await rig.counters.counted_more("file", 3)

    rig.path.mkdir()
    await rig.run(publisher, trouble())

    errors = [vars(record)["error"] for record in caplog.records if "unreadable" in record.message]
    no_file = f"{rig.path} is no file"
    assert [error.partition("]")[0] for error in errors] == [no_file, f"[Errno {errno.ELOOP}", no_file]


async def test_settings_that_cannot_be_meant_end_it_at_once(rig: Rig, tmp_path: Path) -> None:
    """Before anything is read."""
    (tmp_path / "state").write_text("a file")

    with pytest.raises(ConfigError, match="position"):
        await rig.run(OneSpool(), asyncio.sleep(0))
    wrong = LogTailSettings(rig.path, tmp_path / "p", {"model": "=m"}, {})
    with pytest.raises(ConfigError, match="at_ms"):
        await run_log_tail(OneSpool(), wrong, asyncio.Event())  # type: ignore[arg-type]
