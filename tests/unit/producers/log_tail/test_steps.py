"""Lines of training logs become steps, as the projects print them; other lines are passed over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.log_tail.mapping import Line
from producers.log_tail.service import run_log_tail
from producers.log_tail.steps import FORMATS, step_map, steps_of
from producers.log_tail.tail import LogTailSettings
from runtime.counters import Counters
from runtime.edge_config import LogTailConfig
from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.errors import ConfigError
from schemas.events.event_types import TRAINING_STEPS
from tests.unit.producers.log_tail.test_service import OneSpool

LOGS = Path(__file__).resolve().parents[3] / "data" / "training_logs"
LABELS = {"host": "h", "cluster": None, "region": None}
JOB = {"job": "=sft", "rank": "=0"}
READ_MS = 1_700_000_000_000


def steps(kind: str, lines: list[bytes], **fields: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    mapped = step_map(kind, JOB | fields)
    numbered = [Line(number, text) for number, text in enumerate(lines)]
    rows, left_out = steps_of(kind, mapped, numbered, LABELS, READ_MS)
    assert block_from_rows(TRAINING_STEPS.fields, rows).rows == len(rows)
    return rows, dict(left_out)


def of_file(name: str, **fields: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    return steps(name, (LOGS / f"{name}.log").read_bytes().splitlines(), **fields)


def test_lines_of_transformers_trainer() -> None:
    """Their loss; beside a progress bar and in quotes, too. A loss that is no number is unknown and counted."""
    rows, left_out = of_file("hf_trainer")

    losses = [2_119_000, 1_646_200, 1_579_800, 92_300, 98_100, 432_100, 250_000, None]
    assert [row.get("loss_micro") for row in rows] == losses
    assert left_out == {"loss": 1}
    assert rows[0] == {
        "at_ms": READ_MS, "origin": "measured", "host": "h", "job": "sft", "rank": "0", "loss_micro": 2_119_000,
    }  # fmt: skip


def test_lines_of_megatron() -> None:
    """Iteration, its time, the batch of all ranks, the loss where there is one."""
    rows, left_out = of_file("megatron")

    names = ("step", "step_us", "samples", "loss_micro")
    assert [tuple(row.get(name) for name in names) for row in rows] == [
        (2_516, 126_860_500, 2_048, 3_729_679),
        (765, 76_814_600, 2_048, None),
        (391, 13_663_400, 16, 7_835_842),
        (10, 1_147_600, 16, None),
    ]
    assert {row["at_ms"] for row in rows} == {READ_MS}
    assert left_out == {}


def test_a_line_s_own_time_counts_where_a_field_names_it() -> None:
    """In UTC, as it has no zone; other lines have the time they were read."""
    rows, _ = of_file("megatron", at_ms="at iso", tokens="curriculum_seqlen")

    assert [row["at_ms"] for row in rows] == [READ_MS, READ_MS, READ_MS, 1_744_587_672_000]
    assert [row.get("tokens") for row in rows] == [200, 104, None, None]


def test_json_lines_by_a_table() -> None:
    """Paths and units as for requests; a line without its job, or without JSON, is counted."""
    line = {"ts": "2026-01-02T03:04:05Z", "run": {"name": "a"}, "i": 7, "loss": 0.5, "t": 1.25, "n": 4096}
    fields = {"at_ms": "ts", "job": "run.name", "step": "i", "loss": "loss", "step_us": "t s", "tokens": "n"}

    rows, left_out = steps("training", [orjson.dumps(line), b"{", b"[]", b"{}"], **fields, rank="=3")

    assert rows == [
        {"at_ms": 1_767_323_045_000, "origin": "measured", "host": "h", "job": "a", "rank": "3", "step": 7,
         "loss_micro": 500_000, "step_us": 1_250_000, "tokens": 4_096}
    ]  # fmt: skip
    assert left_out == {"no JSON": 1, "no object": 1, "no job": 1}


def test_amounts_beyond_the_event_are_unknown() -> None:
    """The row stays."""
    rows, left_out = steps("training", [b'{"l": 1e20, "s": -1}'], loss="l", samples="s")

    assert [(row.get("loss_micro"), row.get("samples")) for row in rows] == [(None, None)]
    assert left_out == {"loss_micro": 1, "samples": 1}


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, "fields"),
        ({"job": "=a", "host": "h"}, "fields.host"),
        ({"job": "=a", "loss_micro": "l"}, "fields.loss_micro"),
        ({"job": "=a", "model_version": "v s"}, "fields.model_version"),
        ({"job": "=a", "loss": "l ms"}, "fields.loss"),
    ],
)
def test_fields_that_cannot_be_meant_stop_the_start(fields: dict[str, str], key: str) -> None:
    """With the key that says it."""
    with pytest.raises(ConfigError) as refused:
        step_map("hf_trainer", fields)
    assert refused.value.key == key


@given(
    st.sampled_from(sorted(FORMATS)), st.binary(max_size=60), st.sampled_from([b"", b"{'loss': ", b"iteration 1/2 |"])
)
def test_no_line_raises(kind: str, text: bytes, head: bytes) -> None:
    """Whatever a program prints: a line is a step at most, of numbers that a column holds."""
    rows, _ = steps(kind, [head + text, b"}" + head + text + b"}"])

    assert len(rows) <= 2
    assert [name for row in rows for name, value in row.items() if type(value) not in (int, str)] == []


def test_a_long_line_is_read_in_its_length() -> None:
    """A hostile one, of all that the patterns look for."""
    for text in (b"{'loss': " * 28_000, b"iteration 1/2 |" + b"a:1|" * 60_000, b"'" * 250_000 + b"'loss': {"):
        for kind in ("hf_trainer", "megatron"):
            assert len(steps(kind, [text])[0]) <= 1


async def test_a_log_of_training_is_tailed(tmp_path: Path) -> None:
    """From the file to the spool."""
    path = tmp_path / "log"
    path.write_bytes((LOGS / "megatron.log").read_bytes())
    config = LogTailConfig(path=path, format="megatron", fields=JOB, from_start=True)
    settings = LogTailSettings(
        path, tmp_path / "position", config.fields, LABELS, config.from_start, format=config.format, poll_ms=1
    )
    publisher, stop = OneSpool(), asyncio.Event()
    tail = run_log_tail(publisher, settings, stop, counters=Counters())  # type: ignore[arg-type]
    running = asyncio.ensure_future(tail)
    await publisher.came.wait()
    stop.set()
    await running

    (batch,) = publisher.taken
    rows = rows_of(TRAINING_STEPS.fields, native.decode(batch.value, TRAINING_STEPS.fields))
    assert (batch.topic, batch.key) == ("training.steps", b"h")
    assert [row["step"] for row in rows] == [2_516, 765, 391, 10]
