from __future__ import annotations

from pathlib import Path

import pytest

from fleetpulse.export.remote import RemoteWrite, Rows, Sent, Unavailable
from fleetpulse.export.series import COLUMNS
from runtime.counters import Counters
from runtime.remote_write_config import RemoteWriteConfig
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
    """One engine with a queue of its window's number."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, query: str, from_ms: int, to_ms: int) -> Rows:
        if query != "windows_by_engine":
            return ("window_ms", *COLUMNS[query]), []
        self.ranges.append((from_ms, to_ms))
        nothing = dict.fromkeys(COLUMNS[query])
        rows = [
            (at_ms, "e", *(nothing | {"waiting": at_ms // 10_000}).values()) for at_ms in range(from_ms, to_ms, 10_000)
        ]
        return ("window_ms", "engine_id", *nothing), rows


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
        [(110_000, 10.0), (120_000, 11.0)],
    ]
    assert counters.value("export_samples", outcome="sent") == 4
    assert counters.value("export_window_ms") == 120_000


@pytest.mark.parametrize("failure", [500, 503, 429, OSError("refused")], ids=str)
def test_what_could_not_be_taken_now_is_sent_again(tmp_path: Path, failure: int | OSError) -> None:
    """The position stays where it was."""
    asked = Asked()
    writer = RemoteWrite(CONFIG, asked, Receiver(failure, 200), tmp_path / "position", Counters())

    with pytest.raises(Unavailable):
        writer.round(105_000)
    done = writer.round(105_000)

    assert (done, asked.ranges) == (Sent(90_000, 100_000, 1), [(90_000, 100_000)] * 2)


def test_what_is_rejected_is_counted_and_left(tmp_path: Path) -> None:
    """Prometheus answers 400 to samples that are too old: sending them again would never end."""
    counters = Counters()
    writer = RemoteWrite(CONFIG, Asked(), Receiver(400), tmp_path / "position", counters)

    assert writer.round(105_000) == Sent(90_000, 100_000, 0, 1)
    assert writer.round(105_000) == Sent(100_000, 100_000)
    assert counters.value("export_samples", outcome="rejected") == 1


def test_a_long_pause_is_not_made_up_for(tmp_path: Path) -> None:
    """Windows older than ``catch_up_ms`` are skipped; a position that is damaged is none."""
    (tmp_path / "position").write_text("10000")
    (tmp_path / "damaged").write_text("x")
    asked = Asked()

    for name in ("position", "damaged"):
        RemoteWrite(CONFIG, asked, Receiver(200), tmp_path / name, Counters()).round(1_005_000)

    assert asked.ranges == [(940_000, 1_000_000), (990_000, 1_000_000)]
