"""A real vLLM, measured by default: what clients saw, what the tables hold and what the engine counted are the same.

``make test-engines``. One trial of some minutes; the tests look at what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.bench.counterparts_metrics import (
    ALLOWED_SHARE,
    ALLOWED_US,
    METRICS,
    QUANTILES,
    Ours,
    Seen,
    compare,
    metrics_of_client,
    quantiles_of,
    read_export,
)
from tests.engines import rig as rigs
from tests.engines.rig import Aborted, Rig
from tests.engines.vllm_server import MODEL

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3_600)]

AIPERF_REQUESTS = 120
BENCH_REQUESTS = 40
GUIDELLM_REQUESTS = 20
THROUGH = "llm_requests FINAL WHERE reported_by = 'proxy'"
"""Requests through the proxy; the engine's plug-in reports each of them too, and the SDK those of its client."""
XID = 79


@dataclass(frozen=True, slots=True)
class Trial:
    """What the clients saw, and the engine's counters before and after requests that ended by themselves."""

    rig: Rig
    seen: list[Seen]
    bench: dict[str, Any]
    guidellm: list[dict[str, Any]]
    mixed: dict[str, dict[str, Any]]
    before: dict[str, float]
    after: dict[str, float]
    aborted: dict[str, Aborted]
    plain: dict[str, dict[str, Any]]
    tracked: dict[str, dict[str, Any]]

    @property
    def counted(self) -> dict[str, float]:
        """What the engine's counters grew by."""
        return {name: value - self.before.get(name, 0.0) for name, value in self.after.items()}

    @property
    def requests(self) -> int:
        """That clients sent through the proxy and that ended by themselves."""
        return len(self.seen) + len(self.mixed) + BENCH_REQUESTS + GUIDELLM_REQUESTS


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("engines")
    with rigs.rig(folder) as rig:
        before = rig.engine.counters()
        export = rigs.aiperf(rig, AIPERF_REQUESTS, streams=4)
        rig.raise_xid(XID)
        bench, mixed = rigs.bench_serve(rig, BENCH_REQUESTS), rigs.mixed(rig)
        guidellm = rigs.guidellm(rig, GUIDELLM_REQUESTS)
        after = rig.engine.counters()
        aborted = {
            "straight": rigs.abort(rig, rig.engine.port, "aborted-straight"),
            "proxy": rigs.abort(rig, rig.proxy_port, "aborted-proxy"),
        }
        plain, tracked = rigs.direct(rig, tracked=False), rigs.direct(rig, tracked=True)
        made = Trial(rig, read(export), bench, guidellm, mixed, before, after, aborted, plain, tracked)
        rig.eventually("SELECT uniqExact(request_id) FROM llm_requests", lambda n: n > made.requests)
        beside = "SELECT uniqExact(request_id) FROM llm_requests WHERE reported_by != 'proxy'"
        rig.eventually(beside, lambda n: n >= len(plain) + len(tracked))
        rig.eventually("SELECT sum(event_count) FROM request_windows", lambda n: n and n > made.requests)
        yield made


def read(export: Path) -> list[Seen]:
    with (export / "profile_export_raw.jsonl").open() as raw, (export / "profile_export.jsonl").open() as metrics:
        return read_export(raw, metrics)


def rows_of(trial: Trial, request_ids: list[str]) -> list[dict[str, Any]]:
    """Our rows of these requests."""
    listed = ", ".join(f"'{each}'" for each in request_ids)
    return trial.rig.rows(f"SELECT * FROM llm_requests FINAL WHERE request_id IN ({listed})")


def test_every_request_is_one_row(trial: Trial) -> None:
    """As many rows as requests: those that ended by themselves, and the one that was aborted at the proxy."""
    assert trial.rig.value(f"SELECT count() FROM {THROUGH}") == trial.requests + 1
    assert trial.rig.value(f"SELECT uniqExact(request_id) FROM {THROUGH}") == trial.requests + 1


def test_what_others_report_of_a_request_is_counted_once(trial: Trial) -> None:
    """Every request passes the proxy or not, and the plug-in reports all of them: no row is of a request that another
    row is of. Requests straight to the engine are the plug-in's; those of a tracked client are the SDK's, with what the
    engine alone knows."""
    rows = trial.rig.rows(
        "SELECT request_id, reported_by, tenant, queue_us IS NOT NULL AS queued, ttft_us IS NOT NULL AS first, "
        "engine_id IS NOT NULL AS joined FROM llm_requests FINAL WHERE reported_by != 'proxy'"
    )
    by_id = {row.pop("request_id"): row for row in rows}

    assert len(rows) == len(by_id)
    assert by_id == {
        **{
            name: {"reported_by": "plugin", "tenant": None, "queued": 1, "first": 1, "joined": 1}
            for name in trial.plain
        },
        **{
            name: {"reported_by": "sdk", "tenant": "tracked", "queued": 1, "first": int(got["texts"]), "joined": 1}
            for name, got in trial.tracked.items()
        },
    }


def test_rows_are_what_aiperf_saw(trial: Trial) -> None:
    """Requests, tokens and chunks are equal, in all and one by one."""
    rows = rows_of(trial, [each.request_id for each in trial.seen])
    judged = compare(trial.seen, Ours(tuple(rows), {name: dict.fromkeys(QUANTILES) for name in METRICS}))

    assert len(trial.seen) == AIPERF_REQUESTS
    assert [name for name, one in judged["counts"].items() if not one["agrees"]] == []
    assert judged["request_by_request"]["sent"]["requests_with_other_counts"] == 0


@pytest.mark.parametrize("metric", METRICS)
def test_quantiles_are_those_of_aiperf(trial: Trial, metric: str) -> None:
    """In SQL, within 1.1 % and a millisecond of the client's own rows, timed from when it had sent its request."""
    ids = ", ".join(f"'{each.request_id}'" for each in trial.seen)
    rows = f"FROM llm_requests FINAL WHERE request_id IN ({ids})"
    client = quantiles_of(metrics_of_client(trial.seen, "sent")[metric])
    ours = {
        q: trial.rig.value(
            f"SELECT fp_quantile_linear({q}, sumMap(itl_bins)) {rows}"
            if metric == "itl_us"
            else f"SELECT quantileExactInclusive({q})({metric}) {rows}"
        )
        for q in QUANTILES
    }
    far = {q: abs(ours[q] - (value or 0)) > (value or 0) * ALLOWED_SHARE + ALLOWED_US for q, value in client.items()}

    assert not any(far.values()), (ours, client)


def test_tokens_and_times_are_those_of_vllms_own_client(trial: Trial) -> None:
    """``vllm bench serve`` counts its answers itself."""
    like = "FROM llm_requests FINAL WHERE request_id LIKE 'bench-%'"
    (ours,) = trial.rig.rows(f"SELECT count() AS n, sum(output_tokens) AS tokens, countIf(status = 'ok') AS ok {like}")

    assert (trial.bench["completed"], trial.bench["failed"]) == (BENCH_REQUESTS, 0)
    assert ours == {"n": BENCH_REQUESTS, "tokens": trial.bench["total_output_tokens"], "ok": BENCH_REQUESTS}


def test_tokens_are_those_of_guidellm(trial: Trial) -> None:
    """Request by request, by the id that vLLM took from the proxy."""
    saw = {
        each["response_id"].removeprefix("chatcmpl-"): (each["prompt_tokens"], each["output_tokens"])
        for each in trial.guidellm
    }
    rows = rows_of(trial, [*saw])

    assert len(saw) == GUIDELLM_REQUESTS
    assert {row["request_id"]: (row["input_tokens"], row["output_tokens"]) for row in rows} == saw


def test_rows_are_what_the_openai_package_got(trial: Trial) -> None:
    """Status and tokens of every kind of request; nothing that a client did not request comes to it."""
    rows = {row["request_id"]: row for row in rows_of(trial, list(trial.mixed))}
    wanted = {
        name: (got["status"], got["input_tokens"], got["output_tokens"])
        for name, got in trial.mixed.items()
        if "input_tokens" in got
    }
    found = {
        name: (rows[name]["http_status"], rows[name]["input_tokens"], rows[name]["output_tokens"]) for name in rows
    }

    assert rows.keys() == trial.mixed.keys()
    assert {name: found[name] for name in wanted} == wanted
    assert {name: rows[name]["http_status"] for name in rows} == {n: got["status"] for n, got in trial.mixed.items()}
    assert {got["usage_chunks"] for got in trial.mixed.values() if got["kind"] == "stream_plain"} == {0}
    assert {got["usage_chunks"] for got in trial.mixed.values() if got["kind"] == "stream_usage"} == {1}


def test_streams_without_requested_usage_have_token_counts(trial: Trial) -> None:
    """A client that requests no usage is counted by the engine all the same."""
    plain = [name for name, got in trial.mixed.items() if got["kind"] == "stream_plain"]
    with_usage = next(got for got in trial.mixed.values() if got["kind"] == "stream_usage")
    rows = rows_of(trial, plain)

    assert len(rows) == len(plain)
    assert {(row["input_tokens"], row["output_tokens"], row["tokens_from"]) for row in rows} == {
        (with_usage["input_tokens"], with_usage["output_tokens"], "engine")
    }


def test_the_engine_counted_the_same(trial: Trial) -> None:
    """Its counters grew by what the tables hold; three choices are three requests there."""
    (ours,) = trial.rig.rows(
        "SELECT sum(input_tokens * choices) AS prompt, sum(output_tokens) AS generation, sum(choices) AS requests "
        f"FROM {THROUGH} AND status = 'ok'"
    )
    assert ours == {
        "prompt": trial.counted["vllm:prompt_tokens_total"],
        "generation": trial.counted["vllm:generation_tokens_total"],
        "requests": trial.counted["vllm:request_success_total"],
    }


def test_what_the_engine_reports_of_a_request_is_in_its_row(trial: Trial) -> None:
    """Queue, prefill and decode times of every ok request with one choice, and its cached tokens."""
    (ours,) = trial.rig.rows(
        "SELECT count() AS n, countIf(queue_us IS NOT NULL) AS queue, countIf(prefill_us > 0) AS prefill, "
        "countIf(decode_us > 0) AS decode, countIf(cached_tokens IS NOT NULL) AS cached, sum(cached_tokens) AS hits "
        f"FROM {THROUGH} AND status = 'ok' AND choices = 1"
    )
    assert ours["n"] > AIPERF_REQUESTS
    assert {name: ours[name] for name in ("queue", "prefill", "decode", "cached")} == dict.fromkeys(
        ("queue", "prefill", "decode", "cached"), ours["n"]
    )
    assert ours["hits"] > 0


def test_requests_and_gpus_name_the_engine_that_the_agent_registered(trial: Trial) -> None:
    """One engine: the same id, placement group, version and start in its events, on its GPU and in every ok request."""
    rig = trial.rig
    names = "engine_id, placement_group"
    (engine,) = rig.rows(f"SELECT {names} FROM engine_events FINAL ORDER BY at_ms DESC LIMIT 1")
    requests = rig.rows(f"SELECT {names}, count() AS n FROM llm_requests FINAL WHERE status = 'ok' GROUP BY {names}")
    samples = rig.rows(
        f"SELECT DISTINCT {names} FROM gpu_samples FINAL WHERE at_ms > (SELECT max(at_ms) + 5000 FROM engine_events)"
    )
    engines = rig.rows("SELECT DISTINCT engine_id FROM engine_samples FINAL")

    assert [{name: row[name] for name in engine} for row in requests] == [engine]
    assert samples == [engine]
    assert engines == [{"engine_id": engine["engine_id"]}]


def test_requests_have_what_is_known_of_their_engine(trial: Trial) -> None:
    """The version of the model is the engine's ``root``, where nothing better is known."""
    (row,) = trial.rig.rows("SELECT DISTINCT model, model_version FROM llm_requests FINAL WHERE status = 'ok'")

    assert row["model"] == MODEL
    assert row["model_version"]


def test_windows_have_the_running_batch(trial: Trial) -> None:
    """A histogram of all readings; clients had four requests open at a time, and requests stand beside the batch."""
    trial.rig.eventually("SELECT max(running_max) FROM engine_windows", lambda n: n and n >= 2)
    (row,) = trial.rig.rows(
        "SELECT sum(running_count) AS readings, arraySum(mapValues(sumMap(running_bins))) AS binned FROM engine_windows"
    )

    assert row["binned"] == row["readings"] > 0
    assert trial.rig.value("SELECT sum(requests) FROM latency_by_concurrency") > 0


def test_invented_models_are_one_series(trial: Trial) -> None:
    """Models that no answer confirmed are one series; a rejected request of a confirmed one is of that model."""
    models = {row["model"] for row in trial.rig.rows("SELECT DISTINCT model FROM request_windows")}
    rejected = {row["request_id"]: row["model"] for row in rows_of(trial, [*trial.mixed]) if row["http_status"] != 200}

    assert models == {MODEL, "__unknown__"}
    assert {name for name, model in rejected.items() if model == MODEL} == {"bad-0"}


def test_a_busy_minute_is_paid_by_its_requests(trial: Trial) -> None:
    """The bill of a minute with requests has parts of requests, and most of a minute that was busy."""
    busy = (
        "SELECT count() FROM token_costs FINAL WHERE use = 'engine' AND has(part_name, 'request') "
        "AND NOT has(part_name, '__idle__')"
    )
    trial.rig.eventually(busy, bool)
    parts = trial.rig.rows(
        "SELECT part_name AS name, sum(part_gpu_ms) AS gpu_ms FROM token_costs FINAL "
        "ARRAY JOIN part_name, part_gpu_ms WHERE has(token_costs.line_requests, 0) = 0 "
        "AND length(token_costs.line_requests) > 0 GROUP BY name"
    )
    shares = {row["name"]: row["gpu_ms"] for row in parts}

    assert shares.get("request", 0) > 0
    assert "__unpriced__" not in shares


def test_a_single_request_has_its_cost(trial: Trial) -> None:
    """By its id: of the bill of its minute what its own tokens are."""
    request_id = f"request_id={trial.seen[0].request_id}"
    costs = [row["cost_nusd"] for row in trial.rig.answered("query", "request_cost", "--param", request_id)]

    assert max(cost or 0 for cost in costs) > 0


def test_a_fault_is_joined_to_the_requests_of_its_window(trial: Trial) -> None:
    """An XID of the GPU, with its engine, and the requests that were open until one was answered well."""
    rig = trial.rig
    rig.eventually(f"SELECT count() FROM gpu_events WHERE kind = 'xid' AND code = {XID}", bool)
    (event,) = rig.rows(f"SELECT DISTINCT at_ms, engine_id FROM gpu_events FINAL WHERE kind = 'xid' AND code = {XID}")
    (engine,) = rig.rows("SELECT DISTINCT engine_id FROM engine_events FINAL")
    fault = next(row for row in rig.answered("query", "requests_of_gpu_fault") if "xid" in row["kind"])

    assert event["engine_id"] == engine["engine_id"] == fault["engine"]
    assert fault["requests"] >= 1
    assert fault["failed"] == 0


@pytest.mark.parametrize("way", ["straight", "proxy"])
def test_the_engine_stops_when_a_client_gives_up(trial: Trial, way: str) -> None:
    """100 ms after the client closed, no further token is made; with the proxy as without."""
    assert trial.aborted[way].tokens_later == 0
    assert 0 < trial.aborted[way].tokens_after_100_ms < rigs.LONG_TOKENS


def test_an_aborted_stream_has_token_counts(trial: Trial) -> None:
    """What the engine had made until then, but for what was under way."""
    (row,) = rows_of(trial, ["aborted-proxy"])

    assert (row["status"], row["tokens_from"]) == ("aborted", "engine")
    assert row["input_tokens"] > 0
    assert 0 <= trial.aborted["proxy"].tokens_after_100_ms - row["output_tokens"] <= 50


def test_the_doctor_finds_nothing(trial: Trial) -> None:
    """``doctor`` ends with 0."""
    done = trial.rig.fleetpulse("doctor")

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_books_are_exact(trial: Trial) -> None:
    """``reconcile`` beside an idle agent finds no difference."""
    done = trial.rig.fleetpulse("reconcile", "--wait", "60")

    assert done.returncode == 0, done.stdout + done.stderr
