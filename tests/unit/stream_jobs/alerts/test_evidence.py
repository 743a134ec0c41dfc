"""Evidence of alerts: whose requests, which machines, who explains it.

Covers stream_jobs.alerts.evidence_rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from schemas.contract.alerts import Member
from schemas.errors import ContractError
from schemas.limits import WINDOW_MS
from schemas.sketch import bin_of
from stream_jobs.alerts.evidence import BYTES_MAX, LONG_KEPT, LOOKUPS_MAX, Evidence
from stream_jobs.alerts.remembered import AMOUNTS, FIELDS, Lookup, remembered
from stream_jobs.insight.frame import Window
from stream_jobs.rules.model import Function, Measure, Rule, Where
from tests.unit.stream_jobs.alerts.evidence_cases import BASE_MS, a_gpu, a_service, a_window, an_alert, an_exemplar

ERRORS = Measure(
    "value", "llm.requests", Function.SHARE, match=Where("status", ("error", "timeout")), text="share(status in error)"
)
HEAT = Measure("value", "gpu.samples", Function.MEAN, "temperature_c")
SLOW = Measure("value", "llm.requests", Function.PERCENTILE, "e2e_us")
FAILED = {"status": "error", "error_kind": "oom"}
UNWELL = {
    "failed": FAILED,
    "aborted": {"status": "aborted", "error_kind": None},
    "client_fault": {"status": "error", "error_kind": "client"},
}
"""Examples of every end but a good one; who chose them calls them all failed."""


def share(where: Where) -> Measure:
    return Measure("value", "llm.requests", Function.SHARE, match=where, text="share")


RULES = (
    Rule("errors_high", "threshold", (ERRORS,), ("model",), "critical", ""),
    Rule("gpu_hot", "threshold", (Measure("value", "gpu.samples", Function.MEAN, "temperature_c"),), (), "warning", ""),
    Rule(
        "e2e_slow", "deviation", (Measure("value", "llm.requests", Function.PERCENTILE, "e2e_us"),), (), "warning", ""
    ),
)


def evidence(*windows: Window) -> Evidence:
    found = Evidence(RULES)
    for window in windows:
        found.remember(window, [])
    return found


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["request_id"] for row in rows]


def test_the_slowest_requests_that_match_the_labels() -> None:
    """By the measure of the rule, with their traces; those of other models are not among them."""
    found = evidence(
        a_window(
            exemplars=[
                an_exemplar("r1", value_us=10, trace_id="t1"),
                an_exemplar("r2", value_us=30),
                an_exemplar("r3", value_us=99, model="m2"),
                an_exemplar("r4", "e2e", 50),
            ]
        )
    )

    of_ttft = found.of(an_alert(labels={"model": "m1"}))["requests"]
    assert ids(of_ttft["slowest"]) == ["r2", "r1"]
    assert of_ttft["slowest"][1] == {
        "request_id": "r1",
        "trace_id": "t1",
        "window_ms": BASE_MS,
        "value_us": 10,
        "engine_id": "e1",
        "model": "m1",
        "tenant": "a",
        "status": "ok",
        "error_kind": None,
    }
    assert ids(found.of(an_alert("e2e_slow", labels={"model": "m1"}))["requests"]["slowest"]) == ["r4"]


def test_a_rule_about_errors_shows_those_that_failed() -> None:
    """The newest window first; the slow ones would distract."""
    found = evidence(
        a_window(exemplars=[an_exemplar("r1", "failed", None, **FAILED), an_exemplar("r2")]),
        a_window(1, exemplars=[an_exemplar("r3", "failed", None, **FAILED)]),
    )

    requests = found.of(an_alert("errors_high", labels={"model": "m1"}))["requests"]
    assert {kind: ids(rows) for kind, rows in requests.items()} == {"failed": ["r3", "r1"]}


def unwell(count: int = 1) -> list[dict[str, Any]]:
    """Examples of every end but a good one, the greatest ids first, as they come."""
    ends = [(f"{end}{n}", fields) for n in range(count, 0, -1) for end, fields in sorted(UNWELL.items(), reverse=True)]
    return [an_exemplar(name, "failed", None, **fields) for name, fields in ends]


def test_requests_that_failed_are_those_of_the_definitions() -> None:
    """Client faults and those whose client went away stand apart, and take no place of theirs."""
    requests = evidence(a_window(exemplars=unwell(4))).of(an_alert(labels={"model": "m1"}))["requests"]

    assert {kind: ids(rows) for kind, rows in requests.items()} == {end: [f"{end}4", f"{end}3"] for end in UNWELL}


@pytest.mark.parametrize(
    ("where", "end"),
    [
        pytest.param(Where("status", ("error", "timeout")), "failed", id="errors"),
        pytest.param(Where("status", ("ok",), negated=True), "failed", id="not well"),
        pytest.param(Where("status", ("aborted",)), "aborted", id="aborted"),
        pytest.param(Where("status", ("aborted", "error")), "failed", id="aborted and errors"),
        pytest.param(Where("error_kind", ("server", "oom")), "failed", id="kinds of errors"),
        pytest.param(Where("error_kind", ("client",)), "client_fault", id="client faults"),
        pytest.param(Where("error_kind", ("client",), negated=True), "failed", id="no client faults"),
    ],
)
def test_a_rule_about_an_end_shows_and_explains_that_end(where: Where, end: str) -> None:
    """Its requests alone, and who has more of them; another tenant has more of the others meanwhile."""
    found = Evidence([Rule("share_high", "threshold", (share(where),), ("model",), "warning", "")])
    for number in range(5):
        rows = [row for tenant in ("a", "b") for row in a_service(tenant, 50)]
        for of, fields in UNWELL.items() if number > 2 else ():
            row = {**rows[0], "tenant": "b" if of == end else "a", "event_count": 40, "ttft_us_count": 0}
            rows.append({**row, **fields})
        found.remember(a_window(number, requests=rows, exemplars=unwell()), [])

    of = found.of(an_alert("share_high", since=4, labels={"model": "m1"}))

    assert {kind: ids(rows) for kind, rows in of["requests"].items()} == {end: [f"{end}1"]}
    assert [[one["value"] for one in each["elements"]] for each in of["explained_by"]] == [["b"]]


def test_requests_of_windows_before_it_began_are_not_shown() -> None:
    """They tell nothing of it. Its own first window is among them."""
    windows = [
        a_window(n, exemplars=[an_exemplar(f"f{n}", "failed", None, **FAILED), an_exemplar(f"s{n}")]) for n in range(3)
    ]
    alert = an_alert(labels={"model": "m1"}, since_ms=BASE_MS + 2 * WINDOW_MS - 1)

    requests = evidence(*windows).of(alert)["requests"]

    assert {kind: ids(rows) for kind, rows in requests.items()} == {"failed": ["f2", "f1"], "slowest": ["s1", "s2"]}


def test_a_gpu_is_shown_with_its_events_and_its_engine() -> None:
    """Levels of the windows remembered; the other GPU of the engine is not concerned, the engine is."""
    engine = {"grouping": "engine_sample", "engine_id": "e1", "model": "m1", "host": "h1", "kv_used_ppm_max": 990_000}
    xid = {"grouping": "gpu_event", "gpu_uuid": "GPU-1", "host": "h1", "kind": "xid", "event_count": 2}
    found = evidence(
        a_window(gpus=[a_gpu(temperature_c_max=80, clock_sm_mhz_min=900), a_gpu("GPU-2")], events=[xid]),
        a_window(1, gpus=[a_gpu(temperature_c_max=91, throttled_us_sum=5_000_000)], engines=[engine], events=[xid]),
    )

    assert found.of(an_alert("gpu_hot", labels={"gpu_uuid": "GPU-1", "host": "h1"}))["gpu"] == {
        "gpus": [
            {
                "gpu_uuid": "GPU-1",
                "engine_id": "e1",
                "host": "h1",
                "throttled_share": 0.25,
                "temperature_max_c": 91,
                "clock_sm_min_mhz": 900,
                "events": {"xid": 4},
            }
        ],
        "engines": [
            {"engine_id": "e1", "model": "m1", "kv_used_max_share": 0.99, "preemptions": None, "waiting_max": None}
        ],
    }


def test_throttling_by_anything_but_the_power_limit_has_a_share_of_its_own() -> None:
    """That is what the rules on throttling judge; of a GPU of which it is not known it is not there."""
    gpus = [a_gpu(throttled_us_sum=9_000_000, throttled_fault_us_sum=2_500_000), a_gpu("GPU-2")]
    found = evidence(a_window(gpus=gpus)).of(an_alert("gpu_throttled", labels={"host": "h1"}))

    assert [one.get("throttled_fault_share", "unknown") for one in found["gpu"]["gpus"]] == [0.25, "unknown"]
    assert [one["throttled_share"] for one in found["gpu"]["gpus"]] == [0.9, 0]


def test_what_a_gpu_s_fault_touched_is_counted_on_its_engine() -> None:
    """Requests since it began, not before; tenants are those of the exemplars; nobody knows prices yet."""

    def of_engine(engine: str, status: str, count: int, kind: str | None = None) -> dict[str, Any]:
        row = {"grouping": "engine", "engine_id": engine, "model": "m1", "status": status, "event_count": count}
        return {**row, "error_kind": kind, "host": "edge", "input_tokens_sum": 100, "output_tokens_sum": 10}

    before, after = an_exemplar("r0", window_ms=BASE_MS, tenant="early"), {"window_ms": BASE_MS + 10_000}
    found = evidence(
        a_window(gpus=[a_gpu()], requests=[of_engine("e1", "ok", 7)], exemplars=[before]),
        a_window(
            1,
            gpus=[a_gpu()],
            requests=[
                *(of_engine("e1", "ok", 5), of_engine("e1", "aborted", 2), of_engine("e1", "error", 3, "oom")),
                *(of_engine("e1", "rejected", 1), of_engine("e1", "error", 7, "client")),
                of_engine("e2", "error", 50),
            ],
            exemplars=[
                an_exemplar("r1", tenant="a", **after),
                an_exemplar("r1", "e2e", tenant="a", **after),
                an_exemplar("r2", "failed", None, tenant="b", **after, **FAILED),
                an_exemplar("r4", "failed", None, tenant="d", **after, **UNWELL["client_fault"]),
                an_exemplar("r3", tenant="c", engine_id="e2", **after),
            ],
        ),
    )

    assert found.of(an_alert("gpu_hot", since=1, labels={"gpu_uuid": "GPU-1"}))["touched"] == {
        "requests": 18,
        "ok": 5,
        "aborted": 2,
        "client_fault": 7,
        "failed": 4,
        "slow_examples": 1,
        "input_tokens": 500,
        "output_tokens": 50,
        "tenants_of_examples": {"a": 1, "b": 1},
        "dollars": None,
    }


def test_members_name_machines_too() -> None:
    """An alert of two GPUs shows both."""
    found = evidence(a_window(gpus=[a_gpu(), a_gpu("GPU-2"), a_gpu("GPU-3")]))
    member = Member("gpu_hot", "warning", {"gpu_uuid": "GPU-2"}, BASE_MS, None)

    gpus = found.of(an_alert("gpu_hot", labels={"gpu_uuid": "GPU-1"}, members=(member,)))["gpu"]["gpus"]
    assert [one["gpu_uuid"] for one in gpus] == ["GPU-1", "GPU-2"]


def test_the_tenant_whose_errors_began_explains_them() -> None:
    """Between the windows since it began and those before."""
    calm = [*a_service("a", 90, 1), *a_service("b", 10)]
    bad = [*a_service("a", 90, 1), *a_service("b", 10, 30)]
    found = evidence(*(a_window(n, requests=calm if n < 3 else bad) for n in range(5)))

    (explained,) = found.of(an_alert("errors_high", since=3, labels={"model": "m1"}))["explained_by"]
    assert explained["dimension"] == "tenant"
    assert [(one["value"], one["share"] > 0.9) for one in explained["elements"]] == [("b", True)]


def a_gap(us: int) -> dict[int, int]:
    """A sketch of fifty gaps between tokens."""
    return {int(bin_of(np.array([us]))[0]): 50}


@pytest.mark.parametrize(
    ("field", "slow"),
    [
        pytest.param("tpot_us", {"tpot_us_sum": 50 * 90_000}, id="times per output token"),
        pytest.param("itl_bins", {"itl_bins": a_gap(90_000)}, id="gaps between tokens"),
    ],
)
def test_slow_tokens_are_explained_by_those_whose_tokens_got_slow(field: str, slow: dict[str, Any]) -> None:
    """Whose first tokens come late meanwhile has no part in it; examples are those that took longest in all."""
    measure = Measure("value", "llm.requests", Function.PERCENTILE, field, q=0.5)
    found = Evidence([Rule("tokens_slow", "deviation", (measure,), ("model",), "warning", "")])
    usual: dict[str, Any] = {"tpot_us_sum": 50 * 30_000, "tpot_us_count": 50, "itl_bins": a_gap(30_000)}
    for number in range(5):
        bad = number > 2
        late = a_service("a", 50, ttft_us=900_000 if bad else 100_000, **usual)
        rows = [*late, *a_service("b", 50, **(usual | slow if bad else usual))]
        examples = [an_exemplar("late", value_us=99), an_exemplar(f"long{number}", "e2e", 50)]
        found.remember(a_window(number, requests=rows, exemplars=examples), [])

    of = found.of(an_alert("tokens_slow", since=3, labels={"model": "m1"}))

    assert [[one["value"] for one in each["elements"]] for each in of["explained_by"]] == [["b"]]
    assert ids(of["requests"]["slowest"]) == ["long3", "long4"]


def test_a_change_is_explained_against_windows_of_minutes_ago() -> None:
    """When the last minute is all bad, the windows kept every five minutes are what it is compared with."""
    calm = [*a_service("a", 50), *a_service("b", 50)]
    bad = [*a_service("a", 50), *a_service("b", 50, ttft_us=900_000)]
    windows = [a_window(n, requests=calm if n <= 30 else bad) for n in range(50)]
    found = evidence(*windows)

    (explained,) = found.of(an_alert(since=31, labels={"model": "m1"}))["explained_by"]
    assert [one["value"] for one in explained["elements"]] == ["b"]


def test_machines_and_silence_are_not_explained_by_requests() -> None:
    """Nor is anything where nothing is remembered."""
    found = evidence(*(a_window(n, requests=a_service("a", 1 + n)) for n in range(4)))

    assert "explained_by" not in found.of(an_alert("gpu_hot", since=2))
    assert Evidence().of(an_alert(labels={"model": "m1"})) == {}


def test_the_expected_range_is_told_where_there_is_one() -> None:
    """A value alone is no expectation."""
    alert = an_alert(value=9.0, baseline=3.0, low=2.0, high=4.0, unit="ms")

    assert Evidence().of(alert)["expected"] == {"value": 9.0, "baseline": 3.0, "low": 2.0, "high": 4.0, "unit": "ms"}
    assert "expected" not in Evidence().of(an_alert(value=9.0))


def test_evidence_is_bounded_whatever_the_names() -> None:
    """Long ids and words are cut, and what is still too much is left out."""
    long = "x" * 250
    examples = [
        an_exemplar(f"{n}{'r' * 4_000}", tenant=f"{n}{long}", value_us=n, engine_id=f"e{n}") for n in range(100)
    ]
    gpus = [a_gpu(f"GPU-{n}{long}", engine_id=f"{n}{long}") for n in range(50)]
    found = evidence(a_window(gpus=gpus, exemplars=examples)).of(an_alert("gpu_hot", labels={"host": "h1"}))

    assert len(orjson.dumps(found)) <= BYTES_MAX
    assert len(found["gpu"]["gpus"]) == 8


def test_a_restarted_one_says_the_same() -> None:
    """The state is part of a snapshot: equal states, equal bytes, also some windows later."""
    windows = [
        a_window(n, gpus=[a_gpu()], requests=a_service("a", n + 1, n), exemplars=[an_exemplar(f"r{n}")])
        for n in range(30)
    ]
    whole, first = evidence(*windows), evidence(*windows[:15])
    again = Evidence(RULES)
    again.load(first.dump())
    assert again.dump() == first.dump()
    for window in windows[15:]:
        again.remember(window, [])

    assert again.dump() == whole.dump()
    assert again.of(an_alert(since=26)) == whole.of(an_alert(since=26))
    assert len(whole.dump()) < 6 + 6 + 60 + 6 + 3 + 6 + LONG_KEPT
    again.load([])
    assert again.dump() == Evidence().dump()


def test_of_many_alerts_in_one_window_the_first_get_everything() -> None:
    """The rest are told what was expected; with the next window all begins anew. The count outlives a restart."""
    found = evidence(a_window(gpus=[a_gpu()]))
    alert = an_alert("gpu_hot", labels={"gpu_uuid": "GPU-1"}, value=9.0, baseline=3.0)
    kinds = [tuple(found.of(alert)) for _ in range(LOOKUPS_MAX)]
    again = Evidence(RULES)
    again.load(found.dump())

    assert kinds == [("expected", "gpu")] * LOOKUPS_MAX
    assert [tuple(one.of(alert)) for one in (found, again)] == [("expected",)] * 2
    found.remember(a_window(1), [])
    assert tuple(found.of(alert)) == ("expected", "gpu")


def test_nothing_is_looked_up_for_the_judge_s_own_finding() -> None:
    """It is about sources, not about requests."""
    found = evidence(a_window(exemplars=[an_exemplar("r1")]))

    assert found.of(an_alert("judging_incomplete", value=1.0, baseline=0.0)) == {}


def test_what_an_earlier_release_kept_is_read() -> None:
    """Without the kind of an error, whose requests failed, without other ends among the amounts, and without what held
    clocks down beside the power limit."""
    new = {"requests": {"error_kind"}, "amounts": {*AMOUNTS[6:]}, "gpus": {"throttled_fault_us"}}
    engine = {"grouping": "engine", "engine_id": "e1", "model": "m1", **UNWELL["client_fault"], "event_count": 3}
    requests = [engine, *a_service("a", 10, 1), *a_service("b", 10, 1)]
    kept = remembered(a_window(requests=requests, gpus=[a_gpu(throttled_fault_us_sum=1)]))
    old = {kind: [field for field in FIELDS[kind] if field.name not in new[kind]] for kind in new}
    head = {"windows": [BASE_MS], "blocks": [(BASE_MS, kind) for kind in old], "lookups": 0}
    found = Evidence(RULES)
    found.load([orjson.dumps(head), *(Lookup(kept[kind]).packed(fields) for kind, fields in old.items())])
    for number in (1, 2):
        found.remember(a_window(number, requests=[*a_service("a", 10, 1), *a_service("b", 10, 9)]), [])

    touched = found.of(an_alert("gpu_hot", labels={"engine_id": "e1"}))["touched"]
    assert {name: touched[name] for name in ("requests", "client_fault", "failed")} == {
        "requests": 3,
        "client_fault": 0,
        "failed": 3,
    }
    (explained,) = found.of(an_alert("errors_high", since=1, labels={"model": "m1"}))["explained_by"]
    assert [one["value"] for one in explained["elements"]] == ["b"]
    (gpu,) = found.of(an_alert("gpu_hot", labels={"gpu_uuid": "GPU-1"}))["gpu"]["gpus"]
    assert (gpu["throttled_share"], "throttled_fault_share" in gpu) == (0, False)


def test_parts_that_are_missing_are_told() -> None:
    """Half a state would be worse than none."""
    parts = evidence(a_window(gpus=[a_gpu()])).dump()

    with pytest.raises(ContractError, match="0 blocks instead of 1"):
        Evidence().load(parts[:1])
