"""Faults show where and when the schedule says, and nowhere else; the schedule itself is checked."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest

from lab.simulator.entities import next_version
from lab.simulator.faults import KINDS, Fault, faults_of
from lab.simulator.fleet import Fleet, Step, Wires
from lab.simulator.gpus import REASON_BRAKE, REASON_THERMAL, gpus_of
from lab.simulator.knobs import Knobs
from lab.simulator.plan import FleetPlan, Habits
from lab.simulator.samples import EccStorms
from schemas.errors import ConfigError
from tests.unit.lab.simulator.emitted import emissions

Rows = dict[str, list[dict[str, Any]]]
START_MS = 1_790_000_000_000
ON_MS, OFF_MS, SECONDS = START_MS + 15_000, START_MS + 35_000, 50
CODE_ENGINE = "h-1/1"
"""The only engine of its model, so that its trouble moves no request to another engine."""
NO_TROUBLE = Habits(aborted=0.0, server_error=0.0, client_error=0.0)


@pytest.fixture(scope="module")
def healthy_rows() -> Rows:
    """Those of the fleet without faults, once a test has asked for them: many compare with them, none changes them."""
    return {}


@pytest.fixture
def run(
    small_plan: Callable[..., FleetPlan],
    steps_of: Callable[[FleetPlan, int, int], list[Step]],
    rows_by_topic: Callable[[list[Step]], Rows],
    healthy_rows: Rows,
) -> Callable[..., Rows]:
    def rows(*faults: Fault) -> Rows:
        if not faults and healthy_rows:
            return healthy_rows
        found = rows_by_topic(steps_of(small_plan(*faults, habits=NO_TROUBLE), 9, SECONDS))
        if not faults:
            healthy_rows.update(found)
        return found

    return rows


def without(rows: Rows, engine_id: str) -> list[Any]:
    """All events that do not concern an engine, trace ids (which are drawn in order of ends) left out."""
    return [
        {name: value for name, value in row.items() if name != "trace_id"}
        for topic in ("llm.requests", "gpu.samples", "engine.samples", "gpu.events")
        for row in rows[topic]
        if row["engine_id"] != engine_id
    ]


def of(rows: Rows, topic: str, engine_id: str, *, during: bool) -> list[dict[str, Any]]:
    return [
        row
        for row in rows[topic]
        if row["engine_id"] == engine_id and (ON_MS + 2_000 <= row["at_ms"] <= OFF_MS) == during
    ]


def own(rows: Rows, topic: str, *, before: bool) -> list[Any]:
    """Events of the coding engine before its trouble (readings of that moment included) or since."""
    edge_ms = ON_MS if topic == "llm.requests" else ON_MS + 1
    return [
        {**row, "trace_id": None}
        for row in rows[topic]
        if row["engine_id"] == CODE_ENGINE and (row["at_ms"] < edge_ms) == before
    ]


@pytest.mark.parametrize(
    ("kind", "touched"),
    [
        ("latency_regression", {"llm.requests", "gpu.samples", "engine.samples"}),
        ("error_burst", {"llm.requests", "engine.samples", "gpu.samples"}),
        ("cold_start", {"llm.requests", "gpu.samples", "engine.samples"}),
        ("kv_pressure", {"gpu.samples", "engine.samples"}),
    ],
)
def test_a_fault_of_one_engine_leaves_all_else_as_it_was(
    run: Callable[..., Rows], kind: str, touched: set[str]
) -> None:
    """Events of all other engines are the same with and without it, and its own are until it begins."""
    healthy, ill = run(), run(Fault(kind, "engine_id", CODE_ENGINE, ON_MS, OFF_MS, 0.9))

    topics = ("llm.requests", "gpu.samples", "engine.samples")
    assert without(ill, CODE_ENGINE) == without(healthy, CODE_ENGINE)
    assert [own(ill, topic, before=True) for topic in topics] == [own(healthy, topic, before=True) for topic in topics]
    assert {t for t in topics if own(ill, t, before=False) != own(healthy, t, before=False)} == touched


def test_a_latency_regression_slows_every_token(run: Callable[..., Rows]) -> None:
    """Half again as long per step: the median TPOT of its engine grows by half, and falls back afterwards."""
    healthy, ill = run(), run(Fault("latency_regression", "engine_id", CODE_ENGINE, ON_MS, OFF_MS, 0.5))

    def tpot(rows: Rows, from_ms: int, to_ms: int) -> float:
        mine = [r for r in rows["llm.requests"] if r["engine_id"] == CODE_ENGINE and from_ms <= r["at_ms"] < to_ms]
        return median(row["tpot_us"] for row in mine if row["tpot_us"] is not None)

    during = tpot(ill, ON_MS + 5_000, OFF_MS) / tpot(healthy, ON_MS + 5_000, OFF_MS)
    after = tpot(ill, OFF_MS + 5_000, OFF_MS + 15_000) / tpot(healthy, OFF_MS + 5_000, OFF_MS + 15_000)
    assert during > 1.5 * 0.95
    assert after == pytest.approx(1.0, abs=0.1)


def test_a_deployment_renames_and_slows(run: Callable[..., Rows]) -> None:
    """Requests and samples of the model's engines carry the next version while it runs and the old one before and
    after, those of others their own; every step is longer."""
    model = "qwen2.5-coder-7b-instruct"
    healthy, ill = run(), run(Fault("deployment", "model", model, ON_MS, OFF_MS, 0.5))

    def versions(topic: str, *, during: bool) -> set[str]:
        return {row["model_version"] for row in of(ill, topic, CODE_ENGINE, during=during)}

    def tpot(rows: Rows) -> float:
        mine = of(rows, "llm.requests", CODE_ENGINE, during=True)
        return median(row["tpot_us"] for row in mine if row["tpot_us"] is not None)

    old = {row["model_version"] for row in healthy["llm.requests"] if row["engine_id"] == CODE_ENGINE}
    new = {next_version(version) for version in old}
    assert [versions(topic, during=True) for topic in ("llm.requests", "engine.samples")] == [new, new]
    assert old <= versions("llm.requests", during=False) <= old | new
    assert without(ill, CODE_ENGINE) == without(healthy, CODE_ENGINE)
    assert tpot(ill) > 1.4 * tpot(healthy)


def test_an_error_burst_fails_its_share(run: Callable[..., Rows]) -> None:
    """About half of the requests end with 500 while it lasts, within five standard deviations, none otherwise."""
    rows = run(Fault("error_burst", "model", "qwen2.5-coder-7b-instruct", ON_MS, OFF_MS, 0.5))

    during = of(rows, "llm.requests", CODE_ENGINE, during=True)
    failed = sum(row["error_kind"] == "server" and row["http_status"] == 500 for row in during)
    spread = 5 * (len(during) * 0.25) ** 0.5
    others = [row for row in rows["llm.requests"] if row["engine_id"] != CODE_ENGINE or row["at_ms"] < ON_MS]
    assert abs(failed - len(during) / 2) < spread < len(during) / 2
    assert {row["status"] for row in others} == {"ok"}


def test_a_lost_gpu_is_told_silent_and_costs_its_engine(run: Callable[..., Rows]) -> None:
    """XID 79 and gpu_lost at once, no sample of it, its engine's requests fail and are refused, until it is found."""
    lost = next(row["gpu_uuid"] for row in run()["gpu.samples"] if row["engine_id"] == CODE_ENGINE)
    rows = run(Fault("gpu_lost", "gpu", "h-1:1", ON_MS, OFF_MS))

    told = [(row["at_ms"], row["kind"], row["code"], row["severity"], row["gpu_uuid"]) for row in rows["gpu.events"]]
    assert told == [
        (ON_MS, "xid", 79, "critical", lost),
        (ON_MS, "gpu_lost", None, "critical", lost),
        (OFF_MS, "gpu_found", None, "info", lost),
    ]
    seen = [row["at_ms"] for row in rows["gpu.samples"] if row["gpu_uuid"] == lost]
    assert seen == [at for at in range(START_MS + 1_000, START_MS + 51_000, 1_000) if not ON_MS < at <= OFF_MS]
    broken = [row for row in rows["llm.requests"] if row["error_kind"] == "engine_lost"]
    assert {(row["at_ms"], row["engine_id"], row["http_status"]) for row in broken} == {(ON_MS, CODE_ENGINE, 502)}
    refused = [row for row in rows["llm.requests"] if row["http_status"] == 503]
    assert {row["model"] for row in refused} == {"qwen2.5-coder-7b-instruct"}
    assert {(row["engine_id"], row["placement_group"], row["host"]) for row in refused} == {(None, "h-1", "h-1")}
    assert all(ON_MS <= row["at_ms"] <= OFF_MS + 1 for row in refused)
    assert len(refused) > 20


def test_a_lost_gpu_of_a_group_moves_its_load_to_the_other_engine(run: Callable[..., Rows]) -> None:
    """Where another engine serves the model, no request is refused; the idle half of the group holds no memory."""
    rows = run(Fault("gpu_lost", "gpu", "h-0:0", ON_MS, OFF_MS))

    during = [r for r in rows["llm.requests"] if ON_MS < r["at_ms"] <= OFF_MS and r["model"] == "llama-3.1-8b-instruct"]
    partner = of(rows, "gpu.samples", "h-0/0", during=True)
    assert {row["engine_id"] for row in during} == {"h-1/0"}
    assert len({row["gpu_uuid"] for row in partner}) == 1
    assert {(row["util_gpu_pct"], row["memory_used_bytes"]) for row in partner} == {(0, 0)}


def test_a_restart_makes_cold_requests(run: Callable[..., Rows]) -> None:
    """Requests that wait for the model to load are cold, and only those."""
    rows = run(Fault("cold_start", "engine_id", CODE_ENGINE, ON_MS, OFF_MS))

    cold = [row for row in rows["llm.requests"] if row["start"] == "cold"]
    assert {row["engine_id"] for row in cold} == {CODE_ENGINE}
    assert min(row["at_ms"] for row in cold) > ON_MS
    assert min(row["queue_us"] for row in cold if row["queue_us"] is not None) < 10_000_000
    assert max(row["queue_us"] for row in cold if row["queue_us"] is not None) > 15_000_000


def test_gpus_of_an_engine_that_restarts_say_so_until_its_model_is_loaded(run: Callable[..., Rows]) -> None:
    """From the fault's begin to the first request; all others infer or idle all the time."""
    rows = run(Fault("cold_start", "engine_id", CODE_ENGINE, ON_MS, OFF_MS))

    starting = [row for row in rows["gpu.samples"] if row["workload"] == "startup"]
    assert {row["engine_id"] for row in starting} == {CODE_ENGINE}
    assert min(row["at_ms"] for row in starting) in range(ON_MS, ON_MS + 1_001)
    until_ms = max(row["at_ms"] for row in starting)
    assert 15_000 < until_ms - ON_MS < 120_000
    later = [row for row in rows["gpu.samples"] if row["engine_id"] == CODE_ENGINE and row["at_ms"] > ON_MS + 1_000]
    assert min(row["at_ms"] for row in later if row["util_gpu_pct"]) > until_ms


@pytest.mark.parametrize(
    ("kind", "bit"), [("thermal_throttle", REASON_THERMAL), ("power_brake", REASON_BRAKE), ("straggler", REASON_BRAKE)]
)
def test_throttling_shows_in_clocks_reasons_and_tokens(run: Callable[..., Rows], kind: str, bit: int) -> None:
    """A clock held at 60 % says why, counts its throttled time, and makes tokens slower."""
    rows = run(Fault(kind, "engine_id", CODE_ENGINE, ON_MS, OFF_MS, 0.4))

    during = [row for row in of(rows, "gpu.samples", CODE_ENGINE, during=True) if row["util_gpu_pct"]]
    names = ("clock_sm_mhz", "clock_reasons", "throttled_us", "throttled_fault_us")
    assert {tuple(row[name] for name in names) for row in during} == {(1_512, bit, 1_000_000, 1_000_000)}
    others = [r for r in rows["gpu.samples"] if r["engine_id"] != CODE_ENGINE or not ON_MS < r["at_ms"] <= OFF_MS]
    assert {row["throttled_us"] for row in others} == {0}


def test_heat_rises_with_thermal_throttling(run: Callable[..., Rows]) -> None:
    """The throttled GPU gets hotter than any other."""
    rows = run(Fault("thermal_throttle", "engine_id", CODE_ENGINE, ON_MS, OFF_MS, 0.4))

    hottest = max(rows["gpu.samples"], key=lambda row: row["temperature_c"])
    assert hottest["engine_id"] == CODE_ENGINE
    assert ON_MS < hottest["at_ms"] <= OFF_MS + 1_000


def test_a_memory_leak_fills_the_gpu_evenly(run: Callable[..., Rows]) -> None:
    """Used memory beyond the healthy run grows by the same step every second, up to the strength."""
    healthy = run()
    rows = run(Fault("memory_leak", "engine_id", CODE_ENGINE, ON_MS, OFF_MS, 0.5))

    pairs = zip(healthy["gpu.samples"], rows["gpu.samples"], strict=True)
    leaked = [
        (b["memory_used_bytes"] - a["memory_used_bytes"]) / (a["memory_total_bytes"] - a["memory_used_bytes"])
        for a, b in pairs
        if b["engine_id"] == CODE_ENGINE and ON_MS < b["at_ms"] <= OFF_MS
    ]
    assert leaked == pytest.approx([0.5 * second / 20 for second in range(20)], abs=1e-6)


def test_a_traffic_surge_is_more_of_the_same(run: Callable[..., Rows]) -> None:
    """Twice the arrivals of one model while it lasts, within five standard deviations."""
    model = "qwen2.5-coder-7b-instruct"
    healthy, surge = run(), run(Fault("traffic_surge", "model", model, ON_MS, OFF_MS, 1.0))

    def count(rows: Rows) -> int:
        return sum(
            ON_MS <= row["at_ms"] - row["e2e_us"] / 1_000 < OFF_MS
            for row in rows["llm.requests"]
            if row["model"] == model
        )

    assert abs(count(surge) - 2 * count(healthy)) < 5 * (2 * count(healthy)) ** 0.5


def test_a_drift_grows_evenly() -> None:
    """A slow fault is at half its strength in the middle, and off outside."""
    fault = Fault("slow_drift", "fleet", "", 1_000, 3_000, 0.4)

    assert [fault.level(at_ms) for at_ms in (999, 1_000, 2_000, 2_999, 3_000)] == [
        0.0,
        0.0,
        0.2,
        0.4 * 1_999 / 2_000,
        0.0,
    ]


def test_the_strongest_of_two_faults_counts(small_plan: Callable[..., FleetPlan]) -> None:
    """Overlapping faults of one kind do not add up."""
    plan = small_plan(
        Fault("latency_regression", "fleet", "", 0, 10, 0.2), Fault("latency_regression", "host", "h-1", 0, 10, 0.5)
    )
    gpus = gpus_of(plan, np.random.default_rng(1))

    assert Knobs(plan, gpus).at(5).engine["slowdown"].tolist() == [0.2, 0.5, 0.5]


def test_a_target_that_is_not_there_is_refused(small_plan: Callable[..., FleetPlan]) -> None:
    """A schedule that names nobody is a mistake, not a quiet day."""
    with pytest.raises(ConfigError, match="no engine_id of the fleet has that name"):
        Fleet(small_plan(Fault("error_burst", "engine_id", "nobody", 0, 10, 0.5)), 1)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"kind": "gremlins"}, "faults.kind"),
        ({"field": "gpu_uuid"}, "faults.field"),
        ({"to_ms": 0}, "faults.to_ms"),
        ({"strength": 0.0}, "faults.strength"),
        ({"strength": 1.5}, "faults.strength"),
        ({"strength": -0.5}, "faults.strength"),
        ({"kind": "clock_skew", "strength": 0.0}, "faults.strength"),
    ],
)
def test_a_wrong_fault_is_refused_by_name(change: dict[str, Any], key: str) -> None:
    """Each mistake names its key."""
    good: dict[str, Any] = {
        "kind": "error_burst", "field": "host", "value": "h-1", "from_ms": 0, "to_ms": 10, "strength": 0.5
    }  # fmt: skip

    with pytest.raises(ConfigError) as raised:
        Fault(**{**good, **change})

    assert raised.value.key == key


def test_a_storm_of_memory_errors_is_told_and_counted(run: Callable[..., Rows]) -> None:
    """An event at once and every minute, the corrected errors in each sample while it lasts, nothing else changed."""
    lost = next(row["gpu_uuid"] for row in run()["gpu.samples"] if row["engine_id"] == CODE_ENGINE)
    rows = run(Fault("ecc_storm", "gpu", "h-1:1", ON_MS, OFF_MS, 40.0))

    told = [(r["at_ms"], r["kind"], r["severity"], r["action"], r["gpu_uuid"]) for r in rows["gpu.events"]]
    assert told == [(ON_MS, "ecc", "warning", "watch", lost)]
    counted = {(r["at_ms"], r["ecc_corrected"]) for r in rows["gpu.samples"] if r["ecc_corrected"] is not None}
    assert counted == {(at_ms, 40) for at_ms in range(ON_MS + 1_000, OFF_MS + 1, 1_000)}
    assert rows["llm.requests"] == run()["llm.requests"]


def test_a_storm_that_goes_on_is_told_every_minute() -> None:
    """Transition at its begin, then after a minute; one that begins anew is told at once."""
    storms, on, off = EccStorms(1), np.ones(1, np.bool_), np.zeros(1, np.bool_)

    told = [bool(storms.due(at_ms, on)[0]) for at_ms in (0, 1_000, 59_999, 60_000, 61_000)]
    silent = bool(storms.due(62_000, off)[0])

    assert (told, silent, bool(storms.due(63_000, on)[0])) == ([True, False, False, True, False], False, True)


def test_a_host_that_is_down_is_silent_and_its_load_moves(run: Callable[..., Rows]) -> None:
    """Nothing of it from the moment it goes down until it is back, then its engines load; no event tells of it."""
    rows = run(Fault("host_down", "host", "h-1", ON_MS, OFF_MS))

    for topic in ("llm.requests", "gpu.samples", "engine.samples", "host.samples"):
        mine = [row["at_ms"] for row in rows[topic] if row["host"] == "h-1"]
        assert mine
        assert not [at_ms for at_ms in mine if ON_MS < at_ms <= OFF_MS]
    assert rows["gpu.events"] == []
    chat = [r for r in rows["llm.requests"] if ON_MS < r["at_ms"] <= OFF_MS and r["model"] == "llama-3.1-8b-instruct"]
    assert {row["engine_id"] for row in chat} == {"h-0/0"}
    back = [row for row in rows["engine.samples"] if row["engine_id"] == CODE_ENGINE and row["at_ms"] > OFF_MS]
    assert [row["at_ms"] for row in back] == list(range(OFF_MS + 1_000, START_MS + 51_000, 1_000))
    assert {row["running"] for row in back} == {0}
    assert back[-1]["waiting"] > 10


def test_a_partition_delays_telemetry_and_loses_nothing(
    small_plan: Callable[..., FleetPlan], steps_of: Callable[..., list[Step]], rows_by_topic: Callable[..., Rows]
) -> None:
    """While it lasts nothing of the host comes; then all of it with its own times, before what is new."""
    cut = Fault("network_partition", "host", "h-1", ON_MS, OFF_MS)
    healthy, ill = steps_of(small_plan(), 9, SECONDS), steps_of(small_plan(cut), 9, SECONDS)

    silent = [step for step in ill if ON_MS <= step.from_ms < OFF_MS]
    after = next(step for step in ill if step.from_ms == OFF_MS)
    assert {emission.host for step in silent for emission in emissions(step)} == {"h-0"}
    assert {at for at, in_host in _times(after, rows_by_topic) if in_host == "h-1"} >= set(
        range(ON_MS + 1_000, OFF_MS + 2_000, 1_000)
    )
    for topic, rows in rows_by_topic(ill).items():
        assert sorted(rows, key=repr) == sorted(rows_by_topic(healthy)[topic], key=repr)


def test_without_trouble_batches_pass_untouched(
    small_plan: Callable[..., FleetPlan], steps_of: Callable[..., list[Step]]
) -> None:
    """The very same objects: a healthy fleet pays nothing for the way out."""
    (step,) = steps_of(small_plan(), 9, 1)
    wires = Wires(2)

    passed = wires.pass_on(step.wides, {"down": np.zeros(2), "cut": np.zeros(2), "skew_s": np.zeros(2)})

    assert [id(wide) for wide in passed] == [id(wide) for wide in step.wides]


def _times(step: Step, rows_by_topic: Callable[..., Rows]) -> list[tuple[int, str]]:
    return [(row["at_ms"], row["host"]) for row in rows_by_topic([step])["gpu.samples"]]


@pytest.mark.parametrize("seconds", [30.0, -30.0, 0.5])
def test_a_skewed_clock_moves_times_and_nothing_else(run: Callable[..., Rows], seconds: float) -> None:
    """Every event of the host is as without it, but for its time."""
    healthy, ill = run(), run(Fault("clock_skew", "host", "h-1", ON_MS, OFF_MS, seconds))

    for topic, rows in healthy.items():
        for before, after in zip(rows, ill[topic], strict=True):
            assert {**after, "at_ms": before["at_ms"]} == before
            moved = after["at_ms"] - before["at_ms"]
            assert moved in (0, round(seconds * 1_000))
            assert before["host"] == "h-1" or moved == 0
    assert {row["at_ms"] - at["at_ms"] for row, at in zip(ill["gpu.samples"], healthy["gpu.samples"], strict=True)} == {
        0,
        round(seconds * 1_000),
    }


def test_an_overrun_is_more_of_one_tenant(run: Callable[..., Rows]) -> None:
    """Three times the requests of one tenant, within five standard deviations; those of all others as they were."""
    healthy, ill = run(), run(Fault("budget_overrun", "tenant", "globex", ON_MS, OFF_MS, 2.0))

    def count(rows: Rows, mine: bool) -> int:
        return sum(
            ON_MS <= row["at_ms"] - row["e2e_us"] / 1_000 < OFF_MS and (row["tenant"] == "globex") == mine
            for row in rows["llm.requests"]
        )

    expected = count(healthy, mine=True) + 2 * sum(count(healthy, mine) for mine in (True, False)) * 3 / 12
    assert abs(count(ill, mine=True) - expected) < 5 * expected**0.5
    assert abs(count(ill, mine=False) - count(healthy, mine=False)) < 5 * count(healthy, mine=False) ** 0.5


def test_every_kind_says_what_it_does() -> None:
    """The table is complete."""
    assert all(kind.meaning and kind.strength for kind in KINDS.values())


def test_a_schedule_from_a_file_counts_from_the_begin() -> None:
    """Seconds become moments; strength is 1 where it is not told."""
    rows = [{"kind": "gpu_lost", "field": "gpu", "value": "h-0:1", "from_s": 1.5, "to_s": 3}]

    assert faults_of(rows, 10_000) == (Fault("gpu_lost", "gpu", "h-0:1", 11_500, 13_000, 1.0),)


@pytest.mark.parametrize("row", [{}, {"kind": "gpu_lost", "field": "fleet", "from_s": 0, "to_s": 1, "who": "me"}])
def test_a_schedule_with_other_keys_is_refused(row: dict[str, Any]) -> None:
    """Missing and unknown keys are named."""
    with pytest.raises(ConfigError, match="keys are"):
        faults_of([row], 0)


def test_a_saturated_core_starves_the_gpu(run: Callable[..., Rows]) -> None:
    """Requests wait while the GPU idles: a thread and one core of the host are saturated, the mean is not."""
    rows = run(Fault("starved", "engine_id", CODE_ENGINE, ON_MS, OFF_MS, 0.95))

    def least(topic: str, name: str, *, during: bool) -> int:
        return min(int(row[name]) for row in of(rows, topic, CODE_ENGINE, during=during))

    hosts = [row for row in rows["host.samples"] if row["host"] == "h-1" and ON_MS + 2_000 <= row["at_ms"] <= OFF_MS]
    assert max(row["waiting"] for row in of(rows, "engine.samples", CODE_ENGINE, during=True)) > 4
    assert max(row["util_gpu_pct"] for row in of(rows, "gpu.samples", CODE_ENGINE, during=True)) < 50
    assert least("host.processes", "cpu_thread_max_ppm", during=True) == 1_000_000
    assert least("host.processes", "cpu_thread_max_ppm", during=False) < 600_000
    assert {row["cpu_core_busy_max_ppm"] for row in hosts} == {1_000_000}
    assert max(row["cpu_busy_ppm"] for row in hosts) < 50_000


def test_slow_kernels_leave_tensor_cores_idle(run: Callable[..., Rows]) -> None:
    """Steps are slower and prompts are computed all the same, without tensor cores."""
    engine = "h-0/0"
    rows = run(Fault("slow_kernels", "engine_id", engine, ON_MS, OFF_MS, 0.5))

    def tensor(*, during: bool) -> list[int]:
        return [row["tensor_active_ppm"] for row in of(rows, "gpu.samples", engine, during=during)]

    assert set(tensor(during=True)) == {0}
    assert max(tensor(during=False)) > 1_000
    assert sum(row["prompt_tokens"] for row in of(rows, "engine.samples", engine, during=True)) > 1_000


@pytest.mark.parametrize(
    ("kind", "strength", "column", "ill", "well"),
    [("pcie_width", 0.5, "pcie_width", 8, 16), ("nvlink_errors", 300.0, "nvlink_errors", 300, 0)],
)
def test_a_link_of_one_gpu_is_narrow_or_errs(
    run: Callable[..., Rows], kind: str, strength: float, column: str, ill: int, well: int
) -> None:
    """While it lasts, and of that GPU alone; the most lanes stay known."""
    rows = run(Fault(kind, "gpu", "h-0:1", ON_MS, OFF_MS, strength))["gpu.samples"]

    hit = {row["gpu_uuid"] for row in rows if row[column] == ill}
    assert len(hit) == 1
    assert {row[column] for row in rows if row["gpu_uuid"] in hit and ON_MS < row["at_ms"] <= OFF_MS} == {ill}
    assert {row[column] for row in rows if row["gpu_uuid"] not in hit} - {None} == {well}
    assert {row["pcie_width_max"] for row in rows} == {16}
