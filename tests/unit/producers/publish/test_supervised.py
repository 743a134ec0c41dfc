"""A publisher that fails: what comes meanwhile waits or is declared, and nothing is raised to who serves."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from producers.batch import Batch
from producers.publish.supervised import REOPEN, WAITING_EVENTS_MAX, SupervisedPublisher
from producers.publish.writer import WAITING_BYTES_MAX
from runtime.counters import Counters
from schemas.errors import ConfigError, ContractError, RejectedError
from tests.virtual_clock import VirtualClock

TOPIC = "llm.requests"
NO_WRITE = OSError(errno.EROFS, "Read-only file system")


def batch(events: int = 1, value: bytes = b"v") -> Batch:
    return Batch(TOPIC, "s/1", "t", b"h", events, value)


class Double:
    """A publisher that records, and fails where it is given an error."""

    def __init__(self) -> None:
        self.declared: list[tuple[str, int]] = []
        self.unwritten: list[Batch] = []
        self.why: str | None = None
        self.failure: BaseException | None = None
        self.error: Exception | None = None
        self.values: list[bytes] = []
        self.end = ""

    async def put(self, topic: str, key: bytes, batch: Batch, *, wait: bool = False) -> bool:
        return self.put_at_once(batch)

    def put_at_once(self, batch: Batch) -> bool:
        if self.error is not None:
            raise self.error
        self.values.append(batch.value)
        return True

    def declare(self, topic: str, events: int) -> None:
        self.declared.append((topic, events))

    def left(self) -> tuple[list[Batch], dict[str, int]]:
        return self.unwritten, dict(self.declared)

    async def close(self, drain_s: float) -> bool:
        self.end = "closed"
        if self.error is not None:
            raise self.error
        return True

    async def abandon(self) -> None:
        self.end = "abandoned"
        raise NO_WRITE


class Setting:
    """``made`` publishers; ``errors`` of the next openings come first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made: list[Double] = []
        self.clock, self.counters = VirtualClock(), Counters()
        self.publisher = SupervisedPublisher(self._open, clock=self.clock, counters=self.counters, chance=lambda: 1.0)

    async def _open(self) -> Double:
        if self.errors:
            raise self.errors.pop(0)
        self.made.append(Double())
        return self.made[-1]

    async def put(self, *batches: Batch) -> list[bool]:
        return [await self.publisher.put(each.topic, each.key, each) for each in batches]

    async def after(self, seconds: float) -> None:
        """What the watching task does then."""
        self.clock.advance(round(seconds * 1_000))
        await self.publisher._look()

    def counted(self, error: str = "OSError") -> tuple[float, float, float]:
        """Whether it is down, its failures, the events shed."""
        value = self.counters.value
        return (
            value("edge_publisher_down"),
            value("edge_publisher_failures", error=error),
            value("edge_events_shed", topic=TOPIC),
        )


async def started(setting: Setting) -> Setting:
    await setting.publisher.start()
    return setting


async def test_a_disk_that_takes_no_spool_at_the_start_is_tried_again() -> None:
    """Batches wait meanwhile, and go first and in order when it does."""
    setting = await started(Setting(NO_WRITE, NO_WRITE))

    put = await setting.put(batch(value=b"a"), batch(value=b"b"))
    why, down = setting.publisher.why, setting.counted()
    await setting.after(0.4)  # before its time
    await setting.after(0.1)  # in vain
    await setting.after(1.0)
    await setting.put(batch(value=b"c"))

    assert put == [True, True]
    assert why is not None
    assert "Read-only file system" in why
    assert down == (1, 1, 0)
    assert setting.made[0].values == [b"a", b"b", b"c"]
    assert setting.publisher.why is None
    assert setting.counted() == (0, 2, 0)
    await setting.publisher.close(0.0)


async def test_what_a_person_must_change_ends_the_start() -> None:
    """Where a person is there to read it; later it is tried again."""
    error = ConfigError("spool", "/s", "must be no other's")
    with pytest.raises(ConfigError):
        await Setting(error).publisher.start()

    setting = await started(Setting())
    setting.made[0].failure = NO_WRITE
    setting.errors.append(error)
    await setting.after(0.0)
    await setting.after(1.0)
    await setting.after(1.0)

    assert len(setting.made) == 2
    assert setting.publisher.why is None
    await setting.publisher.close(0.0)


async def test_a_damaged_spool_ends_no_start() -> None:
    """Requests are served; ``why`` names the file, and the next opening finds it restored."""
    setting = await started(Setting(ContractError("identity.json cannot be read")))
    why = setting.publisher.why
    await setting.after(0.5)

    assert why is not None
    assert "identity.json cannot be read" in why
    assert setting.publisher.why is None
    await setting.publisher.close(0.0)


async def test_a_publisher_that_ended_by_itself_is_replaced() -> None:
    """Left as a kill would leave it; whatever ended it, and though it cannot even be left in peace."""
    setting = await started(Setting())
    setting.made[0].failure = RuntimeError("a defect")

    await setting.after(0.0)
    put = await setting.put(batch(value=b"a"))
    down = setting.counted("RuntimeError")
    await setting.after(0.5)

    assert (put, down) == ([True], (1, 1, 0))
    assert setting.made[0].end == "abandoned"
    assert setting.made[1].values == [b"a"]
    await setting.publisher.close(0.0)


async def test_a_batch_that_it_failed_on_by_a_defect_is_shed_and_declared_once() -> None:
    """Another publisher might fail on it too: counted at once; in the books of the next one; others wait."""
    setting = await started(Setting())
    setting.made[0].error = KeyError("topic")

    put = await setting.put(batch(3, b"a"), batch(value=b"b"))
    shed = setting.counted("KeyError")
    await setting.after(0.5)

    assert (put, shed) == ([False, True], (1, 1, 3))
    assert setting.made[1].declared == [(TOPIC, 3)]
    assert setting.made[1].values == [b"b"]
    assert setting.counted("KeyError") == (0, 1, 3)
    await setting.publisher.close(0.0)


async def test_what_a_failed_disk_did_not_take_waits_for_the_next() -> None:
    """The batch that it failed on, those that it had taken and not written, and what it had to declare."""
    setting = await started(Setting())
    setting.publisher.shed(TOPIC, 5)
    setting.made[0].unwritten = [batch(value=b"c")]
    setting.made[0].error = NO_WRITE

    put = setting.publisher.put_at_once(batch(3, b"a"))
    await setting.after(0.5)

    assert put is True
    assert (setting.made[1].values, setting.made[1].declared) == ([b"a", b"c"], [(TOPIC, 5)])
    assert setting.counted() == (0, 1, 5)
    await setting.publisher.close(0.0)


async def test_who_waits_for_the_spool_waits_until_there_is_one() -> None:
    """A log can be read again: its lines need not fill the memory."""
    setting = await started(Setting(NO_WRITE))
    waiting = asyncio.create_task(setting.publisher.put(TOPIC, b"h", batch(value=b"a"), wait=True))
    await asyncio.sleep(0)
    early = waiting.done()
    await setting.after(0.5)

    assert (early, await waiting, setting.made[0].values) == (False, True, [b"a"])
    await setting.publisher.close(0.0)


async def test_who_waits_for_the_spool_keeps_its_batch_when_that_fails() -> None:
    """It goes to the next one, beyond what the memory holds; nothing of it is shed."""
    setting = await started(Setting())
    setting.made[0].error = NO_WRITE
    await setting.put(batch(WAITING_EVENTS_MAX, b"a"))
    setting.errors = [NO_WRITE]
    waiting = asyncio.create_task(setting.publisher.put(TOPIC, b"h", batch(value=b"b"), wait=True))
    await setting.after(0.5)
    await setting.after(1.0)
    first = await waiting
    setting.made[1].error = NO_WRITE
    again = asyncio.create_task(setting.publisher.put(TOPIC, b"h", batch(value=b"c"), wait=True))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    early = again.done()
    await setting.after(2.0)

    assert (first, early, await again) == (True, False, True)
    assert [each.values for each in setting.made] == [[], [b"a", b"b"], [b"c"]]
    assert setting.counters.value("edge_events_shed", topic=TOPIC) == 0
    await setting.publisher.close(0.0)


async def test_a_batch_that_the_spool_never_takes_costs_nothing_but_itself() -> None:
    """It is declared, and the publisher stays."""
    setting = await started(Setting())
    (double,) = setting.made
    double.error = RejectedError("too_large", "9 bytes; at most 8")

    put = await setting.put(batch(5))
    double.error = None
    await setting.put(batch(value=b"b"))

    assert put == [False]
    assert (double.declared, double.values) == ([(TOPIC, 5)], [b"b"])
    assert setting.counted() == (0, 0, 5)
    await setting.publisher.close(0.0)


async def test_memory_is_bounded_while_it_is_down() -> None:
    """On the bound all waits; what is beyond is shed, and declared with what else was."""
    setting = await started(Setting(NO_WRITE))

    put = await setting.put(batch(WAITING_EVENTS_MAX), batch(1), batch(1))
    setting.publisher.shed(TOPIC, 4)
    shed = setting.counted()
    await setting.after(0.5)

    assert (put, shed) == ([True, False, False], (1, 1, 6))
    assert setting.made[0].values == [b"v"]
    assert setting.made[0].declared == [(TOPIC, 6)]
    await setting.publisher.close(0.0)


async def test_large_values_are_bounded_by_their_bytes_while_it_is_down() -> None:
    """A batch of one event may have megabytes; once what waited is spooled, there is room for as much again."""
    setting = await started(Setting(NO_WRITE))
    half, rest = bytes(WAITING_BYTES_MAX // 2), bytes(WAITING_BYTES_MAX // 2 - 1)

    put = await setting.put(batch(value=half), batch(value=rest), batch(2, b"vv"))
    room = [setting.publisher.has_room(size_bytes) for size_bytes in (1, 2)]
    put += await setting.put(batch(value=b"v"))
    shed = setting.counted()
    await setting.after(0.5)
    setting.made[0].failure = NO_WRITE
    await setting.after(0.0)
    again = await setting.put(batch(value=half), batch(value=half), batch(value=b"v"))

    assert (put, room, shed) == ([True, True, False, True], [True, False], (1, 1, 2))
    assert [len(value) for value in setting.made[0].values] == [len(half), len(rest), 1]
    assert setting.made[0].declared == [(TOPIC, 2)]
    assert again == [True, True, False]
    await setting.publisher.close(0.0)


async def test_pauses_grow_and_begin_again_after_a_long_life() -> None:
    """Doubled up to the longest; a publisher that lived longer than that is taken for sound."""
    setting = await started(Setting(*[NO_WRITE] * 9))
    pauses = []
    while setting.errors:
        left = len(setting.errors)
        begun_s = setting.clock.monotonic_s()
        while len(setting.errors) == left:
            await setting.after(0.5)
        pauses.append(setting.clock.monotonic_s() - begun_s)
    while not setting.made:
        await setting.after(0.5)
    setting.made[0].failure = NO_WRITE
    await setting.after(REOPEN.max_s + 1)
    await setting.after(0.5)

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert len(setting.made) == 2
    await setting.publisher.close(0.0)


async def test_the_end_raises_nothing_and_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """It is opened once more for what waits; what could not be kept by then stands in the log."""
    saved, lost = await started(Setting(NO_WRITE)), await started(Setting(NO_WRITE, NO_WRITE))
    failing = await started(Setting())
    for setting in (saved, lost):
        await setting.put(batch(2, b"a"))
    failing.made[0].error = NO_WRITE

    with caplog.at_level(logging.ERROR):
        for setting in (saved, lost, failing):
            await setting.publisher.close(0.0)

    assert (saved.made[0].values, saved.made[0].end) == ([b"a"], "closed")
    assert [record.__dict__["events"] for record in caplog.records if "lost" in record.message] == [2]
