"""The fleet as a whole: same seed same bytes, every event is valid, and all readings agree with one another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleetpulse.equipment import GPU_TYPES, MODELS, RUNTIME_BYTES
from lab.simulator.fleet import Fleet, Step
from lab.simulator.load import PoissonLoad, Share, Trace, TraceLoad
from lab.simulator.plan import FleetPlan, Habits, engine_rates, large_plan, mixed_plan
from schemas.codec import native
from schemas.contract.admission import admit, read_headers
from schemas.contract.headers import NATIVE, Identity, RecordHeaders, encode_headers
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS
from schemas.sketch import RELATIVE_ERROR_MAX, value_of
from tests.unit.lab.simulator.emitted import emissions

Plan = Callable[..., FleetPlan]
Steps = Callable[[FleetPlan, int, int], list[Step]]
Rows = dict[str, list[dict[str, Any]]]
NO_TROUBLE = Habits(aborted=0.0, server_error=0.0, client_error=0.0)


def wire(steps: list[Step]) -> list[tuple[str, str, bytes]]:
    return [
        (emission.topic, emission.host, native.encode(BY_TOPIC[emission.topic].fields, emission.block))
        for step in steps
        for emission in emissions(step)
    ]


@pytest.fixture
def drained(small_plan: Plan, steps_of: Steps, rows_by_topic: Callable[[list[Step]], Rows]) -> Rows:
    """20 busy seconds of a trace that ends, then silence until all is done."""
    random = np.random.default_rng(3)
    at_us = np.sort(random.integers(0, 20_000_000, 400))
    trace = Trace(at_us, random.integers(1, 4_000, 400), random.integers(1, 300, 400))
    shares = (Share("llama-3.1-8b-instruct", 2.0), Share("qwen2.5-coder-7b-instruct", 1.0))
    load = TraceLoad({"t": trace}, {"t": shares}, repeat=False)
    return rows_by_topic(steps_of(small_plan(load=load), 4, 60))


def test_the_same_seed_gives_the_same_bytes(small_plan: Plan, steps_of: Steps) -> None:
    """Two fleets of one plan and seed emit the same records; another seed emits others."""
    first, again, other = (wire(steps_of(small_plan(), seed, 5)) for seed in (7, 7, 8))

    assert first == again
    assert first != other


def test_another_run_of_the_same_seed_has_other_request_ids(
    small_plan: Plan, rows_by_topic: Any, start_ms: int
) -> None:
    """The same fleet a day later: same GPUs, same latencies, no id twice."""
    days = [list(Fleet(small_plan(), 7).steps(at, at + 6_000)) for at in (start_ms, start_ms + 86_400_000)]
    rows = [rows_by_topic(steps) for steps in days]

    ids, latencies, gpus = (
        [[row[name] for row in day[topic]] for day in rows]
        for topic, name in (("llm.requests", "request_id"), ("llm.requests", "e2e_us"), ("gpu.samples", "gpu_uuid"))
    )
    assert not set(ids[0]) & set(ids[1])
    assert latencies[0] == latencies[1]
    assert gpus[0] == gpus[1]


def test_every_event_is_accepted_by_the_contract(small_plan: Plan, steps_of: Steps) -> None:
    """Admission of all records, right after their step, accepts every event of every topic."""
    habits = Habits(aborted=0.1, server_error=0.1, client_error=0.1)
    verdicts: Counter[tuple[str, int]] = Counter()
    for step in steps_of(small_plan(habits=habits), 1, 8):
        for emission in emissions(step):
            event = BY_TOPIC[emission.topic]
            headers = encode_headers(event.schema, NATIVE, Identity("0" * 32, 1, 0, (1, 0)), emission.block.rows)
            value = native.encode(event.fields, emission.block)
            records = [Record(emission.topic, 0, 0, step.to_ms, emission.host.encode(), value, headers)]
            parsed = read_headers(event, records, DEFAULT_LIMITS)
            assert isinstance(parsed[0], RecordHeaders)
            judged = admit(event, records, [parsed[0]], DEFAULT_LIMITS)
            assert judged.rejects == []
            verdicts.update((emission.topic, int(verdict)) for verdict in judged.verdicts)

    assert {verdict for _, verdict in verdicts} == {int(Verdict.ACCEPTED)}
    machines = {"gpu.samples", "host.samples", "host.processes"}
    assert {topic for topic, _ in verdicts} == {"llm.requests", "engine.samples", *machines}


def test_all_is_marked_simulated(drained: Rows) -> None:
    """No event of the fleet passes for a measurement."""
    assert {row["origin"] for rows in drained.values() for row in rows} == {"simulated"}


def test_every_arrival_has_one_terminal_event(drained: Rows) -> None:
    """400 arrivals of the trace end 400 times, each under its own id."""
    ids = [row["request_id"] for row in drained["llm.requests"]]

    assert len(ids) == len(set(ids)) == 400


def test_latencies_of_a_request_add_up(drained: Rows) -> None:
    """TTFT = queue + prefill, E2E = TTFT + decode, TPOT = decode / (n - 1), gaps = decode within the sketch's error."""
    good = [row for row in drained["llm.requests"] if row["status"] == "ok"]
    assert len(good) > 300
    for row in good:
        tokens, decode_us = row["output_tokens"], row["decode_us"]
        assert row["ttft_us"] == row["queue_us"] + row["prefill_us"] == row["ttfo_us"]
        assert row["e2e_us"] == row["ttft_us"] + decode_us
        assert row["tpot_us"] == (decode_us // (tokens - 1) if tokens > 1 else None)
        assert sum(row["itl_bins"].values()) == tokens - 1
        in_bins = sum(value_of(bin_) * count for bin_, count in row["itl_bins"].items())
        assert abs(in_bins - decode_us) <= RELATIVE_ERROR_MAX * decode_us


def test_what_did_not_happen_is_null(small_plan: Plan, steps_of: Steps, rows_by_topic: Any) -> None:
    """A refused request has no latencies but E2E; a successful one has no error kind."""
    rows = rows_by_topic(steps_of(small_plan(habits=Habits(client_error=0.5)), 1, 5))["llm.requests"]
    refused = [row for row in rows if row["http_status"] == 400]
    assert refused
    names = ("ttft_us", "tpot_us", "queue_us", "prefill_us", "decode_us", "cached_tokens")
    assert {tuple(row[name] for name in names) for row in refused} == {(None,) * len(names)}
    assert {(row["status"], row["error_kind"], row["output_tokens"]) for row in refused} == {("error", "client", 0)}
    assert {row["error_kind"] for row in rows if row["status"] == "ok"} == {None}


def test_engine_totals_are_the_sums_of_their_requests(drained: Rows) -> None:
    """Tokens, prefix hits and ends that engines counted are those of the requests they served, to the token."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for row in drained["engine.samples"]:
        for name in ("prompt_tokens", "prefix_hit_tokens", "generation_tokens", "finished_requests"):
            counted[row["engine_id"]][name] += row[name]
    served: dict[str, Counter[str]] = defaultdict(Counter)
    for row in drained["llm.requests"]:
        engine = served[row["engine_id"]]
        engine["finished_requests"] += 1
        engine["generation_tokens"] += row["output_tokens"]
        engine["prompt_tokens"] += row["input_tokens"] if row["queue_us"] is not None else 0
        engine["prefix_hit_tokens"] += row["cached_tokens"] or 0

    assert counted == served


def test_engine_gauges_are_the_requests_in_flight(drained: Rows) -> None:
    """Running + waiting at a reading = requests that had arrived and not ended, within those of that millisecond."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in drained["llm.requests"]:
        spans[row["engine_id"]].append((row["at_ms"] - row["e2e_us"] / 1_000, row["at_ms"]))
    busy = 0
    for row in drained["engine.samples"]:
        mine, at_ms = spans[row["engine_id"]], row["at_ms"]
        sure = sum(begin + 1 <= at_ms < end for begin, end in mine)
        possible = sum(begin <= at_ms <= end + 1 for begin, end in mine)
        assert sure <= row["running"] + row["waiting"] <= possible
        busy += row["running"]

    assert busy > 100


def by_gpu(rows: Rows) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows["gpu.samples"]:
        found[row["gpu_uuid"]].append(row)
    return found


def test_energy_is_the_integral_of_power(drained: Rows) -> None:
    """The millijoules of any first k samples are those of their power samples, rounded down once."""
    for samples in by_gpu(drained).values():
        energy_mj = np.cumsum([row["energy_mj"] for row in samples])
        power_uj = np.cumsum([row["power_mw"] * row["interval_ms"] for row in samples])

        assert energy_mj.tolist() == (power_uj // 1_000).tolist()


def test_memory_is_weights_plus_cache(drained: Rows, small_plan: Plan) -> None:
    """Beside runtime and weights a GPU holds the tokens its engine's cache tells, within one millionth of the cache."""
    plan = small_plan()
    hosts = {host.name: host for host in plan.hosts}
    engines = {engine.engine_id: engine_rates(engine, hosts[engine.host]) for engine in plan.engines}
    used = {(row["engine_id"], row["at_ms"]): row["kv_used_ppm"] for row in drained["engine.samples"]}
    held = 0
    for row in drained["gpu.samples"]:
        if row["engine_id"] is None:
            assert (row["workload"], row["memory_used_bytes"]) == ("idle", 0)
            continue
        able = engines[row["engine_id"]]
        cache = row["memory_used_bytes"] - RUNTIME_BYTES - able.weights_bytes_per_gpu
        tokens, rest = divmod(cache, able.cache_bytes_per_token_per_gpu)
        assert rest == 0
        assert tokens * 1_000_000 // able.cache_tokens_max == used[row["engine_id"], row["at_ms"]]
        assert row["memory_used_bytes"] <= row["memory_total_bytes"]
        held += tokens

    assert held > 0


def test_gpus_are_busy_when_their_engine_works_and_only_then(drained: Rows) -> None:
    """GPUs of one engine read the same busy share; without tokens it is 0, power idle and clocks low."""
    work = {(r["engine_id"], r["at_ms"]): r["generation_tokens"] + r["running"] for r in drained["engine.samples"]}
    types = {gpu.name: gpu for gpu in GPU_TYPES.values()}
    shares: dict[tuple[Any, int], set[int]] = defaultdict(set)
    for row in drained["gpu.samples"]:
        type_ = types[row["gpu_model"]]
        shares[row["engine_id"], row["at_ms"]].add(row["util_gpu_pct"])
        assert type_.idle_mw <= row["power_mw"] <= row["power_limit_mw"] == type_.limit_mw
        if work.get((row["engine_id"], row["at_ms"]), 0) == 0:
            found = (row["util_gpu_pct"], row["power_mw"], row["clock_sm_mhz"], row["clock_reasons"])
            assert found == (0, type_.idle_mw, type_.clock_idle_mhz, 1)
        else:
            assert (row["clock_sm_mhz"], row["clock_reasons"]) == (type_.clock_max_mhz, 0)

    assert {len(found) for found in shares.values()} == {1}
    assert max(max(found) for found in shares.values()) > 50


def test_a_saturated_engine_is_busy_all_the_time(small_plan: Plan, steps_of: Steps, rows_by_topic: Any) -> None:
    """More load than it can carry: utilisation 100 %, a full queue, refusals, and power well above idle."""
    load = PoissonLoad(400.0, (Share("qwen2.5-coder-7b-instruct", 1.0),))
    rows = rows_by_topic(steps_of(small_plan(load=load, habits=NO_TROUBLE), 1, 12))
    samples = [row for row in rows["gpu.samples"] if row["engine_id"] == "h-1/1"][2:]
    assert {row["util_gpu_pct"] for row in samples} == {100}
    assert min(row["power_mw"] for row in samples) > 150_000
    assert any(row["status"] == "rejected" and row["http_status"] == 429 for row in rows["llm.requests"])


def test_gpus_that_lack_a_sensor_read_null(drained: Rows) -> None:
    """An L40S has no memory sensor, no GPM and no NVLink; an H100 has all of them."""
    names = ("temperature_memory_c", "sm_active_ppm", "tensor_active_ppm", "nvlink_tx_bytes")
    for row in drained["gpu.samples"]:
        known = {row[name] is not None for name in names}
        assert known == {row["gpu_model"] == GPU_TYPES["H100"].name}


def test_records_hold_the_gpus_of_one_host(small_plan: Plan, steps_of: Steps) -> None:
    """A host's samples of a second are one record."""
    for step in steps_of(small_plan(), 1, 3):
        found = [(e.host, e.block.rows) for e in emissions(step) if e.topic == "gpu.samples"]
        assert found == [("h-0", 3), ("h-1", 2)]


def test_events_are_never_newer_than_their_step(small_plan: Plan, steps_of: Steps) -> None:
    """Samples stand at the end of the step; a refusal may end a millisecond after it, nothing else."""
    for step in steps_of(small_plan(), 1, 5):
        for wide in step.wides:
            at_ms = wide.columns["at_ms"].values  # type: ignore[union-attr]
            assert step.from_ms - 1_000 <= at_ms.min()
            assert at_ms.max() <= step.to_ms + 1


def test_the_mixed_fleet_carries_its_load() -> None:
    """64 GPUs of five types; at 300 requests a second more than 95 % end well."""
    shares = (Share("llama-3.1-8b-instruct", 5.0), Share("llama-3.3-70b-instruct", 1.0))
    plan = mixed_plan(8, PoissonLoad(300.0, shares))
    assert plan.gpus == 64
    assert len({host.gpu_type for host in plan.hosts}) == 5
    fates: Counter[bytes | None] = Counter()
    for step in Fleet(plan, 1).steps(0, 15_000):
        for wide in step.wides:
            if wide.topic == "llm.requests":
                codes, words = wide.fleet_labels("status")
                fates.update(words[code] for code in codes)
    assert fates[b"ok"] > 0.95 * fates.total() > 2_000


def test_the_large_fleet_has_the_shape_of_its_name() -> None:
    """Each host sends 8 GPU samples and on average some 40 requests a second."""
    hosts = 20
    plan = large_plan(hosts)
    steps = list(Fleet(plan, 1).steps(0, 40_000))
    late = steps[20:]
    requests = sum(wide.rows for step in late for wide in step.wides if wide.topic == "llm.requests")
    samples = [wide.rows for step in late for wide in step.wides if wide.topic == "gpu.samples"]
    assert set(samples) == {8 * hosts}
    assert requests / len(late) / hosts == pytest.approx(40.0, rel=0.1)


def test_models_of_the_table_fit_their_gpus() -> None:
    """Every engine of both ready-made plans has room for at least one longest request."""
    load = PoissonLoad(1.0, (Share("llama-3.1-8b-instruct", 1.0),))
    for plan in (mixed_plan(8, load), large_plan(1)):
        for engine in plan.engines:
            host = next(host for host in plan.hosts if host.name == engine.host)
            assert engine_rates(engine, host).cache_tokens_max > 16_384
            assert engine.model in MODELS
