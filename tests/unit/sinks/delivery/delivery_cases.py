"""Alerts, transitions and a target's state as the tests of delivery need them."""

from __future__ import annotations

from typing import Any

from runtime.delivery_config import TargetConfig
from schemas.contract.alerts import Alert, Member, encode
from schemas.contract.record import Record
from sinks.delivery.cursor import Cursor
from sinks.delivery.schedule import Moment
from sinks.delivery.target import Target
from sinks.delivery.transition import Transition

NOW_MS = 1_800_000_000_000
URL = "http://target.example/hook"


def an_alert(fingerprint: str = "aa", number: int = 1, transition: str = "opened", **fields: Any) -> Alert:
    whole: dict[str, Any] = {
        "rule": "ttft_high",
        "severity": "warning",
        "summary": "TTFT is high",
        "advice": "",
        "labels": {"host": "h1"},
        "opened_ms": NOW_MS - 60_000,
        "since_ms": NOW_MS - 90_000,
        "at_ms": NOW_MS,
    }
    if transition == "resolved":
        whole["resolved_ms"] = NOW_MS
    return Alert(fingerprint=fingerprint, transition=transition, number=number, **{**whole, **fields})


def full_alert(**fields: Any) -> Alert:
    """One with every field set."""
    every: dict[str, Any] = {
        "fingerprint": "0123456789abcdef",
        "severity": "critical",
        "summary": "TTFT 40 % above <baseline> & rising",
        "advice": "Look at engine e1.",
        "labels": {"host": "h1", "engine_id": "e1", "model": "m", "severity": "odd", "gpu.uuid": "GPU-1"},
        "value": 1_234_567.0,
        "baseline": 1000.0,
        "low": 800.0,
        "high": 1200.5,
        "unit": "us",
        "note": "since version 2",
        "members": (
            Member("kv_pressure", "warning", {"engine_id": "e1"}, NOW_MS, None, 0.9, "KV cache is full"),
            Member("queue", "info", {"model": "m"}, NOW_MS, NOW_MS + 1),
        ),
    }
    return an_alert(**{**every, **fields})


def at(offset: int, alert: Alert, partition: int = 0, appended_ms: int = NOW_MS) -> Transition:
    return Transition(alert, encode(alert), partition, offset, appended_ms)


def record(value: bytes | None, offset: int = 0, key: bytes | None = b"aa") -> Record:
    return Record("alerts", 0, offset, NOW_MS, key, value, ())


def config(kind: str = "webhook", **settings: Any) -> TargetConfig:
    own = {"routing_key": "R" * 32} if kind == "pagerduty" else {}
    return TargetConfig(**{"name": "t", "kind": kind, "endpoint_url": URL, **own, **settings})


BEGIN = Cursor(0, 0)


def a_target(
    kind: str = "webhook",
    cursor: Cursor = BEGIN,
    open_max: int = 100,
    ends: dict[int, int] | None = None,
    **settings: Any,
) -> Target:
    """A target that begins at this cursor; its history is read by the test."""
    free = {"rate_per_s": 1_000, "burst": 10_000}
    return Target(config(kind, **{**free, **settings}), {0: cursor}, open_max, when(), ends)


def when(ms: int = NOW_MS, wall_ms: int | None = None) -> Moment:
    """Now; both clocks agree unless a test sets them apart."""
    return Moment(ms, ms if wall_ms is None else wall_ms)
