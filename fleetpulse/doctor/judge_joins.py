"""Findings about joins: whether requests, GPUs and engines of the last minutes meet. Pure.

A bill that is all idle beside requests, and a fault that hits nobody, are what follows where they do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetpulse.doctor.finding import Finding, good, note, wrong
from stream_jobs.prices.model import is_example

LOOK_BACK_MS = 180_000
"""Not longer: what an agent measured before it had matched an engine is soon behind it."""
RECENT_MS = 30_000
"""The newest windows are still being filled: they lack requests. Of the GPU samples that are there they show whether
these name an engine by now."""
LACKING_MAX_PPM = 10_000
"""A share below it is what a start, a stop or a retired engine leaves."""

_WRONG: Mapping[tuple[str, str], tuple[str, str, str]] = {
    ("requests", "engine"): (
        "join.engine",
        "name no engine",
        "fleetpulse agent   # on the host of the engine; behind a name that it cannot know: agent.engines.addresses; "
        "in a container that says 127.0.0.1: gpu_uuids of agent.engines, or FLEETPULSE_ENGINE_ID",
    ),
    ("requests", "GPUs"): (
        "join.gpus",
        "name an engine, or none, that no GPU reports",
        "fleetpulse agent --probe   # on the engine's host: may the agent see the engine's process and its socket?",
    ),
    ("requests", "one report"): (
        "join.once",
        "are reported by several, and count as often",
        "measure each request once: an agent joins a proxy, plug-in and SDK of its own host; elsewhere switch one off",
    ),
    ("GPU samples", "engine"): (
        "join.gpu_engine",
        "are of a GPU at work for no known engine",
        "fleetpulse agent --probe   # or name the GPU's work: agent.engines.gpu_uuids, agent.jobs, agent.placement",
    ),
    ("GPU time", "price"): ("join.price", "has no price", "fleetpulse prices check   # and add what is missing"),
}
_NOTED: Mapping[tuple[str, str], tuple[str, str]] = {("requests", "tenant"): ("join.tenant", "name no tenant")}
_SAMPLES = ("GPU samples", "engine")


def judge_joins(rows: Sequence[Mapping[str, Any]], newest: Sequence[Mapping[str, Any]] = ()) -> Iterator[Finding]:
    """Rows of the query ``joins`` over ``LOOK_BACK_MS``. Without GPUs that report, requests cannot have any.

    ``newest``: over the ``RECENT_MS`` after them. GPU samples that name their engine there do so now: what was measured
    before the agent had found it, at its start or the engine's, is no finding.
    """
    joined_now = [row for row in newest if _kind(row) == _SAMPLES and _lacking_ppm(row) <= LACKING_MAX_PPM]
    counted = {row["counted"] for row in rows}
    for row in rows:
        kind = _kind(row)
        if kind == ("requests", "GPUs") and "GPU samples" not in counted:
            yield note("join.gpus", "requests", "no GPU at work reports: nothing to join them with")
            continue
        yield _judged(kind, joined_now[0] if kind == _SAMPLES and joined_now else row)


def judge_agents(hosts: Sequence[str] | None) -> Iterator[Finding]:
    """Hosts that several agents measure; None: not known."""
    if hosts is None:
        return
    for host in hosts:
        says = "is measured by several agents, or by copies of one machine of the same name: sums are doubled"
        yield wrong("agents.one", host, says, "stop all but one; give containers and copies a name: agent.host")
    if not hosts:
        yield good("agents.one", "hosts", "each is measured by one agent")


def judge_prices(versions: Sequence[str]) -> Iterator[Finding]:
    """With which prices the bills of the last hour were rated: ``prices_version``, the newest first."""
    if versions and is_example(versions[0]):
        yield note("prices", "bills", "are rated with example prices", "prices of the configuration: your price file")
    elif versions:
        yield good("prices", "bills", f"are rated with prices {versions[0]}")


def _kind(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["counted"], row["joined_with"]


def _lacking_ppm(row: Mapping[str, Any]) -> int:
    total = int(row["total"])
    return (total - int(row["joined_events"])) * 1_000_000 // total


def _judged(kind: tuple[str, str], row: Mapping[str, Any]) -> Finding:
    total, having, lacks = int(row["total"]), int(row["joined_events"]), ", ".join(row["lacks"])
    lacking_ppm = _lacking_ppm(row)
    share = f"{(total - having) * 100 / total:.1f} % of the {row['counted']} of the last 3 minutes"
    of = f" ({lacks})" if lacks else ""
    if kind in _NOTED:
        check, what = _NOTED[kind]
        if lacking_ppm:
            return note(check, row["counted"], f"{share} {what}{of}", "proxy.tenant_from, or tenant= of the SDK")
        return good(check, row["counted"], "all name a tenant")
    check, what, mend = _WRONG[kind]
    if lacking_ppm > LACKING_MAX_PPM:
        return wrong(check, row["counted"], f"{share} {what}{of}", mend)
    return good(check, row["counted"], f"{having * 100 / total:.1f} % have their {row['joined_with']}")
