"""The topic of alerts is read to its end, however slow the broker is."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition

from fleetpulse.alerts import view
from fleetpulse.alerts.view import _to_end, of_records, open_of, row_of, silences_of
from runtime.config import KafkaConfig
from schemas.contract import alerts
from schemas.contract.alert_commands import Command, encode

AT = TopicPartition("alerts", 0)


class Broker:
    """Gives out batches of offsets, an empty one where it is slow, None where it does not answer; markers behind the
    last record never."""

    def __init__(self, end: int, *batches: list[int] | None) -> None:
        self._end, self._batches, self._position = end, deque(batches), 0
        self.fetches, self._answers = 0, 0

    def last_poll_timestamp(self, _: Any) -> int | None:
        return self._answers or None

    async def end_offsets(self, _: Any) -> dict[TopicPartition, int]:
        return {AT: self._end}

    async def position(self, _: Any) -> int:
        return self._position

    async def getmany(self, _: Any, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        self.fetches += 1
        offsets = self._batches.popleft() if self._batches else []
        self._answers += offsets is not None
        if not offsets:
            return {}
        self._position = offsets[-1] + 1
        return {AT: [SimpleNamespace(key=b"k", value=bytes([offset])) for offset in offsets]}


@pytest.mark.parametrize(
    ("broker", "fetches"),
    [
        pytest.param(Broker(3, [0, 1, 2]), 1, id="no marker"),
        pytest.param(Broker(4, [0, 1, 2]), 2, id="a marker behind the last record"),
        pytest.param(Broker(4, [], [], [0, 1, 2]), 4, id="slow at first"),
        pytest.param(Broker(4, [0], [], [1, 2]), 4, id="slow in between"),
        pytest.param(Broker(5, [0, 1, 2]), 4, id="two markers behind the last record"),
        pytest.param(Broker(3, None, None, None, None, [0, 1, 2]), 5, id="silent for long"),
        pytest.param(Broker(4, [0, 1], None, [2]), 4, id="silent where the end is near"),
    ],
)
async def test_every_record_is_read(broker: Broker, fetches: int) -> None:
    """A quiet moment is no end, unless nothing but a marker can be left; silence never is."""
    found = [value async for _, value in _to_end(broker, AT)]

    assert found == [b"\0", b"\1", b"\2"]
    assert broker.fetches == fetches


async def test_silences_are_known_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other commands, and what is none, are no silences."""
    silence = Command("mute", "s-1", {"host": "h"}, 1_000, 2_000)
    sent = [encode(silence), encode(Command("unmute", "s-2")), encode(Command("ran", "r-1")), b"junk", None]

    async def records_of(kafka: object, topic: str) -> list[tuple[None, bytes | None]]:
        return [(None, value) for value in sent]

    monkeypatch.setattr(view, "records_of", records_of)

    assert await silences_of(KafkaConfig()) == {"s-1": silence}


MEMBER = {"rule": "r", "severity": "info", "labels": {}, "since_ms": 0, "until_ms": None}


@pytest.mark.parametrize(
    "odd",
    [
        {"opened_ms": "soon"},
        {"severity": "fatal"},
        {"labels": ["host"]},
        {"members": [{**MEMBER, "since_ms": "soon"}]},
        {"members": [{**MEMBER, "until_ms": "late"}]},
    ],
    ids=lambda odd: next(iter(odd)),
)
def test_what_others_wrote_that_is_no_alert_hides_none(odd: dict[str, Any]) -> None:
    """Under a key of its own, and under that of an alert, whose last good record counts."""
    alert = alerts.Alert("0" * 16, "opened", 1, "hot", "warning", "It is hot", "", {"host": "h"}, 2_000, 1_000, 2_000)
    good = alerts.encode(alert)
    bad = orjson.dumps({**orjson.loads(good), **odd})

    found = open_of(of_records([(b"0" * 16, good), (b"0" * 16, bad), (b"1" * 16, bad)]))

    assert [row_of(one, 3_000) for one in found] == [row_of(alert, 3_000)]
