"""A small fleet for the tests of alerts: two hosts, two GPUs and one engine on each group, and rules of each kind.

======  ==========  =====================  ===================
host    engine      GPUs (its group)       model, version
======  ==========  =====================  ===================
h-1     h-1/e-0     g-10, g-11             llama, v1
h-1     h-1/e-1     g-12, g-13             qwen, v1
h-2     h-2/e-0     g-20, g-21             llama, v1
h-3     h-3/e-0     g-30, g-31             llama, v1
======  ==========  =====================  ===================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.contract.alerts import Alert
from schemas.rows.tables import PARTIALS
from stream_jobs.alerts.life import Life
from stream_jobs.alerts.policy import DEFAULT_POLICY, AlertPolicy
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import Function, Measure, Rule, RuleSet

WINDOW = 10_000
T0 = 1_700_000_000_000

ENGINES = (
    ("h-1", "h-1/e-0", ("g-10", "g-11"), "llama"),
    ("h-1", "h-1/e-1", ("g-12", "g-13"), "qwen"),
    ("h-2", "h-2/e-0", ("g-20", "g-21"), "llama"),
    ("h-3", "h-3/e-0", ("g-30", "g-31"), "llama"),
)


def rule(
    name: str,
    kind: str,
    topic: str,
    by: tuple[str, ...],
    *,
    severity: str = "warning",
    function: Function = Function.MEAN,
    renotify_ms: int = 4 * 3_600_000,
    unit: str = "",
    field: str = "",
) -> Rule:
    """A rule as far as the life of alerts looks at it."""
    measure = Measure("value", topic, function, field or name, unit=unit)
    summary = f"{name} of {{host}}{{gpu_uuid}}{{engine_id}}{{model}}: {{value}}"
    return Rule(name, kind, (measure,), by, severity, summary, f"look at {name}", renotify_ms=renotify_ms)


RULES = (
    rule("gpu_throttled", "threshold", "gpu.samples", ("gpu_uuid",)),
    rule("gpu_straggler", "straggler", "gpu.samples", ("gpu_uuid", "engine_id")),
    rule("gpu_silent", "no_data", "gpu.samples", ("gpu_uuid",), severity="critical"),
    rule("gpu_leak", "trend", "gpu.samples", ("gpu_uuid",), field="memory"),
    rule("gpu_filled", "threshold", "gpu.samples", ("gpu_uuid",), field="memory", severity="critical"),
    rule("gpu_full", "threshold", "gpu.samples", ("gpu_uuid",), severity="info"),
    rule("host_silent", "no_data", "host.samples", ("host",), severity="critical"),
    rule("host_memory", "threshold", "host.samples", ("host",)),
    rule("engine_silent", "no_data", "engine.samples", ("engine_id",), severity="critical"),
    rule("engine_kv", "threshold", "engine.samples", ("engine_id",)),
    rule("engine_errors", "threshold", "llm.requests", ("engine_id",), function=Function.SHARE),
    rule("engine_slow", "deviation", "llm.requests", ("engine_id",), function=Function.PERCENTILE, unit="us"),
    rule("version_slower", "regression", "llm.requests", ("model", "model_version"), function=Function.PERCENTILE),
    rule("model_slow", "deviation", "llm.requests", ("model",), function=Function.PERCENTILE, unit="us"),
    rule(
        "budget_burns", "burn_rate", "llm.requests", ("tenant", "model"), severity="critical", function=Function.SHARE
    ),
    rule("fleet_errors", "threshold", "llm.requests", ("cluster",), function=Function.SHARE),
)
RULESET = RuleSet(RULES)


def at(window: int) -> int:
    """Start of the window of this number."""
    return T0 + window * WINDOW


def finding(
    name: str, window: int, *, firing: bool = True, since: int | None = None, value: float = 1.0, **labels: str
) -> Finding:
    """A finding of a rule in a window."""
    since_ms = at(window if since is None else since)
    told = tuple(labels.items())
    return Finding(name, told, at(window), WINDOW, firing, since_ms, value, 0.5, 0.0, 0.8, 40)


@lru_cache
def rows_of_fleet(silent: tuple[str, ...] = (), window: int = 0, engines: Sequence[Any] = ENGINES) -> dict[str, Block]:
    """What a window of the fleet holds, without figures; hosts in ``silent`` tell nothing."""
    common = {"window_ms": at(window), "last_at_ms": at(window), "definition_version": 1, "origin": "simulated"}
    counts = {
        field.name: 0
        for topic in ("gpu.samples", "engine.samples", "llm.requests", "host.samples")
        for field in PARTIALS[topic].fields
        if field.name.endswith(("_count", "_sum")) and not field.kind.optional
    }
    counts |= {"event_count": 1}
    samples: dict[str, list[dict[str, Any]]] = {
        "gpu.samples": [],
        "engine.samples": [],
        "host.samples": [],
        "llm.requests": [],
    }
    for host, engine, gpus, model in engines:
        place = {**common, **counts, "cluster": "c-1", "host": host, "engine_id": engine, "placement_group": engine}
        served = {"model": model, "model_version": "v1"}
        samples["llm.requests"].append({**place, **served, "host": "gateway", "grouping": "engine"})
        samples["llm.requests"].append({**common, **counts, **served, "tenant": f"t-{model}", "grouping": "service"})
        if host in silent:
            continue
        samples["gpu.samples"] += [{**place, "gpu_uuid": gpu, "grouping": "gpu"} for gpu in gpus]
        samples["engine.samples"].append({**place, **served, "grouping": "engine_sample"})
        samples["host.samples"].append({**common, **counts, "cluster": "c-1", "host": host, "grouping": "host"})
    return {topic: block_from_rows(PARTIALS[topic].fields, rows) for topic, rows in samples.items()}


@dataclass
class Scene:
    """A life of alerts, window by window; ``told`` are all transitions so far."""

    policy: AlertPolicy = DEFAULT_POLICY
    ruleset: RuleSet = RULESET
    evidence: Mapping[str, Any] = field(default_factory=dict)
    window: int = 0
    told: list[Alert] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.life = Life(self.ruleset, lambda alert: self.evidence, self.policy)
        self.pass_windows(1)

    def see(self, *findings: Finding, silent: tuple[str, ...] = ()) -> list[Alert]:
        """Judge the next window with these findings (made for it)."""
        told = self.life.window(Window(at(self.window), rows_of_fleet(silent)), findings)
        self.window += 1
        self.told += told
        return told

    def pass_windows(self, windows: int) -> list[Alert]:
        """So many windows without a finding."""
        return [alert for _ in range(windows) for alert in self.see()]

    def fire(self, name: str, **labels: str) -> Finding:
        """A finding in the next window."""
        return finding(name, self.window, **labels)

    def clear(self, name: str, **labels: str) -> Finding:
        """The end of a finding in the next window."""
        return finding(name, self.window, firing=False, **labels)

    def gpu_event(
        self, kind: str, gpu: str, at_ms: int | None = None, severity: str = "critical", **more: Any
    ) -> list[Alert]:
        """A GPU event, one second into the next window unless told otherwise."""
        host, engine, *_ = next(one for one in ENGINES if gpu in one[2])
        row = {"at_ms": at(self.window) + 1_000 if at_ms is None else at_ms, "gpu_uuid": gpu, "host": host}
        row |= {"engine_id": engine, "placement_group": engine, "kind": kind, "severity": severity, **more}
        told = self.life.gpu_events([row])
        self.told += told
        return told

    def engine_event(self, kind: str, engine: str, at_ms: int | None = None, **more: Any) -> list[Alert]:
        """An engine event, one second into the next window unless told otherwise."""
        host = engine.split("/")[0]
        row = {"at_ms": at(self.window) + 1_000 if at_ms is None else at_ms, "engine_id": engine, "host": host}
        told = self.life.engine_events([{**row, "kind": kind, **more}])
        self.told += told
        return told

    def open(self) -> list[Alert]:
        """The newest record of every alert that is not resolved, in order of opening."""
        newest = {alert.fingerprint: alert for alert in self.told}
        return [alert for alert in newest.values() if alert.transition != "resolved"]


def short(alerts: Sequence[Alert]) -> list[tuple[str, str, str]]:
    """(transition, rule, what it is about) of each."""
    names = ("gpu_uuid", "engine_id", "host", "model_version", "model", "tenant")
    return [(a.transition, a.rule, next((a.labels[n] for n in names if n in a.labels), "")) for a in alerts]
