from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import pytest

from fleetpulse.export.remote import RemoteWrite, Rows, Sent, Unavailable
from fleetpulse.export.series import COLUMNS
from runtime.counters import Counters
from runtime.remote_write_config import RemoteWriteConfig
from schemas.limits import MINUTE_MS
from tests.unit.fleetpulse.export.test_wire import unpacked

CONFIG = RemoteWriteConfig(settle_ms=5_000, catch_up_ms=60_000)


class Receiver:
    """Answers with the next of these statuses, for ever the last; keeps what it took."""

    def __init__(self, *statuses: int | OSError) -> None:
        self.statuses = list(statuses)
        self.taken: list[bytes] = []

    def __call__(self, body: bytes) -> tuple[int, str]:
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if isinstance(status, OSError):
            raise status
        if status < 300:
            self.taken.append(body)
        return status, "why"


class Asked:
    """One engine with a queue of its window's number, in the windows that begin at ``times``."""

    def __init__(self, times: Container[int] = range(0, 10_000_000, 10_000)) -> None:
        self.times = times
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
        if query != "windows_by_engine":
            return ("window_ms", *COLUMNS[query]), []
        self.ranges.append((from_ms, to_ms))
        nothing = dict.fromkeys(COLUMNS[query])
        rows = [
            (at_ms, "e", *(nothing | {"waiting": at_ms // 10_000}).values())
            for at_ms in range(from_ms, to_ms, 10_000)
            if at_ms in self.times
        ]
        return ("window_ms", "engine_id", *nothing), rows

    def first_ms(self, query: str, from_ms: int, to_ms: int) -> int | None:
        begins = range(from_ms, to_ms, 10_000) if query == "windows_by_engine" else ()
        return next((at_ms for at_ms in begins if at_ms in self.times), None)


def test_windows_go_out_once_they_have_settled(tmp_path: Path) -> None:
    """First the last one, then those since, never one twice; a process that starts again goes on."""
    asked, receiver, counters = Asked(), Receiver(204), Counters()
    first = RemoteWrite(CONFIG, asked, receiver, tmp_path / "sub" / "position", counters)
    done = [first.round(now_ms) for now_ms in (104_999, 105_000, 114_999)]
    again = RemoteWrite(CONFIG, asked, receiver, tmp_path / "sub" / "position", counters)
    done.append(again.round(126_000))

    assert done == [
        Sent(80_000, 90_000, 1),
        Sent(90_000, 100_000, 1),
        Sent(100_000, 100_000),
        Sent(100_000, 120_000, 2),
    ]
    assert asked.ranges == [(80_000, 90_000), (90_000, 100_000), (100_000, 120_000)]
    assert [samples for body in receiver.taken for samples in unpacked(body).values()] == [
        [(90_000, 8.0)],
        [(100_000, 9.0)],
        [(110_000, 10.0)],
        [(120_000, 11.0)],
    ]
    assert counters.value("export_samples", outcome="sent") == 4
    assert counters.value("export_window_ms") == 120_000


@pytest.mark.parametrize("failure", [500, 503, 429, 401, 403, 404, 301, 307, OSError("refused")], ids=str)
def test_what_could_not_be_taken_now_is_sent_again(tmp_path: Path, failure: int | OSError) -> None:
    """The position stays where it was, and so does what is sent: nobody knows how much of it the receiver took."""
    asked = Asked()
    writer = RemoteWrite(CONFIG, asked, Receiver(failure, 200), tmp_path / "position", Counters())

    with pytest.raises(Unavailable):
        writer.round(105_000)
    done = writer.round(105_000)

    assert (done, asked.ranges) == (Sent(90_000, 100_000, 1), [(90_000, 100_000)])


class InOrder:
    """Takes samples of a series in their order alone, and a request as a whole, as Prometheus does; fails requests of
    these numbers."""

    def __init__(self, *failing: int) -> None:
        self.failing = failing
        self.requests = 0
        self.held: dict[object, list[int]] = {}

    def __call__(self, body: bytes) -> tuple[int, str]:
        self.requests += 1
        if self.requests in self.failing:
            return 503, "down"
        came = {series: [at_ms for at_ms, _ in samples] for series, samples in unpacked(body).items()}
        if any(self.held.get(series, [0])[-1] > times[0] for series, times in came.items()):
            return 400, "out of order sample"
        for series, times in came.items():
            self.held.setdefault(series, []).extend(times)
        return 204, ""


def test_a_round_that_fails_part_way_loses_no_window(tmp_path: Path) -> None:
    """What was taken is not sent again before newer windows of its series; the outcome counts once."""

    class TwoEngines(Asked):
        def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
            nothing = dict.fromkeys(COLUMNS[query], 1)
            engines = ("a", "b") if query == "windows_by_engine" else ()
            rows = [(at_ms, engine, *nothing.values()) for at_ms in range(from_ms, to_ms, 10_000) for engine in engines]
            return ("window_ms", "engine_id", *nothing), rows

    config, receiver, counters = CONFIG.model_copy(update={"samples_max": 4}), InOrder(3, 4), Counters()
    (tmp_path / "position").write_text("70000")
    writer = RemoteWrite(config, TwoEngines(), receiver, tmp_path / "position", counters)

    for now_ms in (105_000, 115_000):
        with pytest.raises(Unavailable):
            writer.round(now_ms)
    done = [writer.round(now_ms) for now_ms in (125_000, 135_000)]

    assert done == [Sent(70_000, 100_000, 30), Sent(100_000, 130_000, 30)]
    assert list(receiver.held.values()) == [[80_000, 90_000, 100_000, 110_000, 120_000, 130_000]] * 10
    assert counters.value("export_samples", outcome="sent") == 60
    assert (tmp_path / "position").read_text() == "130000\n"


def test_what_is_rejected_is_counted_and_left(tmp_path: Path) -> None:
    """Prometheus answers 400 to samples that are too old: sending them again would never end."""
    counters = Counters()
    writer = RemoteWrite(CONFIG, Asked(), Receiver(400), tmp_path / "position", counters)

    assert writer.round(105_000) == Sent(90_000, 100_000, 0, 1)
    assert writer.round(105_000) == Sent(100_000, 100_000)
    assert counters.value("export_samples", outcome="rejected") == 1


def test_windows_that_are_too_old_take_no_others_along(tmp_path: Path) -> None:
    """A request with one sample that is too old is rejected as a whole: none holds two windows."""
    (tmp_path / "position").write_text("70000")
    taken = list[int]()

    def post(body: bytes) -> tuple[int, str]:
        times = [at_ms for samples in unpacked(body).values() for at_ms, _ in samples]
        if min(times) < 90_000:
            return 400, "out of bounds"
        taken.extend(times)
        return 204, ""

    writer = RemoteWrite(CONFIG, Asked(), post, tmp_path / "position", Counters())

    assert writer.round(125_000) == Sent(70_000, 120_000, sent=4, rejected=1)
    assert taken == [90_000, 100_000, 110_000, 120_000]


def test_what_is_caught_up_by_default_is_not_too_old_for_prometheus() -> None:
    """Samples an hour older than its newest one are; the export takes a while."""
    config = RemoteWriteConfig()

    assert config.catch_up_ms + config.settle_ms <= 55 * MINUTE_MS


def test_a_long_pause_is_not_made_up_for(tmp_path: Path) -> None:
    """Windows older than ``catch_up_ms`` are skipped; a position that is damaged is none."""
    (tmp_path / "position").write_text("10000")
    (tmp_path / "damaged").write_text("x")
    asked = Asked()

    for name in ("position", "damaged"):
        RemoteWrite(CONFIG, asked, Receiver(200), tmp_path / name, Counters()).round(1_005_000)

    assert asked.ranges == [(940_000, 1_000_000), (990_000, 1_000_000)]


@pytest.mark.parametrize(("position_ms", "times", "seen_ms"), [(100_000, [100_000], 110_000), (3_600_000, [], 0)])
def test_what_was_never_there_is_not_said_to_be_exported(
    tmp_path: Path, position_ms: int, times: list[int], seen_ms: int
) -> None:
    """The gauge stands at the newest window that there was, so that it gets old where jobs or sink are down."""
    (tmp_path / "position").write_text(str(position_ms))
    counters = Counters()
    writer = RemoteWrite(CONFIG, Asked(times), Receiver(200), tmp_path / "position", counters)

    for now_ms in (115_000, 125_000, 155_000):
        writer.round(now_ms)
        assert counters.value("export_window_ms") == seen_ms


HOUR = RemoteWriteConfig(settle_ms=5_000, catch_up_ms=3_600_000)


def test_a_pause_is_made_up_for_a_minute_at_a_time(tmp_path: Path) -> None:
    """So that what a round holds is bounded. Each goes on where the one before was taken, in another process, too."""
    (tmp_path / "position").write_text("100000")
    asked, receiver = Asked(), Receiver(200)
    first = RemoteWrite(HOUR, asked, receiver, tmp_path / "position", Counters())

    assert (first.round(275_000), first.behind) == (Sent(100_000, 160_000, 6), True)
    receiver.statuses = [503]
    with pytest.raises(Unavailable):
        first.round(275_000)
    receiver.statuses = [200]
    again = RemoteWrite(HOUR, asked, receiver, tmp_path / "position", Counters())
    assert (again.round(275_000), again.behind) == (Sent(160_000, 220_000, 6), True)
    assert (again.round(275_000), again.behind) == (Sent(220_000, 270_000, 5), False)
    assert (again.round(275_000), again.behind) == (Sent(270_000, 270_000), False)
    assert asked.ranges == [(100_000, 160_000), *[(160_000, 220_000)] * 2, (220_000, 270_000)]


def test_a_long_time_without_windows_is_one_step(tmp_path: Path) -> None:
    """What comes after it is sent a minute at a time; where nothing does, the next round looks again."""
    (tmp_path / "position").write_text("100000")
    asked = Asked(())
    writer = RemoteWrite(HOUR, asked, Receiver(200), tmp_path / "position", Counters())

    assert (writer.round(2_005_000), writer.behind) == (Sent(100_000, 2_000_000), False)
    asked.times = range(1_500_000, 2_000_000, 10_000)
    assert (writer.round(2_005_000), writer.behind) == (Sent(1_500_000, 1_560_000, 6), True)
    assert (tmp_path / "position").read_text() == "1560000\n"
    assert asked.ranges == [*[(100_000, 160_000)] * 2, (1_500_000, 1_560_000)]


@pytest.mark.parametrize("ahead_ms", [30_000, 3_600_000])
def test_a_position_ahead_of_the_clock_stops_nothing(
    tmp_path: Path, ahead_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The export begins at the last window, says so, and goes on from there."""
    (tmp_path / "position").write_text(str(100_000 + ahead_ms))
    writer = RemoteWrite(CONFIG, Asked(), Receiver(200), tmp_path / "position", Counters())

    assert writer.round(105_000) == Sent(90_000, 100_000, 1)
    assert writer.ahead is not None
    assert [record.message for record in caplog.records] == [
        "export position lies ahead of the clock; beginning at the last window"
    ]
    assert writer.round(115_000) == Sent(100_000, 110_000, 1)
    assert writer.ahead is None


def test_a_clock_that_is_set_back_a_little_is_waited_for(tmp_path: Path) -> None:
    """By a window: what was sent is not sent again."""
    (tmp_path / "position").write_text("110000")
    writer = RemoteWrite(CONFIG, Asked(), Receiver(200), tmp_path / "position", Counters())

    assert writer.round(105_000) == Sent(110_000, 110_000)
    assert writer.ahead is None


def test_the_position_lies_never_beyond_a_window_that_was_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the clock said: once it is right again, nothing was skipped; a pause in which nothing came is none."""
    asked, receiver = Asked(range(0, 100_000, 10_000)), InOrder()
    writer = RemoteWrite(CONFIG, asked, receiver, tmp_path / "position", Counters())

    assert writer.round(105_000) == Sent(90_000, 100_000, 1)
    assert writer.round(3_605_000) == Sent(3_540_000, 3_600_000)
    caplog.clear()
    assert writer.round(155_000) == Sent(100_000, 150_000)
    for now_ms in range(165_000, 265_000, 10_000):
        writer.round(now_ms)
    asked.times = range(0, 300_000, 10_000)
    assert writer.round(265_000) == Sent(200_000, 260_000, 6)
    assert (tmp_path / "position").read_text() == "260000\n"
    assert caplog.records == []
