"""Rules of the bench's own arithmetic: lag, freshness, ratios, what is kept."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import cast

import orjson
import pytest
from typer.testing import CliRunner

from fleetpulse.reconcile.compare import Report, TopicBooks
from fleetpulse.services.processes import Processes
from lab.bench import cpu, live, measurement, throughput
from lab.bench.command import app
from lab.bench.freshness import Seen
from lab.bench.job import JobRun, WorkerOptions, write_whole
from lab.bench.peer import Options, PeerRun
from lab.bench.throughput import Calibration
from lab.bench.workload import FLEET


def run_of(lags: list[int], *, exact: bool = True, per_s: int = 300) -> live.Run:
    """A run of 100 hosts with these lags of the windows job, second by second."""
    books = TopicBooks("llm.requests", 4_800 * len(lags), 0, 4_800 * len(lags), 0, 0, 0, 0, 0)
    run = live.Run(hosts=100, seconds=len(lags), books=Report((books,), 1 if exact else 0, ()), wall_s=float(len(lags)))
    run.readings = [
        live.Reading(float(at), per_s * (at + 1), {"windows": lag, "raw sink": 0, "sink": 0})
        for at, lag in enumerate(lags)
    ]
    return run


def test_a_flat_lag_keeps_up() -> None:
    """Some seconds of lag that do not grow are latency, not falling behind."""
    found = live.verdict(run_of([600, 900, 600, 900, 600, 900, 600, 900]))

    assert (found["keeps_up"], found["lag_flat"], found["simulator_punctual"]) == (True, True, True)
    assert found["events_per_s"] == 4_800


def test_a_growing_lag_does_not_keep_up() -> None:
    """A tenth of a second more every second is falling behind, however small the lag is yet."""
    found = live.verdict(run_of([30 * at for at in range(40)]))

    assert (found["keeps_up"], found["lag_flat"]) == (False, False)
    assert found["lag_rise_s_per_s"]["windows"] == pytest.approx(0.1)


def test_a_large_lag_does_not_keep_up() -> None:
    """More unread than the limit is not keeping up, even when it is flat."""
    assert not live.verdict(run_of([300 * 9] * 10))["keeps_up"]


def test_inexact_books_do_not_keep_up() -> None:
    """Speed without exactness does not count."""
    assert not live.verdict(run_of([0] * 10, exact=False))["keeps_up"]


def test_a_late_simulator_is_no_proof() -> None:
    """When the fleet sends less than it should, readers that keep up with it prove nothing."""
    found = live.verdict(run_of([0] * 10, per_s=200))

    assert (found["keeps_up"], found["simulator_punctual"], found["lag_flat"]) == (False, False, True)


def with_finals(run: live.Run, lag_windows: int) -> live.Run:
    """The same with a finals job so many windows behind; a window of 600 derived records comes every ten seconds."""
    run.readings = [
        replace(one, lag=one.lag | {"finals": 600 * lag_windows}, ends={"finals": 600 * (int(one.at_s) // 10)})
        for one in run.readings
    ]
    return run


def test_who_reads_derived_records_may_be_two_windows_behind() -> None:
    """They come window by window; beyond that a job does not keep up that nobody waits for, however exact the books."""
    on_it, beyond = (live.verdict(with_finals(run_of([0] * 41), windows)) for windows in (2, 3))

    assert on_it["derived_lag_s"] == {"finals": 20.0, "sink": None}
    assert (on_it["keeps_up"], on_it["derived_read"]) == (True, True)
    assert beyond["derived_lag_s"]["finals"] == 30.0
    assert (beyond["keeps_up"], beyond["derived_read"], beyond["lag_flat"]) == (False, False, True)


def test_a_service_that_ended_does_not_keep_up() -> None:
    """It was started again, and its successor caught up."""
    run = run_of([0] * 10)
    run.ended = {"jobs": 0, "jobs-costs": 1}

    found = live.verdict(run)

    assert (found["keeps_up"], found["services_ended"]) == (False, {"jobs-costs": 1})


class Children:
    """The fleet has ended, the sink is down, the windows job was started again."""

    def names(self) -> tuple[str, ...]:
        return ("jobs", "jobs-finals", "sink", "simulate")

    def restarts(self, name: str) -> int:
        return int(name == "jobs")

    def pid(self, name: str) -> int | None:
        return None if name in ("sink", "simulate") else 7


def test_services_that_were_started_again_and_that_are_down_have_ended() -> None:
    """The fleet ends by itself."""
    assert live.ends(cast(Processes, Children())) == {"jobs": 1, "jobs-finals": 0, "sink": 1}


def test_freshness_counts_from_window_end_and_lateness_to_the_last_growth() -> None:
    """A window is fresh when it first holds what it holds in the end; repeats of the same count change nothing."""
    seen = Seen()
    for now_ms, events in ((9_000, 5), (13_000, 90), (13_500, 100), (14_000, 100)):
        seen.note(now_ms, ("gpu", 0), events)

    assert seen.delays_ms(0, 10_000, 2_000) == {("gpu", 0): 1_500}


def test_windows_that_the_run_covers_in_part_are_left_out() -> None:
    """Only windows wholly inside the time of the run tell how fresh rows are."""
    seen = Seen()
    for window_ms in (0, 10_000, 20_000):
        seen.note(window_ms + 13_000, ("gpu", window_ms), 1)

    assert list(seen.delays_ms(5_000, 29_999, 2_000)) == [("gpu", 10_000)]


def test_ratios_are_of_medians_and_the_engine_counts_with_its_best_block_size() -> None:
    """The yardstick is the median of the runs of the block size that costs it least."""
    options = throughput.Options("fleet", against="clickhouse", shells=("bare", "faust"))
    peers = [PeerRun(Options(work="same", block_rows=rows), s, 1.0, 0.0) for rows, s in ((1, 9.0), (2, 6.0), (2, 8.0))]
    jobs = {
        host: [JobRun(host, s, 1.0, 0.0, {}, 0, {}) for s in taken]
        for host, taken in (("bare", (1.0, 2.0, 9.0)), ("faust", (2.5,)))
    }
    fed = {"llm.requests": throughput.Fed("llm.requests", 4, 10, 1_000_000, 1)}
    measured = throughput.Measured(
        fed, [Calibration(1, 1, 1, us) for us in (1.0, 3.0, 50.0)], {"same": peers}, jobs, []
    )

    found = throughput.report(options, FLEET, measured)

    assert found["clickhouse_us_per_event"] == {"same": 7.0}
    assert found["job_us_per_event"] == {"bare": 2.0, "faust": 2.5}
    assert found["ratio_to_clickhouse"] == {"bare": {"same": 3.5}, "faust": {"same": 2.8}}
    assert found["ratio_to_orjson"] == {"bare": 1.5, "faust": 1.2}
    assert found["faust_to_bare"] == 0.8


def test_a_peak_is_counted_anew_once_it_is_forgotten() -> None:
    """What was freed before is not in it."""
    held = bytearray(b"x") * (64 << 20)  # written, so that it is resident
    del held
    before = cpu.memory_bytes(os.getpid())["resident_peak_bytes"]

    cpu.forget_peak(os.getpid())

    after = cpu.memory_bytes(os.getpid())
    assert after["resident_bytes"] <= after["resident_peak_bytes"] < before


def test_cpu_of_a_process_only_grows_and_a_gone_one_is_told() -> None:
    """CPU time is read of any process that is there."""
    first = cpu.cpu_s(os.getpid())
    sum(number * number for number in range(300_000))

    assert cpu.cpu_s(os.getpid()) >= first > 0
    with pytest.raises(ProcessLookupError):
        cpu.cpu_s(2**22 + 1)


def test_memory_at_its_peak_is_not_below_memory_now() -> None:
    """Both figures come from the kernel's own account."""
    found = cpu.memory_bytes(os.getpid())

    assert found["resident_peak_bytes"] >= found["resident_bytes"] > 2**20


def test_a_result_is_kept_whole_with_what_it_depends_on(tmp_path: Path) -> None:
    """Kept results are JSON and name command, seed, machine and versions."""
    path = measurement.keep(
        "one", {**measurement.surroundings(3), "by": {("llm.requests", 0): Options()}}, tmp_path / "new"
    )

    assert path is not None
    found = orjson.loads(path.read_bytes())
    assert found["seed"] == 3
    assert found["by"]["llm.requests/0"]["block_rows"] == Options().block_rows
    assert {"command", "machine", "versions", "commit", "at"} <= set(found)


def test_options_of_a_worker_survive_the_command_line() -> None:
    """The worker reads back what the bench told it."""
    options = WorkerOptions("bare", 1, "/data dir", "d", "fleet", ["llm.requests"], {"books": 1}, "note")

    assert WorkerOptions(**orjson.loads(options.text())) == options


def test_a_note_appears_whole(tmp_path: Path) -> None:
    """Who waits for a file never reads half of it: nothing but the file itself is left."""
    write_whole(tmp_path / "note", "1.5 7")

    assert [path.name for path in tmp_path.iterdir()] == ["note"]
    assert (tmp_path / "note").read_text() == "1.5 7"


@pytest.mark.parametrize("name", ["throughput", "live", "freshness", "size", "landing", "lifecycle"])
def test_every_measurement_has_help_with_an_example(name: str) -> None:
    """``--help`` ends well and shows how the command is used."""
    found = CliRunner().invoke(app, [name, "--help"])

    assert found.exit_code == 0
    assert "Example: fleetpulse bench" in " ".join(found.output.split())
