"""What the answer to each question of ``fleetpulse ask`` is, counted from single rows by plain loops, without SQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lab.oracle.recount import covered_ms
from lab.oracle.value import Value, percentile
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS
from tests.integration.answer_rows import H100, Row, Rows

Answer = list[Row]
_EPOCH = datetime(1970, 1, 1)
_WORK = ("prefill", "decode", "kv")
_VERDICTS = ("accepted", "untimely", "untimely", "rejected", "duplicate")


def inside(rows: Iterable[Row], from_ms: int, to_ms: int, name: str = "at_ms") -> list[Row]:
    """Rows of the range by the start of their window, or by a time of their own."""
    width = WINDOW_MS if name == "at_ms" else 1
    return [row for row in rows if from_ms <= row[name] // width * width < to_ms]


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return found


def known(rows: Iterable[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row.get(name) is not None]


def total(rows: Iterable[Row], name: str) -> int | None:
    """Of what is known; None where nothing is."""
    values = known(rows, name)
    return sum(values) if values else None


def totals(rows: Sequence[Row], *names: str) -> Row:
    return {name: total(rows, name) for name in names}


def mean(rows: Sequence[Row], name: str) -> float | None:
    values = known(rows, name)
    return sum(values) / len(values) if values else None


def over(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def of(row: Row) -> str:
    """How a request ended."""
    return "client_fault" if _is_clients(row) else row["status"] if row["status"] in ("ok", "aborted") else "failed"


def _is_clients(row: Row) -> bool:
    return row["status"] not in ("ok", "aborted") and row["error_kind"] == "client"


def ends(rows: Sequence[Row]) -> Row:
    found = [of(row) for row in rows]
    return {end: found.count(end) for end in ("ok", "aborted", "client_fault", "failed")}


def latency(rows: Sequence[Row], name: str, share: float, scale: float = 1_000) -> Value | None:
    values = sorted(known(rows, name))
    if not values:
        return None
    found = percentile(values, share)
    return Value(found.least / scale, found.most / scale)


def instant(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else (_EPOCH + timedelta(milliseconds=at_ms))


def _labels(row: Row) -> Row:
    """Of an alert."""
    found: Row = json.loads(row["record"])["labels"] if "fingerprint" in row else {}
    return found


def held_to(rows: Rows, names: Mapping[str, str]) -> Rows:
    """Rows of these names alone; of a bill, of tenants and models its own parts and lines."""

    def of_it(row: Row) -> bool:
        return all(row.get(name, _labels(row).get(name)) == value for name, value in names.items())

    inner, outer = names.keys() & {"tenant", "model"}, {"engine_id": "owner", "host": "host", "gpu_model": "gpu_model"}
    bills = []
    for bill in rows.bills:
        mine = dict(bill)
        for kind in ("part", "line"):
            whose = (
                zip(*(bill[f"{kind}_{name}"] for name in inner), strict=True)
                if inner
                else [()] * len(bill[f"{kind}_tenant"])
            )
            keep = [each == tuple(names[name] for name in inner) for each in whose]
            mine |= {name: [one for one, kept in zip(bill[name], keep, strict=True) if kept]
                     for name in bill if name.startswith(f"{kind}_")}  # fmt: skip
        if all(bill[outer[name]] == names[name] for name in names.keys() & outer.keys()):
            bills.append(mine)
    return replace(
        rows,
        bills=bills,
        requests=[{**row, "number": number} for number, row in enumerate(rows.requests) if of_it(row)],
        **{name: [row for row in getattr(rows, name) if of_it(row)] for name in ("usage", "alerts")},
        **{name: {kind: [row for row in each if of_it({**names, **row})] for kind, each in getattr(rows, name).items()}
           for name in ("readings", "events")},
    )  # fmt: skip


# requests


def who_changed(rows: Rows, from_ms: int, to_ms: int, before_from_ms: int, before_to_ms: int, metric: str) -> Answer:
    """Exact numbers of both ranges; of sums the part of the change that each is."""
    now, before = inside(rows.requests, from_ms, to_ms), inside(rows.requests, before_from_ms, before_to_ms)
    dimensions = ("tenant", "model", "model_version", "host", "engine_id")
    amount: Callable[[list[Row]], Any] = {
        "requests": len,
        "failed": lambda group: ends(group)["failed"],
        "ttft_p99_us": lambda group: latency(group, "ttft_us", 0.99),
        "output_tokens": lambda group: total(group, "output_tokens") or 0,
        "cost_nusd": lambda group: (total(group, "cost_nusd") or 0) / 1e9,
    }[metric]
    units = {"ttft_p99_us": "ms", "cost_nusd": "$", "output_tokens": "tokens"}
    if metric == "cost_nusd":
        now, before = _parts(rows, from_ms, to_ms), _parts(rows, before_from_ms, before_to_ms)
        dimensions = ("tenant", "model", "engine_id")
    found = []
    for dimension in dimensions:
        of_now, of_before = grouped(now, dimension), grouped(before, dimension)
        for name in {*of_now, *of_before}:
            each = {
                "before": amount(of_before.get(name, [])), "now": amount(of_now.get(name, [])),
                "all_before": amount(before), "all_now": amount(now), "unit": units.get(metric, "requests"),
            }  # fmt: skip
            if not any(isinstance(each[one], Value) or each[one] for one in ("before", "now")):
                continue
            if metric != "ttft_p99_us":
                change = each["all_now"] - each["all_before"]
                each["explains_pct"] = 100 * (each["now"] - each["before"]) / change if change else None
            found.append({"dimension": dimension, "name": name[0], **each})
    return found


def tokens_changed(rows: Rows, from_ms: int, to_ms: int, before_from_ms: int, before_to_ms: int, **_: str) -> Answer:
    """Of each model and tenant in both ranges, and of all; nothing is known of a time in which nothing reported."""
    now, before = inside(rows.requests, from_ms, to_ms), inside(rows.requests, before_from_ms, before_to_ms)
    reported = covered(rows, before_from_ms, before_to_ms)[0]["covered_ms"] > 0
    groups: dict[tuple[str, str | None], tuple[list[Row], list[Row]]] = {("all", ""): (before, now)}
    for dimension in ("model", "tenant"):
        of_now, of_before = grouped(now, dimension), grouped(before, dimension)
        groups |= {(dimension, key[0]): (of_before.get(key, []), of_now.get(key, [])) for key in {*of_now, *of_before}}
    return [
        {"dimension": dimension, "name": name,
         **{f"{tokens}_{when}": (total(group, tokens) or 0) if when == "now" or reported else None
            for when, group in zip(("before", "now"), both, strict=True)
            for tokens in ("input_tokens", "cached_tokens", "output_tokens")}}
        for (dimension, name), both in groups.items()
    ]  # fmt: skip


def who_slowed_model(
    rows: Rows, from_ms: int, to_ms: int, before_from_ms: int, before_to_ms: int, model: str, bins: str, quantile: str
) -> Answer:
    """Exact percentile of both ranges, of each tenant of each model and of the model."""
    column, part = bins.removesuffix("_bins"), float(quantile)
    now, before = inside(rows.requests, from_ms, to_ms), inside(rows.requests, before_from_ms, before_to_ms)
    found = []
    for name, tenant in {(row["model"], row["tenant"]) for row in (*now, *before)}:
        if model not in ("", name):
            continue
        one: Row = {"model": name, "tenant": tenant}
        for when, of in (("now", now), ("before", before)):
            of_model = [row for row in of if row["model"] == name]
            of_tenant = [row for row in of_model if row["tenant"] == tenant]
            one[f"requests_{when}"] = sum(row[column] is not None for row in of_tenant)
            one[f"{when}_ms"] = latency(of_tenant, column, part)
            one[f"model_requests_{when}"] = len(known(of_model, column))
            one[f"model_{when}_ms"] = latency(of_model, column, part)
        found.append(one)
    return found


def slowest_requests(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    """By their own moment; GPUs of the engine in that minute."""
    seen: dict[tuple[Any, ...], set[str]] = {}
    for one in rows.readings["gpu.samples"]:
        seen.setdefault((one["engine_id"], one["at_ms"] // MINUTE_MS), set()).add(one["gpu_uuid"])
    found = [
        {"request_id": f"r{row.get('number', number)}", "ttft_ms": row["ttft_us"] / 1e3, "e2e_ms": row["e2e_us"] / 1e3,
         "queue_ms": None if row["queue_us"] is None else row["queue_us"] / 1e3, "at_ms": row["at_ms"],
         "generation_ms": (row["e2e_us"] - row["ttft_us"]) / 1e3, "ended": instant(row["at_ms"]),
         "gpu_uuids": sorted(seen.get((row["engine_id"], row["at_ms"] // MINUTE_MS), ())),
         **{name: row[name] for name in ("tenant", "model", "engine_id", "input_tokens", "output_tokens", "status")}}
        for number, row in enumerate(rows.requests)
        if from_ms <= row["at_ms"] < to_ms and row["ttft_us"] is not None
    ]  # fmt: skip
    found.sort(key=lambda row: (-row["ttft_ms"], -row["at_ms"], row["request_id"]))
    return [{name: value for name, value in row.items() if name != "at_ms"} for row in found[:20]]


def percentiles_by_model(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"model": model, "latency": shown, "requests": len(known(group, name)),
         **{f"p{percent}_ms": latency(group, name, percent / 100) for percent in (50, 95, 99)}}
        for (model,), group in grouped(inside(rows.requests, from_ms, to_ms), "model").items()
        for shown, name in (("TTFT", "ttft_us"), ("TPOT", "tpot_us"), ("E2E", "e2e_us"))
    ]  # fmt: skip


def slowest_hosts(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"host": host, "requests": len(known(group, "ttft_us")), "ttft_p99_ms": latency(group, "ttft_us", 0.99),
         "queue_p99_ms": latency(group, "queue_us", 0.99)}
        for (host,), group in grouped(inside(rows.requests, from_ms, to_ms), "host").items()
    ]  # fmt: skip


def errors_by_kind(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    bad = [row for row in inside(rows.requests, from_ms, to_ms) if row["status"] != "ok"]
    found = [
        {"model": model, "status": status, "error_kind": kind, "requests": len(group)}
        for (model, status, kind), group in grouped(bad, "model", "status", "error_kind").items()
    ]
    least = sorted((row["requests"] for row in found), reverse=True)[:20][-1]
    assert len([row for row in found if row["requests"] >= least]) <= 20, "a tie at the end has no order"
    return [row for row in found if row["requests"] >= least]


def counts(rows: Sequence[Row]) -> Row:
    return {"requests": len(rows), **ends(rows), **totals(rows, "input_tokens", "output_tokens")}


def throughput_by_model(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    covered_s = covered(rows, from_ms, to_ms)[0]["covered_ms"] / 1_000
    found = []
    for (model,), group in grouped(inside(rows.requests, from_ms, to_ms), "model").items():
        each = counts(group)
        rates = {f"{name}_per_s": each[name] / covered_s for name in ("requests", "output_tokens")}
        share = 100 * each["failed"] / (each["requests"] - each["client_fault"])
        found.append({"model": model, **each, **rates, "failed_pct": share, "covered_s": covered_s})
    return found


def tenants(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"tenant": tenant, **counts(group), "cached_tokens": total(group, "cached_tokens")}
        for (tenant,), group in grouped(inside(rows.requests, from_ms, to_ms), "tenant").items()
    ]


def covered(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    topics = ("gpu.samples", "host.samples", "engine.samples")
    every = [*rows.requests, *(one for topic in topics for one in rows.readings[topic])]
    windows = sorted({row["at_ms"] // WINDOW_MS * WINDOW_MS for row in every})
    known_ms = covered_ms(windows, from_ms, to_ms)
    return [{"covered_ms": known_ms, "coverage": known_ms / (to_ms - from_ms)}]


def goodput(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    found = []
    for (slo_class,), group in grouped(inside(rows.requests, from_ms, to_ms), "slo_class").items():
        if slo_class is None:
            continue
        counted = [row for row in group if row["judged_requests"]]
        failed = sum(row["status"] not in ("ok", "aborted") for row in counted)
        good = total(group, "good_requests") or 0
        found.append(
            {"slo_class": slo_class, "all_judged": len(counted), "good": good, "failed": failed,
             "missed": len(counted) - good - failed, "left_out": len(group) - len(counted),
             "good_tokens": total(group, "good_tokens")}
        )  # fmt: skip
    return found


def _faults(rows: Rows, from_ms: int, to_ms: int) -> Iterator[tuple[int, list[Row], list[Row], int | None]]:
    """When each fault began, its signs, requests that it hit, and when it was over. Signs of one engine within a minute
    are one fault. Lost with it: each at most a minute after the one before; over when one that began after the last of
    these was answered well."""
    signs = [one for one in rows.events["gpu_events"] if one["severity"] != "info"]
    for (engine, _gpu), group in grouped(signs, "engine_id", "gpu_uuid").items():
        began_ms = min(one["at_ms"] for one in group)
        assert max(one["at_ms"] for one in group) - began_ms < MINUTE_MS
        if not from_ms <= began_ms < to_ms:
            continue
        mine = [
            {**row, "began_ms": row["at_ms"] - row["e2e_us"] // 1_000, "request_id": f"r{row.get('number', number)}"}
            for number, row in enumerate(rows.requests)
            if engine is not None and row["engine_id"] == engine and 0 <= row["at_ms"] - began_ms < 15 * MINUTE_MS
        ]
        last_ms = began_ms
        for row in sorted(mine, key=lambda one: one["at_ms"]):
            if _is_lost(row) and row["at_ms"] - last_ms <= MINUTE_MS:
                last_ms = row["at_ms"]
        well = [row["at_ms"] for row in mine if row["status"] == "ok" and row["began_ms"] >= last_ms]
        over_ms = min(well, default=None)
        until_ms = over_ms or began_ms + 15 * MINUTE_MS
        yield began_ms, group, [row for row in mine if row["began_ms"] < until_ms], over_ms


def _is_lost(row: Row) -> bool:
    return row["error_kind"] in ("engine_lost", "network")


def faults(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    found = []
    for began_ms, group, hit, over_ms in _faults(rows, from_ms, to_ms):
        lost = [row for row in hit if _is_lost(row)]
        found.append(
            {"fault": instant(began_ms), "host": group[0]["host"], "engine": group[0]["engine_id"],
             "events": len(group),
             "gpu_uuid": group[0]["gpu_uuid"], "kind": ", ".join(one["kind"] for one in group),
             "codes": known(group, "code"), "requests": len(hit), "failed": len(lost),
             "recovered_after_s": None if over_ms is None else (over_ms - began_ms) / 1_000,
             "other_failed": ends(hit)["failed"] - len(lost), "aborted": ends(hit)["aborted"],
             "client_fault": ends(hit)["client_fault"],
             "tenants": len({row["tenant"] for row in hit}), "dollars": None}
        )  # fmt: skip
    return found


def requests_lost(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"fault": instant(began_ms), "gpu_uuid": group[0]["gpu_uuid"], "engine": row["engine_id"],
         "request_id": row["request_id"], "tenant": row["tenant"], "model": row["model"],
         "error_kind": row["error_kind"], "began": instant(row["began_ms"]), "ended": instant(row["at_ms"]),
         "output_tokens": row["output_tokens"]}
        for began_ms, group, hit, _over in _faults(rows, from_ms, to_ms) for row in hit if _is_lost(row)
    ]  # fmt: skip


# what happened


def _alerts(rows: Rows, from_ms: int, to_ms: int) -> dict[tuple[Any, ...], list[Row]]:
    return grouped(inside(rows.alerts, from_ms, to_ms, "at_ms"), "fingerprint")


def open_alerts(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    begin_ms = min(from_ms, to_ms - 367 * 86_400_000)
    last = [max(group, key=lambda one: one["number"]) for group in _alerts(rows, begin_ms, to_ms).values()]
    return [
        {"fingerprint": one["fingerprint"], "opened": instant(one["opened_ms"]), "members": one["number"],
         "value": 0.5 * one["number"], "unit": "s", "labels": {"host": "h"},
         **{name: one[name] for name in ("severity", "rule", "summary")}}
        for one in last if one["transition"] != "resolved"
    ]  # fmt: skip


def alert_history(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    found = []
    inside_, before = _alerts(rows, from_ms, to_ms), _alerts(rows, to_ms - 367 * 86_400_000, from_ms)
    for key in {*inside_, *(key for key, group in before.items() if group[-1]["transition"] != "resolved")}:
        (fingerprint,), group = key, inside_.get(key, [])
        last = max(group or before[key], key=lambda one: one["number"])
        since_ms, resolved_ms = last["since_ms"], last["resolved_ms"]
        found.append(
            {"fingerprint": fingerprint, "worst": last["severity"], "began": instant(since_ms),
             "first_told": instant(last["opened_ms"]), "headline": last["rule"], "said": last["summary"],
             "lasted_s": None if resolved_ms is None else (resolved_ms - since_ms) / 1_000,
             "members_max": last["number"], "transitions": len(group), "about": {"host": "h"}}
        )  # fmt: skip
    return found


def deployments(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    kept = [row for row in rows.events["engine_events"] if row["kind"] in ("changed", "marked")]
    kept = [{**row, "minute": row["at_ms"] // MINUTE_MS} for row in kept if from_ms <= row["at_ms"] < to_ms]
    return [
        {"begun_ms": min(known(group, "at_ms")), "model": model, "model_version": version,
         "a_kind": group[0]["kind"], "engines": len(set(known(group, "engine_id")))}
        for (_minute, model, version), group in grouped(kept, "minute", "model", "model_version").items()
    ]  # fmt: skip


def actions(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"action_id": row["action_id"], "at": instant(row["at_ms"]), "until": instant(row["until_ms"]),
         **{name: row[name] for name in ("done_by", "action", "about", "reason")}}
        for row in rows.actions if from_ms <= row["at_ms"] < to_ms
    ]  # fmt: skip


def pipeline_topics(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    found = []
    for (topic,), group in grouped(inside(rows.books, from_ms, to_ms, "committed_ms"), "topic").items():
        each: Row = {"topic": topic, **dict.fromkeys(_VERDICTS, 0)}
        for row in group:
            each[_VERDICTS[row["verdict"]]] += row["events"]
        each["unidentified"] = sum(row["events"] for row in group if row["source"] is None)
        found.append({**each, "last_commit_ms": max(known(group, "committed_ms"))})
    return found


def freshness(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    named = {**rows.readings, "llm.requests": rows.requests}
    topics = ("llm.requests", "gpu.samples", "host.samples", "engine.samples")
    return [
        {"topic": topic, "newest_ms": max(known(inside(named[topic], from_ms, to_ms), "at_ms"))} for topic in topics
    ]


# machines


def gpu_summary(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"gpu_model": model, "gpus": len(set(known(group, "gpu_uuid"))), "util_pct": mean(group, "util_gpu_pct"),
         "power_w": mean(group, "power_mw") / 1e3, "temperature_max_c": max(known(group, "temperature_c")),
         "memory_pct": 100 * total(group, "memory_used_bytes") / total(group, "memory_total_bytes"),
         "energy_j": total(group, "energy_mj") / 1e3, "replays": total(group, "pcie_replays"),
         "bandwidth_pct": None if mean(group, "dram_active_ppm") is None else mean(group, "dram_active_ppm") / 1e4,
         "narrow_links": len({row["gpu_uuid"] for row in group if row["pcie_width"] < row["pcie_width_max"]}),
         "link_errors": total(group, "nvlink_errors")}
        for (model,), group in grouped(inside(rows.readings["gpu.samples"], from_ms, to_ms), "gpu_model").items()
    ]  # fmt: skip


def gpu_links(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    read = inside(rows.readings["gpu.samples"], from_ms, to_ms)
    found = [
        {"host": host, "gpu_uuid": uuid, "an_engine": group[0]["engine_id"], "lanes_possible": 16, "generation": 5,
         "lanes_min": min(known(group, "pcie_width")), "replays": total(group, "pcie_replays"),
         "link_errors": total(group, "nvlink_errors")}
        for (host, uuid), group in grouped(read, "host", "gpu_uuid").items()
    ]  # fmt: skip
    return [row for row in found if row["lanes_min"] < 16 or row["replays"] or row["link_errors"]]


def host_summary(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"host": host, "cpu_pct": mean(group, "cpu_busy_ppm") / 1e4, "load_1m": mean(group, "load_1m_milli") / 1e3,
         "busiest_core_pct": max(known(group, "cpu_core_busy_max_ppm")) / 1e4,
         "memory_used_max_gb": max(known(group, "memory_used_bytes")) / 1e9,
         "network_tx_mb": total(group, "network_tx_bytes") / 1e6, "rdma_tx_mb": total(group, "rdma_tx_bytes") / 1e6,
         "retransmits_pct": 100 * total(group, "tcp_retransmits") / total(group, "tcp_segments_out"),
         "rdma_faults": total(group, "rdma_errors"), "disk_write_mb": total(group, "disk_write_bytes") / 1e6}
        for (host,), group in grouped(inside(rows.readings["host.samples"], from_ms, to_ms), "host").items()
    ]  # fmt: skip


def engine_processes(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    names = ("host", "engine_id", "process_name", "workload")
    return [
        {**dict(zip(names, key, strict=True)), "processors_used": mean(group, "cpu_ppm") / 1e6,
         "busiest_thread_pct": max(known(group, "cpu_thread_max_ppm")) / 1e4,
         "memory_max_gb": max(known(group, "memory_rss_bytes")) / 1e9, "read_mb": total(group, "read_bytes") / 1e6,
         "write_mb": total(group, "write_bytes") / 1e6}
        for key, group in grouped(inside(rows.readings["host.processes"], from_ms, to_ms), *names).items()
    ]  # fmt: skip


def starved_gpus(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    """By whole minutes, as long as a range is at most a week."""
    minutes: dict[str, dict[int, dict[str, list[Row]]]] = {}
    for topic in ("gpu.samples", "engine.samples", "host.processes"):
        for row in inside(rows.readings[topic], from_ms, to_ms):
            of_engine = minutes.setdefault(row["engine_id"], {})
            of_engine.setdefault(row["at_ms"] // MINUTE_MS, {}).setdefault(topic, []).append(row)
    found: Answer = []
    for engine in sorted(minutes.keys() - {None}):
        waited = [of for of in minutes[engine].values() if (mean(of.get("engine.samples", []), "waiting") or 0) > 4]
        hit = [of for of in waited if _is_starved(of.get("gpu.samples", []), of.get("host.processes", []))]
        if hit:
            gpus, engines, processes = ([row for of in hit for row in of[topic]] for topic in hit[0])
            found.append(
                {"engine_id": engine, "a_host": "h", "starved_s": 60 * len(hit),
                 "of_waiting_pct": 100 * len(hit) / len(waited), "util_pct": mean(gpus, "util_gpu_pct"),
                 "waiting": mean(engines, "waiting"),
                 "busiest_thread_pct": max(known(processes, "cpu_thread_max_ppm")) / 1e4}
            )  # fmt: skip
    return found


def _is_starved(gpus: Sequence[Row], processes: Sequence[Row]) -> bool:
    util = mean(gpus, "util_gpu_pct")
    return util is not None and util < 50 and max(known(processes, "cpu_thread_max_ppm"), default=0) > 900_000


def engines(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    return [
        {"engine_id": engine, "a_host": "h", "a_model": "m", "a_version": "1", "a_precision": "fp8", "a_kind": "vllm",
         "running": mean(group, "running"), "waiting": max(known(group, "waiting")), "engines": 2,
         "kv_used": max(known(group, "kv_used_ppm")) / 1e6, "heard_ms": max(known(group, "at_ms")),
         "tokens_per_s": 1_000 * total(group, "generation_tokens") / total(group, "interval_ms")}
        for (engine,), group in grouped(inside(rows.readings["engine.samples"], from_ms, to_ms), "engine_id").items()
    ]  # fmt: skip


def training(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    found = inside(rows.readings["training.steps"], from_ms, to_ms)
    ranks = grouped(found, "rank")
    newest_ms = max(known(found, "at_ms"))
    means = [mean(group, "step_us") or 0.0 for group in ranks.values()]
    paces = {
        f"{name}_per_s": sum(1e6 * total(group, name) / total(group, "step_us") for group in ranks.values())
        for name in ("samples", "tokens")
    }
    return [
        {"job": "j", "model_name": "t", "ranks": len(ranks), "hosts_used": 2, "last_ms": newest_ms, "jobs": 1,
         "steps_most": max(map(len, ranks.values())), "step_counted": len(found),
         "slowest_by_fastest": max(means) / min(means), **paces,
         "checkpoint_age_ms": max(row["checkpoint_age_ms"] for row in found if row["at_ms"] == newest_ms)}
    ]  # fmt: skip


def power_cap(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    """Minutes in which an engine computed, with the readings of its GPUs."""
    read = inside(rows.readings["gpu.samples"], from_ms, to_ms)
    by_minute = grouped(({**row, "minute": row["at_ms"] // MINUTE_MS} for row in read), "engine_id", "minute")
    work = inside(rows.usage, from_ms, to_ms, "window_ms")
    pairs = [(by_minute.get((one["engine_id"], one["window_ms"] // MINUTE_MS)), one) for one in work]
    done = [one for group, one in pairs if group]
    of_them = [row for group, _ in pairs if group for row in group]
    energy_mj, prompt, generated = (
        total(of_them, "energy_mj"), total(done, "prefill_tokens"), total(done, "decode_tokens")
    )  # fmt: skip
    return [
        {"model": "m", "limit_w": 700, "gpu_model": H100, "minutes": len(done), "energy_mj": energy_mj,
         "prompt_tokens": prompt, "generated_tokens": generated,
         "j_per_token": energy_mj / 1_000 / (prompt + generated),
         "generated_tokens_per_gpu_s": 1_000 * generated / total(of_them, "interval_ms")}
    ]  # fmt: skip


# money


def _bills(rows: Rows, from_ms: int, to_ms: int) -> list[Row]:
    return inside(rows.bills, from_ms, to_ms, "minute_ms")


def _parts(rows: Rows, from_ms: int, to_ms: int) -> list[Row]:
    """Parts of bills, each with the bill's own names; energy at the meter as the bill has it of its own."""
    found = []
    for bill in _bills(rows, from_ms, to_ms):
        names = [name for name in bill if name.startswith("part_")]
        for number in range(len(bill["part_name"])):
            part = {name.removeprefix("part_"): bill[name][number] for name in names}
            part |= {name: bill[name] for name in ("use", "owner", "gpu_model", "minute_ms")}
            found.append(part | {"engine_id": bill["owner"] if bill["use"] == "engine" else None})
    return found


def _lines(rows: Rows, from_ms: int, to_ms: int) -> list[Row]:
    return [
        {name.removeprefix("line_"): bill[name][number] for name in bill if name.startswith("line_")}
        | {"gpu_model": bill["gpu_model"], "engine_id": bill["owner"]}
        for bill in _bills(rows, from_ms, to_ms)
        for number in range(len(bill["line_tenant"]))
    ]  # fmt: skip


def bill(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    found = _bills(rows, from_ms, to_ms)
    sums = ("total_nusd", "gpu_nusd", "host_nusd", "energy_nusd", "gpu_ms", "energy_mj", "meter_mj", "carbon_ug",
            "unpriced_gpu_ms", "unpriced_energy_mj", "unmeasured_gpu_ms", "estimated_gpu_ms")  # fmt: skip
    minutes = sorted(known(found, "minute_ms"))
    return [
        {"bills": len(found), "billed_ms": _billed_ms(found), "first_ms": minutes[0],
         "last_ms": minutes[-1] + MINUTE_MS, "provisional_bills": sum(not row["final"] for row in found),
         "prices_versions": ["p1"], "uncounted_energy_mj": 0, **{name: total(found, name) for name in sums}}
    ]  # fmt: skip


def split(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    def what(row: Row) -> str:
        return "" if row["name"] != "__overhead__" else "start-up" if row["status"] is None else "not answered in full"

    parts = [{**row, "what": what(row)} for row in _parts(rows, from_ms, to_ms)]
    return [
        {"part": part, "what": what, **totals(group, "cost_nusd", "energy_mj", "gpu_ms", "carbon_ug")}
        for (part, what), group in grouped(parts, "name", "what").items()
    ]  # fmt: skip


def idle(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    why = {"__idle__": "no model loaded", "__wasted__": "a model loaded, no tokens"}
    parts = [{**row, "why": why[row["name"]]} for row in _parts(rows, from_ms, to_ms) if row["name"] in why]
    bills = _bills(rows, from_ms, to_ms)
    billed_ms = _billed_ms(bills)
    of_all = {"billed_ms": billed_ms, "provisional_bills": sum(not row["final"] for row in bills),
              "estimated_gpu_ms": total(bills, "estimated_gpu_ms")}  # fmt: skip
    return [
        {"why": reason, "gpu_model": model, "gpu_ms": total(group, "gpu_ms"), "cost_nusd": total(group, "cost_nusd"),
         "cost_of_30_days_nusd": total(group, "cost_nusd") * 30 * DAY_MS / billed_ms, **of_all,
         "gpus": round(total(group, "gpu_ms") / billed_ms, 2),
         "gpu_hour_nusd": round(total(group, "cost_nusd") * HOUR_MS / total(group, "gpu_ms"))}
        for (reason, model), group in [*grouped(parts, "why", "gpu_model").items(), (("all in bills", ""), parts)]
    ] + [
        {"why": "no reading: __unobserved__", "gpu_model": model, "gpu_ms": silent_ms, **of_all}
        for model, silent_ms in _silent_ms(rows, from_ms, to_ms).items()
    ]  # fmt: skip


def _billed_ms(bills: list[Row]) -> int:
    """Minutes with a bill; one that has none before it, or none after, by its GPU time against the one beside it."""
    gpu_ms = {minute: sum(row["gpu_ms"] for row in group) for (minute,), group in grouped(bills, "minute_ms").items()}
    parts = []
    for minute in gpu_ms:
        inner = {minute - MINUTE_MS, minute + MINUTE_MS} & gpu_ms.keys()
        parts.append(min(1, gpu_ms[minute] / gpu_ms[min(inner)]) if len(inner) == 1 else 1)
    return round(MINUTE_MS * sum(parts))


def _silent_ms(rows: Rows, from_ms: int, to_ms: int) -> Mapping[str, int]:
    """By type of GPU, minutes without a reading within a day of one before, up to the newest of all [ms]."""
    read = {key: {row["at_ms"] // MINUTE_MS for row in group}
            for key, group in grouped(rows.readings["gpu.samples"], "gpu_model", "gpu_uuid").items()}  # fmt: skip
    over = min(to_ms // MINUTE_MS, max(map(max, read.values())))
    found = Counter[str]()
    for (model, _), minutes in read.items():
        for minute in range(from_ms // MINUTE_MS, over):
            if minute not in minutes and any(minute - 24 * 60 <= one < minute for one in minutes):
                found[model] += MINUTE_MS
    return found


def cost_by(rows: Rows, from_ms: int, to_ms: int, dimension: str, **_: int) -> Answer:
    """What is nobody's under its part. How requests ended is counted of all of them, by minutes."""
    parts = [{**row, "nobody": int(row["status"] is None)} for row in _parts(rows, from_ms, to_ms)]
    parts = [{**row, "whose": row["name"] if row["nobody"] else row[dimension]} for row in parts]
    money = grouped(parts, "whose", "nobody")
    lines = grouped(_lines(rows, from_ms, to_ms), dimension)
    ended = grouped(inside(rows.requests, from_ms, to_ms), dimension)
    found = []
    for whose, nobody in {*money, *((key[0], 0) for key in ended)}:
        group, own = money.get((whose, nobody), []), [] if nobody else ended.get((whose,), [])
        billed = [] if nobody else lines.get((whose,), [])
        not_ok = {"aborted_nusd": ["aborted"], "unanswered_nusd": ["error", "timeout", "rejected"]}
        wasted = {
            name: total([row for row in group if row["status"] in statuses], "cost_nusd")
            for name, statuses in not_ok.items()
        }
        work = {kind: [row for row in group if row["kind"] == kind and not nobody] for kind in _WORK}
        prompt, generated = total(work["prefill"], "amount"), total(work["decode"], "amount")
        held = total(work["kv"], "cost_nusd") or 0
        uncached, output = total(work["prefill"], "cost_nusd"), total(work["decode"], "cost_nusd")
        prices: Row = {}
        if not nobody and group:
            uncached, output = (uncached, (output or 0) + held) if generated else ((uncached or 0) + held, None)
            prices = {
                "uncached_tokens": prompt, "output_tokens": generated, "uncached_nusd": uncached, "output_nusd": output,
                "usd_per_million_uncached": over(uncached and uncached / 1e3, prompt),
                "usd_per_million_output": over(output and output / 1e3, generated),
            }  # fmt: skip
        found.append(
            {"name": whose or "", "nobody": nobody, "cost_nusd": total(group, "cost_nusd"), **ends(own), **wasted,
             "requests": total(billed, "requests") or 0, "cached_tokens": total(billed, "cached_tokens"), **prices,
             "energy_mj": total(group, "energy_mj"), "gpu_ms": total(group, "gpu_ms")}
        )  # fmt: skip
    return found


def by_engine(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    bills = grouped((row for row in _bills(rows, from_ms, to_ms) if row["use"] == "engine"), "owner")
    parts = grouped(_parts(rows, from_ms, to_ms), "engine_id")
    kinds: Mapping[str, Callable[[Row], bool]] = {
        "request_nusd": lambda row: row["name"] == "request",
        "failed_nusd": lambda row: row["name"] == "__overhead__" and row["status"] is not None,
        "startup_nusd": lambda row: row["name"] == "__overhead__" and row["status"] is None,
        "unused_nusd": lambda row: row["name"] in ("__wasted__", "__unattributed__"),
    }
    return [
        {"engine_id": engine, **totals(group, "total_nusd", "energy_mj", "carbon_ug", "gpu_ms"),
         **{name: total(filter(is_of, parts[(engine,)]), "cost_nusd") for name, is_of in kinds.items()}}
        for (engine,), group in bills.items()
    ]  # fmt: skip


def by_gpu_model(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    lines = grouped(_lines(rows, from_ms, to_ms), "gpu_model")
    names = ("gpu_ms", "total_nusd", "energy_mj", "meter_mj", "carbon_ug", "unpriced_gpu_ms")
    return [
        {"gpu_model": model, **totals(group, *names),
         "idle_nusd": total((row for row in group if row["use"] == "idle"), "total_nusd"),
         "priced_gpu_ms": total((row for row in group if not row["unpriced_gpu_ms"]), "gpu_ms") or 0,
         "priced_nusd": total((row for row in group if not row["unpriced_gpu_ms"]), "total_nusd"),
         "requests": total(lines[(model,)], "requests"), "decode_tokens": total(lines[(model,)], "decode_tokens"),
         "prompt_tokens": total(lines[(model,)], "prefill_tokens") + total(lines[(model,)], "cached_tokens")}
        for (model,), group in grouped(_bills(rows, from_ms, to_ms), "gpu_model").items()
    ]  # fmt: skip


def failed(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    parts = [row for row in _parts(rows, from_ms, to_ms) if row["status"] not in (None, "ok")]
    return [
        {"status": status, "model": model, "tenant": tenant, "cost_nusd": total(group, "cost_nusd"),
         "energy_mj": total(group, "energy_mj"), "carbon_ug": total(group, "carbon_ug")}
        for (status, model, tenant), group in grouped(parts, "status", "model", "tenant").items()
    ]  # fmt: skip


def request_gpu(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    lines = grouped(_lines(rows, from_ms, to_ms), "tenant")
    found = []
    for (tenant,), group in grouped(_parts(rows, from_ms, to_ms), "tenant").items():
        requests = total(lines.get((tenant,), []), "requests") or 0
        work = [row for row in group if row["kind"] in _WORK]
        each: Row = {"tenant": tenant, "requests": requests}
        for name in ("gpu_ms", "energy_mj"):
            amount = total(group, name)
            each |= {name: amount, f"work_{name}": total(work, name)}
            each[f"{name}_per_request"] = None if tenant is None else over(amount, requests)
        found.append(each)
    return found


def by_place(rows: Rows, from_ms: int, to_ms: int, **_: int) -> Answer:
    bills = [{**row, "hour_ms": row["minute_ms"] // HOUR_MS * HOUR_MS} for row in _bills(rows, from_ms, to_ms)]
    names = ("energy_mj", "meter_mj", "carbon_ug", "gpu_ms")
    return [
        {"region": region, "hour_ms": hour_ms, **totals(group, *names),
         "unmetered_energy_mj": 0, "uncounted_energy_mj": 0}
        for (region, hour_ms), group in grouped(bills, "region", "hour_ms").items()
    ]  # fmt: skip


ANSWERS: Mapping[str, tuple[tuple[str, ...], Callable[..., Answer]]] = {
    "who_changed": (("dimension", "name"), who_changed),
    "tokens_changed": (("dimension", "name"), tokens_changed),
    "who_slowed_model": (("model", "tenant"), who_slowed_model),
    "slowest_requests": (("request_id",), slowest_requests),
    "percentiles_by_model": (("model", "latency"), percentiles_by_model),
    "slowest_hosts": (("host",), slowest_hosts),
    "open_alerts": (("fingerprint",), open_alerts),
    "alert_history": (("fingerprint",), alert_history),
    "errors_by_kind": (("model", "status", "error_kind"), errors_by_kind),
    "requests_of_gpu_fault": (("fault",), faults),
    "requests_lost": (("fault", "request_id"), requests_lost),
    "dashboard/deployments": (("begun_ms",), deployments),
    "throughput_by_model": (("model",), throughput_by_model),
    "gpu_summary": (("gpu_model",), gpu_summary),
    "dashboard/engines": (("engine_id",), engines),
    "gpu_links": (("gpu_uuid",), gpu_links),
    "host_summary": (("host",), host_summary),
    "engine_processes": (("host",), engine_processes),
    "starved_gpus": (("engine_id",), starved_gpus),
    "dashboard/training": (("job",), training),
    "cost_power_cap": (("model",), power_cap),
    "cost_goodput_windows": (("slo_class",), goodput),
    "idle_gpus": (("why", "gpu_model"), idle),
    "cost_bill": ((), bill),
    "cost_split": (("part", "what"), split),
    "cost_by": (("name", "nobody"), cost_by),
    "cost_by_engine": (("engine_id",), by_engine),
    "cost_by_gpu_model": (("gpu_model",), by_gpu_model),
    "cost_failed": (("status", "model", "tenant"), failed),
    "request_cost_gpu": (("tenant",), request_gpu),
    "cost_energy_by_place": (("region", "hour_ms"), by_place),
    "dashboard/tenants": (("tenant",), tenants),
    "dashboard/covered": ((), covered),
    "dashboard/pipeline_freshness": (("topic",), freshness),
    "dashboard/pipeline_topics": (("topic",), pipeline_topics),
    "actions": (("action_id",), actions),
}
"""By query: columns that name a row, and who counts."""
