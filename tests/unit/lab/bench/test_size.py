"""Bytes per event: what is added up, and by what it is divided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.reconcile.compare import Report, TopicBooks
from fleetpulse.sql.database import Answer
from lab.bench import size
from lab.bench.stand import Stand
from runtime.config import load


class Tables:
    """In the database's place: two tables, and partial rows of every grouping."""

    def __init__(self, _config: object) -> None:
        self.closed = False

    def sql(self, text: str, _parameters: Mapping[str, Any] | None = None) -> Answer:
        """One answer for the tables, one for each topic's partial rows."""
        if "system.parts" in text:
            return Answer(
                ("table", "rows", "bytes", "raw"), (("llm_requests", 400, 3_000, 9_000), ("books", 2, 50, 60))
            )
        return Answer(("grouping", "share"), (("engine", 0.25),))

    def close(self) -> None:
        """Nothing to give back."""


def segment(folder: Path, partition: str, size_bytes: int) -> None:
    path = folder / "kafka" / "log" / partition
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{len(list(path.iterdir())):020}.log").write_bytes(bytes(size_bytes))
    (path / "00000.index").write_bytes(bytes(10_000))


def test_bytes_are_divided_by_the_events_of_their_topic_or_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka: segments of all partitions of a topic, without indexes; what is derived weighs on every event."""
    for partition, size_bytes in (
        ("llm.requests-0", 1_000),
        ("llm.requests-0", 500),
        ("llm.requests-12", 500),
        ("gpu.samples-0", 300),
        ("window.partials-3", 250),
        ("__consumer_offsets-1", 9_999),
    ):
        segment(tmp_path, partition, size_bytes)
    monkeypatch.setattr(size, "Database", Tables)
    monkeypatch.setattr(size, "_value_bytes", lambda _stand: {"llm.requests": 7.0})
    produced = {"llm.requests": 400, "gpu.samples": 100, "host.samples": 0}
    books = Report(tuple(TopicBooks(name, count, 0, count, 0, 0, 0, 0, 0) for name, count in produced.items()), 1, ())

    found = size._report(Stand(load({"data_dir": tmp_path}), tmp_path, 1, 2), books, hosts=2, seconds=5)

    assert found["gpus"] == 16
    assert found["events"] == {"llm.requests": 400, "gpu.samples": 100}
    assert found["kafka_bytes_per_event"] == {"llm.requests": 5.0, "gpu.samples": 3.0}
    assert found["kafka_derived_bytes_per_event"] == {"window.partials": 0.5}
    assert found["clickhouse"]["llm_requests"] == {
        "rows": 400,
        "bytes": 3_000,
        "uncompressed_bytes": 9_000,
        "bytes_per_event": 6.0,
    }
    assert found["clickhouse_bytes_per_event"] == 6.1
    assert found["partial_rows_per_event"] == {"engine": 0.25}
