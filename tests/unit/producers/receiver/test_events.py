from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fleetpulse_track as track
from fleetpulse_track import training
from fleetpulse_track.handover import METRIC, STEP, hand_over_json
from producers.receiver.datagram import read
from producers.receiver.events import SeriesBound, rows_of
from runtime.edge_config import ReceiverConfig
from schemas.events.event_types import CUSTOM_METRICS, TRAINING_STEPS
from tests.unit.producers.receiver import sent, spooled
from tests.unit.producers.receiver.test_server import WHERE, receiving


def fields_of(kind: int, *texts: bytes, series_max: int = 10) -> tuple[list[dict[str, Any]], int, int]:
    client = sent.Recorded(kind=kind)
    for text in texts:
        hand_over_json(kind, text, 7_000, client)
    buffer, ends = sent.together(client.sent)

    found = rows_of(kind, buffer, read(buffer, ends), WHERE, SeriesBound(series_max).takes)

    return list(found.rows), found.broken, found.beyond


OWN = {"at_ms": 7_000, "host": "h-1", "cluster": None, "region": None, "origin": "measured"}


def test_a_row_is_what_the_client_sent_where_the_agent_is() -> None:
    """Fields that are the agent's to set, or nobody's, are left out; broken JSON is counted."""
    rows = fields_of(STEP, b'{"job":"sft","step":3,"loss_micro":null,"host":"x","mine":1}', b"[]", b"{")

    assert rows == ([OWN | {"job": "sft", "step": 3}], 2, 0)


def test_series_of_metrics_are_bounded() -> None:
    """Those that are known go on; of more nothing is taken, and that is counted."""
    texts = [b'{"metric":"m","attributes":"a=%d","value_micro":1}' % number for number in (1, 2, 3, 1)]

    rows, broken, beyond = fields_of(METRIC, *texts, series_max=2)

    assert ([row["attributes"] for row in rows], broken, beyond) == (["a=1", "a=2", "a=1"], 0, 1)


def test_bytes_are_kept_in_mib() -> None:
    """Of 16 GB the field holds no millionths; a unit that is none costs no other row."""
    texts = (
        b'{"metric":"torch_memory_peak","unit":"bytes","value_micro":%d}' % (16 * 2**30 * 10**6),
        b'{"metric":"m","unit":["bytes"],"value_micro":"x"}',
        b'{"metric":"m","unit":"bytes","value_micro":"x"}',
    )

    (peak, odd, wrong), broken, _ = fields_of(METRIC, *texts)

    assert (peak["unit"], peak["value_micro"]) == ("MiB", 16 * 1024 * 10**6)
    assert abs(peak["value_micro"]) <= (CUSTOM_METRICS.field("value_micro").high or 0)
    assert (odd["unit"], wrong["value_micro"], broken) == (["bytes"], "x", 0)


@pytest.mark.parametrize("rank", [0, 1])
async def test_steps_and_metrics_reach_the_spool(tmp_path: Path, rank: int) -> None:
    """Beside requests, over one socket, each in the topic and the books of its own."""
    settings = ReceiverConfig(linger_ms=5, metric_series_max=1)
    async with receiving(tmp_path, settings=settings) as running:
        connected = partial(track.Client, str(running.path))
        track.request("m", client=connected()).finish()
        run = training.Run("sft", model="m", rank=rank, client=connected(kind=STEP))
        run.step(loss=0.5, samples=8)
        metrics = connected(kind=METRIC)
        for attributes in ({"pool": "a"}, {"pool": "b"}):
            track.metric("depth", 3, client=metrics, **attributes)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 3)
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "series"] == 1)

        found = spooled.rows_by_topic(running.publisher, TRAINING_STEPS, CUSTOM_METRICS)
        books = {topic: tally.shed_events for (_, topic), tally in running.publisher.spool.books.items()}

    assert {topic: len(rows) for topic, rows in found.items()} == {"training.steps": 1, "custom.metrics": 1}
    (step,), (metric,) = found["training.steps"], found["custom.metrics"]
    assert (step["job"], step["rank"], step["loss_micro"], step["samples"]) == ("sft", str(rank), 500_000, 8)
    assert (metric["metric"], metric["value_micro"], metric["attributes"]) == ("depth", 3_000_000, "pool=a")
    assert {topic: shed for topic, shed in books.items() if shed} == {"custom.metrics": 1}


async def test_what_a_client_dropped_is_shed_from_the_topic_of_its_kind(tmp_path: Path) -> None:
    """Its sequence is its own, so that requests lose nothing by it."""
    async with receiving(tmp_path) as running:
        client = track.Client(str(tmp_path / "nobody"), kind=STEP, waiting_max=0)
        run = training.Run("sft", client=client)
        run.step()
        client.path = str(running.path)
        run.step()
        await running.counters.reached(lambda totals: totals["receiver_datagrams", "taken"] == 1)
        books = {topic: tally.shed_events for (_, topic), tally in running.publisher.spool.books.items()}

    assert books == {"training.steps": 1}
