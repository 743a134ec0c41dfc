"""``bench peers``: what is sent, what a reader of the rows sees, and that every side's program gives the exact answer.

Covers lab.bench.peers with lab.bench.peers_sides, lab.bench.peers_quix, lab.bench.peers_faust and
lab.bench.peers_flink.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.commands.progress import Progress
from lab.bench import command_parts, peers_faust, peers_quix
from lab.bench.counterparts import HERE
from lab.bench.peers import TAIL_MS, Load, Watched, load
from lab.bench.peers_answers import GROUPING, LEVELS, exact, judge, row
from lab.bench.peers_flink import command, lock
from lab.bench.peers_sides import HOW, statements
from lab.bench.workload import FLEET
from schemas.contract.headers import NDJSON
from schemas.errors import ConfigError
from schemas.limits import WINDOW_MS

PROFILE = replace(FLEET, hosts=3, gpus_per_host=0)
FROM_MS = 1_700_000_000_000
SETTINGS = {"window_ms": WINDOW_MS, "dimensions": GROUPING.dimensions, "levels": LEVELS}


@pytest.fixture(scope="module")
def sent() -> Load:
    return load(PROFILE, FROM_MS, 2, NDJSON, 1)


def values(sent: Load) -> list[bytes]:
    return [one.value for second in sent.seconds for one in second]


def test_whole_windows_are_sent_and_a_second_that_closes_them(sent: Load) -> None:
    """Each host's record every second; the last one is of another window."""
    times = [json.loads(line)["at_ms"] for line in sent.seconds[-1][0].value.splitlines()]

    assert [len(second) for second in sent.seconds] == [PROFILE.hosts] * 21
    assert sent.events == 21 * PROFILE.events_per_s
    assert min(times) >= FROM_MS + 2 * WINDOW_MS + TAIL_MS
    assert (
        sum(one.events for one in exact(values(sent), sent.from_ms, sent.to_ms).values()) == 20 * PROFILE.events_per_s
    )


def by_quix(records: list[bytes]) -> list[dict[str, Any]]:
    states: dict[tuple[str, int], peers_quix.Part] = {}
    for record in records:
        for part in peers_quix.parts(record, SETTINGS):
            key = (json.loads(next(iter(part["series"])))[2], part["at_ms"] // WINDOW_MS * WINDOW_MS)
            states[key] = peers_quix.merged(states[key], part) if key in states else part["series"]
    return [one for (_, at), state in states.items() for one in peers_quix.rows(at, state, list(LEVELS))]


def by_faust(records: list[bytes]) -> list[dict[str, Any]]:
    found: dict[tuple[int, str], peers_faust.Held] = {}
    for record in records:
        events = [json.loads(line) for line in record.splitlines()]
        for series, held in peers_faust.grouped(events, list(GROUPING.dimensions)).items():
            key = (events[0]["at_ms"] // WINDOW_MS * WINDOW_MS, series)
            found[key] = [a + b for a, b in zip(found[key], held, strict=True)] if key in found else held
    return [peers_faust.row(at, series, held, list(LEVELS)) for (at, series), held in found.items()]


@pytest.mark.parametrize("answer", [by_quix, by_faust])
def test_the_programs_give_the_exact_answer(sent: Load, answer: Any) -> None:
    """Without the frameworks: what is handed to them, and what becomes of a window."""
    rows = [row(json.dumps(one).encode()) for one in answer(values(sent))]

    verdict = judge(exact(values(sent), sent.from_ms, sent.to_ms), rows, 0.0)

    assert verdict.equal
    assert verdict.series > 6


def test_a_record_over_the_end_of_a_window_becomes_two_parts(sent: Load) -> None:
    """With the time of the latest event each."""
    record = sent.seconds[9][0].value + sent.seconds[10][0].value

    parts = peers_quix.parts(record, SETTINGS)

    assert [one["at_ms"] // WINDOW_MS * WINDOW_MS - FROM_MS for one in parts] == [0, WINDOW_MS]


def test_rows_that_add_up_and_rows_that_replace() -> None:
    """A window is complete with as many events as were sent; windows that are not asked for do not count."""
    watched = Watched({10: 5, 20: 1})

    for row_of in ((10, None, 2), (30, None, 9), (20, "a", 3), (20, "a", 1)):
        watched.note(*row_of)

    assert watched.events == {10: 2, 20: 1}
    assert not watched.complete
    watched.note(10, None, 3)
    assert watched.complete
    assert watched.freshness(10.02)["windows"] == 1


def test_rows_resume_after_the_pause_of_a_restart() -> None:
    """What was under way when the side was killed is no sign of life."""
    watched = Watched({10: 5}, silences=[(1.0, 2.0), (2.0, 4.5), (4.5, 9.0), (9.0, 9.5)])

    assert watched.resumed_s(4.0) == 5.0
    assert watched.resumed_s(9.0) is None
    assert Watched({}).freshness(9.0) == {"windows": 0}


@pytest.mark.parametrize("name", HOW)
def test_every_peer_is_pinned_with_hashes(name: str) -> None:
    """And has its program."""
    if name == "flink":
        assert all(len(digest) == 64 and coordinates.count(":") == 2 for coordinates, digest in lock().items())
        return
    lines = (HERE / f"peers-{name}.txt").read_text().splitlines()

    assert all("==" in line or line.startswith("    --hash=sha256:") for line in lines)
    assert Path(HERE / f"peers_{name}.py").exists()


def test_flink_runs_with_all_jars_and_its_program(tmp_path: Path) -> None:
    """What is complete is not fetched again; the folder of the compiled program comes last."""
    jars = [tmp_path / "peers-flink" / "repository" / name for name in ("a/a-1.jar", "b.jar")]
    for jar in jars:
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.touch()
    (tmp_path / "peers-flink" / "complete").touch()

    *_, path, program = command(tmp_path, lambda _text: pytest.fail("it is complete"))

    assert path.split(":") == [*map(str, jars), str(tmp_path / "peers-flink")]
    assert (Path(HERE) / f"{program}.java").exists()


def test_the_engine_reads_what_it_needs_and_begins_last() -> None:
    """The queue, the rows, the view between them."""
    queue, rows, view = statements("group-1", "kafka:1", NDJSON)

    assert "'group-1'" in queue
    assert "request_id" not in queue
    assert rows.endswith(view.partition(" AS ")[2])


def test_the_command_fails_where_ours_lost_something_after_the_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the answer without a kill was exact."""
    side = {"cpu_s_per_million": 8.0, "times_ours": 1.0, "equal": True, "killed": {"lost": 2, "doubled": 0}}
    result = {"events": 3, "series": 2, "sides": {"fleetpulse, Native": side}}
    monkeypatch.setattr("lab.bench.stand.fresh_stand", lambda *_given, **_named: contextlib.nullcontext())
    monkeypatch.setattr("lab.bench.peers.measure", lambda *_given: result)

    found = command_parts.peers(Progress(), 1, environments=tmp_path, data_dir=tmp_path)

    assert found.wrong == {"not the exact answer, or not after a kill": ["fleetpulse, Native"]}


def test_one_window_in_real_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none before its last, in which a side is killed: nothing would be, and nothing lost."""
    monkeypatch.setattr("lab.bench.stand.fresh_stand", lambda *_given, **_named: pytest.fail("nothing is started"))

    with pytest.raises(ConfigError, match="--paced-windows = 1: must be 0, or 2 at least"):
        command_parts.peers(Progress(), 1, paced_windows=1, data_dir=tmp_path)
