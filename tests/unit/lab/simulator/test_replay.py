from __future__ import annotations

import asyncio
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lab.simulator.replay import Arrival, TraceRow, azure_rows, due_s, jsonl_arrivals, read_azure, replay, speed_of
from producers.batch import Batch
from runtime.clock import SystemClock
from schemas.codec.build import rows_of
from schemas.codec.native import decode
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS

TRACES = Path(__file__).resolve().parents[4] / "lab" / "data" / "azure_llm_2023"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


class RecordingPublisher:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.shed_events = 0
        self.spool = SimpleNamespace(source="ab" * 16, boot=3)

    async def put(self, topic: str, key: bytes, batch: Batch, *, wait: bool = False) -> bool:
        assert wait
        self.batches.append(batch)
        return True

    def shed(self, topic: str, events: int) -> None:
        self.shed_events += events

    def rows(self) -> list[dict[str, Any]]:
        return [
            row
            for batch in self.batches
            for row in rows_of(LLM_REQUESTS.fields, decode(batch.value, LLM_REQUESTS.fields))
        ]


@pytest.mark.parametrize(
    ("name", "requests", "span_us", "input_sum", "output_sum"),
    [
        ("code", 8_819, 3_435_948_056, 18_059_974, 245_896),
        ("conv", 19_366, 3_501_721_937, 22_361_870, 4_088_665),
    ],
)
def test_the_azure_traces_are_read_whole(
    name: str, requests: int, span_us: int, input_sum: int, output_sum: int
) -> None:
    """Counts, span and sums as published; arrivals strictly ascending."""
    rows = list(read_azure(TRACES / f"AzureLLMInferenceTrace_{name}.csv"))
    at_us, inputs, outputs = np.array(rows).T

    assert len(rows) == requests
    assert at_us[-1] - at_us[0] == span_us
    assert (int(inputs.sum()), int(outputs.sum())) == (input_sum, output_sum)
    assert (np.diff(at_us) > 0).all()


def test_seven_digits_are_microseconds() -> None:
    """CRLF, no newline at the end, a seventh digit that is always 0."""
    lines = [HEADER, "2023-11-16 18:17:03.9799600,4808,10\r\n", "2023-11-16 18:17:04.0319600,3180,8"]

    assert list(azure_rows(lines)) == [
        TraceRow(1_700_158_623_979_960, 4_808, 10),
        TraceRow(1_700_158_624_031_960, 3_180, 8),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [("a,b,c", "line 2"), ("2023-11-16 18:17:03.9,1", "line 2"), ("", None)],
    ids=["text", "cells", "empty"],
)
def test_a_wrong_line_is_named(line: str, said: str | None) -> None:
    """One sentence with the line's number; empty lines are none."""
    if said is None:
        assert list(azure_rows([HEADER, line])) == []
        return
    with pytest.raises(ConfigError, match=said):
        list(azure_rows([HEADER, line]))


def test_a_file_of_another_format_is_refused() -> None:
    """The header tells."""
    with pytest.raises(ConfigError, match="must begin with TIMESTAMP"):
        list(azure_rows(["time,tokens\n"]))


def test_json_lines_keep_our_fields() -> None:
    """``at_ms`` is when the request arrived; a line that is none is named."""
    lines = [b'{"at_ms": 5, "model": "m"}\n', b"\n"]

    assert list(jsonl_arrivals(lines)) == [Arrival(5_000, {"at_ms": 5, "model": "m"})]
    for wrong in (b"[1]", b"{}", b"{"):
        with pytest.raises(ConfigError, match="line 2"):
            list(jsonl_arrivals([lines[0], wrong]))


@pytest.mark.parametrize(
    ("at_us", "speed", "due"),
    [(0, 1.0, 0.0), (3_000_000, 1.0, 3.0), (3_000_000, 60.0, 0.05), (-5, 1.0, 0.0), (9, math.inf, 0.0)],
)
def test_gaps_are_divided_by_the_speed(at_us: int, speed: float, due: float) -> None:
    """A request out of order is sent at once; at ``max`` every one is."""
    assert due_s(0, at_us, speed) == due


def test_speeds_are_numbers_above_zero_or_max() -> None:
    """Anything else is told with its bound."""
    assert speed_of("max") == math.inf
    assert speed_of("0.5") == 0.5
    for wrong in ("0", "-1", "nan", "inf", "fast"):
        with pytest.raises(ConfigError, match="above 0, or max"):
            speed_of(wrong)


async def test_a_replayed_azure_trace_has_counts_and_no_latencies(tmp_path: Path) -> None:
    """Every request once, its time that of sending; what the trace lacks is null or said by the caller."""
    file = tmp_path / "trace.csv"
    lines = (f"2023-11-16 18:{minute:02d}:03.9799600,{minute},{minute + 1}\r\n" for minute in range(60))
    file.write_text(HEADER + "".join(lines), newline="")
    publisher, clock = RecordingPublisher(), SystemClock()
    begin_ms = clock.now_ms()

    progress = await replay(file, "azure", "max", "chat", publisher, clock, asyncio.Event())  # type: ignore[arg-type]

    rows = publisher.rows()
    assert progress.events == len(rows) == 60
    assert progress.trace_s == 59 * 60
    assert [(row["input_tokens"], row["output_tokens"]) for row in rows] == [(n, n + 1) for n in range(60)]
    assert {(row["model"], row["status"], row["origin"], row["e2e_us"], row["tenant"]) for row in rows} == {
        ("chat", "ok", "measured", None, None)
    }
    assert len({row["request_id"] for row in rows}) == 60
    assert all(begin_ms <= row["at_ms"] <= clock.now_ms() for row in rows)


async def test_a_trace_of_ours_keeps_what_it_says(tmp_path: Path) -> None:
    """Fields of the line win over those filled in, except the time."""
    file = tmp_path / "trace.jsonl"
    file.write_text(
        '{"at_ms": 7, "model": "own", "request_id": "r-1", "host": "h-9", "ttft_us": 5, "origin": "simulated"}'
    )
    publisher = RecordingPublisher()

    await replay(file, "jsonl", "max", "chat", publisher, SystemClock(), asyncio.Event())  # type: ignore[arg-type]

    (row,) = publisher.rows()
    assert (row["model"], row["request_id"], row["host"], row["ttft_us"], row["origin"]) == (
        "own",
        "r-1",
        "h-9",
        5,
        "simulated",
    )
    assert row["at_ms"] > 7
    assert publisher.batches[0].key == b"h-9"


async def test_a_replay_stops_when_told(tmp_path: Path) -> None:
    """What was read by then is sent."""
    file = tmp_path / "trace.jsonl"
    file.write_text('{"at_ms": 0}\n{"at_ms": 3600000}\n')
    publisher, stop = RecordingPublisher(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, stop.set)

    progress = await replay(file, "jsonl", "1", "chat", publisher, SystemClock(), stop)  # type: ignore[arg-type]

    assert progress.events == 1


async def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """With the ones that are known."""
    with pytest.raises(ConfigError, match="azure or jsonl"):
        await replay(tmp_path, "csv", "1", "chat", RecordingPublisher(), SystemClock(), asyncio.Event())  # type: ignore[arg-type]
