"""What an agent that starts again goes on from: the counters of its engines."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.engines import remembered
from producers.engines.remembered import SLOT_BYTES, EngineMemory, decoded, encoded
from producers.engines.rows import Known
from producers.kept_file import AGE_MS_MAX

FIRST, OTHER = ("m", None), (None, "7")
TOTALS = {(FIRST, "generation_tokens", ""): 2**60, (OTHER, "finished_requests", 'reason="stop"'): None}
KNOWN = Known(50_000, "vllm", 1_700_000_000.25, TOTALS, True)
BOOT, AT_MS = "b", 1_000_000


@pytest.fixture(autouse=True)
def _one_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has been up all the time, whatever the tests' own reports."""
    monkeypatch.setattr(remembered, "boot_id", lambda: BOOT)


@pytest.mark.parametrize("known", [KNOWN, replace(KNOWN, started_at_s=None, whole=False, totals={})])
@pytest.mark.parametrize("after_ms", [0, AGE_MS_MAX])
def test_a_reading_is_gone_on_from_for_a_minute(known: Known, after_ms: int) -> None:
    """As it was."""
    assert decoded(encoded(BOOT, known, AT_MS), BOOT, known.moment_ms + after_ms) == (known, AT_MS)


@pytest.mark.parametrize(
    ("boot", "moment_ms"),
    [("c", 50_000), (None, 50_000), (BOOT, 49_999), (BOOT, 50_001 + AGE_MS_MAX)],
    ids=["the machine was started since", "not known whether it was", "from the time to come", "older"],
)
def test_what_cannot_be_compared_is_ignored(boot: str | None, moment_ms: int) -> None:
    """Nothing is made up."""
    assert decoded(encoded(BOOT, KNOWN, AT_MS), boot, moment_ms) is None
    assert decoded(encoded(None, KNOWN, AT_MS), None, 50_000) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 2),
        ("kind", "another"),
        ("kind", ["vllm"]),
        ("totals", [["m", None, "generation_tokens", "", "5"]]),
        ("totals", [["m", None, "generation_tokens", 5]]),
        ("totals", [[[], None, "generation_tokens", "", 5]]),
        ("totals", None),
        ("moment_ms", "50000"),
        ("at_ms", None),
        ("started_at_s", "1"),
        ("whole", 1),
    ],
)
def test_what_is_no_reading_is_ignored(name: str, value: Any) -> None:
    """Whoever wrote it."""
    kept = orjson.loads(encoded(BOOT, KNOWN, AT_MS))

    assert decoded(orjson.dumps(kept | {name: value}), BOOT, 50_000) is None
    del kept[name]
    assert decoded(orjson.dumps(kept), BOOT, 50_000) is None


@given(st.integers(0, 400))
def test_a_cut_file_is_ignored(length: int) -> None:
    """It cannot be cut by us, but a disk may be full."""
    whole = encoded(BOOT, KNOWN, AT_MS)

    assert decoded(whole[: min(length, len(whole) - 1)], BOOT, 50_000) is None


def test_each_engine_has_a_file_and_the_next_agent_reads_it(tmp_path: Path) -> None:
    """Whatever its name holds."""
    folder = tmp_path / "counters"
    one, other = EngineMemory(folder, "../a"), EngineMemory(folder, "b")
    one.save(KNOWN, AT_MS)
    other.save(replace(KNOWN, totals={}), AT_MS)
    one.close()

    assert EngineMemory(folder, "../a").load(50_001) == (KNOWN, AT_MS)
    assert EngineMemory(folder, "b").load(50_001) == (replace(KNOWN, totals={}), AT_MS)
    assert EngineMemory(folder, "c").load(50_001) is None
    assert [len(list(tmp_path.iterdir())), len(list(folder.iterdir()))] == [1, 2]


def test_files_of_engines_that_are_gone_are_removed(tmp_path: Path) -> None:
    """One that was silent for as long begins a new file when it answers again."""
    silent = EngineMemory(tmp_path, "a")
    silent.save(KNOWN, AT_MS)
    (file,) = tmp_path.iterdir()
    os.utime(file, (1_000, 1_000))

    EngineMemory(tmp_path, "b")
    assert list(tmp_path.iterdir()) == []
    silent.save(replace(KNOWN, moment_ms=50_001 + AGE_MS_MAX), AT_MS)
    assert list(tmp_path.iterdir()) == [file]


def test_a_disk_that_fails_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And costs nothing else; more than fits is not remembered either."""
    many = replace(KNOWN, totals={(FIRST, "generation_tokens", "x" * SLOT_BYTES): 1})
    nowhere, full = EngineMemory(tmp_path / "missing" / "counters", "a"), EngineMemory(tmp_path, "a")

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            nowhere.save(KNOWN, AT_MS)
            full.save(many, AT_MS)

    assert [record.message for record in caplog.records] == [
        "writing engine counters failed; a restart cannot continue them"
    ] * 2
    assert nowhere.load(50_000) is full.load(50_000) is None
