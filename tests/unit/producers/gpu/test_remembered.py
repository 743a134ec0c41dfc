from __future__ import annotations

import logging
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.gpu.remembered import SLOT_BYTES, CounterFile, Era, Remembered, decoded, encoded
from producers.gpu.rows import Reading
from producers.kept_file import AGE_MS_MAX

ERA = Era("boot-1", "580.65.06")
READINGS = {
    "GPU-1": Reading(1_000_000, 50_000, {"field 83": 2**40, "field 74": 0}),
    "GPU-2": Reading(1_000_000, 50_000, {}, {"field 83": 41_000}, ((990_000, 49_000), (1_000_000, 50_000))),
}
NOTHING = Remembered({}, None)


@pytest.mark.parametrize(("age_ms", "kept"), [(0, True), (AGE_MS_MAX, True), (AGE_MS_MAX + 1, False), (-1, False)])
def test_what_is_remembered_is_compared_within_a_minute(age_ms: int, kept: bool) -> None:
    """A reading of the future is none of ours."""
    assert decoded(encoded(ERA, READINGS), ERA, 50_000 + age_ms) == Remembered(READINGS if kept else {}, ERA.driver)


@pytest.mark.parametrize(
    ("era", "expected"),
    [
        (Era("boot-2", "580.65.06"), Remembered({}, "580.65.06")),
        (Era("boot-1", "590.48.01"), Remembered({}, "580.65.06")),
        (Era("boot-1", None), Remembered({}, "580.65.06")),
        (Era(None, "580.65.06"), Remembered({}, "580.65.06")),
    ],
    ids=[
        "the machine was restarted",
        "the driver was replaced",
        "the driver is not known",
        "the start is not known",
    ],
)
def test_counters_of_another_era_are_not_compared(era: Era, expected: Remembered) -> None:
    """They restarted from 0 since; the driver of then is returned."""
    assert decoded(encoded(ERA, READINGS), era, 50_000) == expected


def test_a_start_that_neither_knows_is_not_the_same() -> None:
    """Two unknowns are not equal."""
    unknown = Era(None, "580.65.06")

    assert decoded(encoded(unknown, READINGS), unknown, 50_000).readings == {}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"gpus": []},
        {"gpus": {"GPU-1": None}},
        {"gpus": {"GPU-1": {"at_ms": 1, "monotonic_ms": 1}}},
        {"gpus": {"GPU-1": {"at_ms": 1, "monotonic_ms": 1, "values": {"field 83": "many"}}}},
        {"gpus": {"GPU-1": {"at_ms": None, "monotonic_ms": 1, "values": {}}}},
        {"gpus": {"GPU-1": {"at_ms": 1, "monotonic_ms": 1, "values": {}, "read_ms": []}}},
        {"gpus": {"GPU-1": {"at_ms": 1, "monotonic_ms": 1, "values": {}, "windows": [1]}}},
        {"gpus": {"GPU-1": {"at_ms": 1, "monotonic_ms": 1, "values": {}, "windows": [[1, "2"]]}}},
    ],
)
def test_a_file_that_is_not_ours_is_ignored(change: dict[str, object]) -> None:
    """Whole."""
    kept = orjson.loads(encoded(ERA, READINGS)) | change

    assert decoded(orjson.dumps(kept), ERA, 50_000) == NOTHING


def test_what_an_agent_of_0_1_remembered_goes_on() -> None:
    """It read everything each second: there is nothing to make up for."""
    kept = orjson.loads(encoded(ERA, {"GPU-1": READINGS["GPU-1"]}))
    for each in kept["gpus"].values():
        del each["read_ms"], each["windows"]

    assert decoded(orjson.dumps(kept), ERA, 50_000).readings == {"GPU-1": READINGS["GPU-1"]}


@given(st.binary(max_size=200))
def test_bytes_that_are_not_ours_are_ignored(data: bytes) -> None:
    """Whatever they are."""
    assert decoded(data, ERA, 50_000) == NOTHING


@given(st.integers(0, 400))
def test_a_cut_file_is_ignored(length: int) -> None:
    """It cannot be cut by us, but a disk may be full."""
    whole = encoded(ERA, READINGS)

    assert decoded(whole[: min(length, len(whole) - 1)], ERA, 50_000) == NOTHING


def test_a_file_is_replaced_and_read_again(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    file = CounterFile(tmp_path / "counters.json", ERA)

    before = file.load(50_000)
    file.save({})
    file.save(READINGS)

    assert before == NOTHING
    assert CounterFile(tmp_path / "counters.json", ERA).load(50_001) == Remembered(READINGS, ERA.driver)
    assert [path.name for path in tmp_path.iterdir()] == ["counters.json"]


def test_a_kill_during_the_writing_leaves_the_reading_before(tmp_path: Path) -> None:
    """Its rows were not handed on: their growth is in the next difference."""
    path = tmp_path / "counters"
    file = CounterFile(path, ERA)
    file.save(READINGS)
    file.save({"GPU-1": Reading(1_001_000, 51_000, {"field 83": 2**41})})
    file.close()
    with path.open("r+b") as torn:
        torn.seek(20)  # the second writing went into the first slot
        torn.write(bytes(30))

    assert CounterFile(path, ERA).load(51_000) == Remembered(READINGS, ERA.driver)


def test_more_than_a_slot_holds_is_not_remembered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was remembered before stays; it is logged."""
    file = CounterFile(tmp_path / "counters", ERA)
    file.save(READINGS)

    file.save({"GPU-1": Reading(1, 1, {"x" * SLOT_BYTES: 1})})

    assert file.load(50_000) == Remembered(READINGS, ERA.driver)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_file_of_an_earlier_format_is_replaced(tmp_path: Path) -> None:
    """It was one JSON text."""
    path = tmp_path / "counters"
    path.write_bytes(encoded(ERA, READINGS))
    file = CounterFile(path, ERA)

    before = file.load(50_000)
    file.save(READINGS)

    assert (before, CounterFile(path, ERA).load(50_000)) == (NOTHING, Remembered(READINGS, ERA.driver))


def test_a_disk_that_fails_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And costs nothing else."""
    file = CounterFile(tmp_path / "missing" / "counters.json", ERA)

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            file.save(READINGS)

    assert [record.message for record in caplog.records] == [
        "writing GPU counters failed; a restart cannot continue them"
    ]
    assert file.load(0) == NOTHING
