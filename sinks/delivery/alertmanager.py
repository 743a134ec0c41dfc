"""Alerts as Alertmanager's API v2 takes them (POST /api/v2/alerts; prometheus.io/docs/alerting/latest/alerts_api).

Alertmanager knows an alert by its labels. When those change (a worse severity, another headline) the old one is ended
in the same request that tells the new one; both carry ``fleetpulse_fingerprint``, by which routes may group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from schemas.alerts import Alert
from sinks.delivery.wording import facts_of, plain, time_text

FINGERPRINT = "fleetpulse_fingerprint"
OWN = ("alertname", "severity", FINGERPRINT)
_BAD = re.compile(r"[^A-Za-z0-9_]")


def label_name(name: str) -> str:
    """The name as Prometheus allows it: ``[A-Za-z_][A-Za-z0-9_]*``; our own three are kept free by ``exported_``."""
    good = _BAD.sub("_", name)
    if not good or good[0].isdigit():
        good = f"_{good}"
    return f"exported_{good}" if good in OWN else good


def labels_of(alert: Alert) -> dict[str, str]:
    """Labels of the alert. Empty values are left out (Prometheus takes them for absent). Of two names that become the
    same one, the first in order of names keeps it, the next gets ``_2``."""
    labels = {"alertname": alert.rule, "severity": alert.severity, FINGERPRINT: alert.fingerprint}
    for name, value in sorted(alert.labels.items()):
        if not value:
            continue
        free = good = label_name(name)
        number = 1
        while free in labels:
            number += 1
            free = f"{good}_{number}"
        labels[free] = value
    return labels


def annotations_of(alert: Alert) -> dict[str, str]:
    """What people read: summary, and value, expected, baseline, advice, note, members where known."""
    return {"summary": plain(alert.summary), **facts_of(alert)}


def posted(alert: Alert, now_ms: int, valid_ms: int) -> dict[str, Any]:
    """One element of the request. Open: valid until ``now_ms + valid_ms`` unless told again. Resolved: ended then, but
    neither before it began nor later than now, which Alertmanager would take for still open."""
    starts_ms = min(alert.since_ms, now_ms)
    ends_ms = now_ms + valid_ms
    if alert.transition == "resolved":
        told_ms = alert.at_ms if alert.resolved_ms is None else alert.resolved_ms
        ends_ms = max(starts_ms, min(told_ms, now_ms))
    return _element(labels_of(alert), annotations_of(alert), starts_ms, ends_ms)


def replaced(before: Alert | None, alert: Alert, now_ms: int) -> list[dict[str, Any]]:
    """What was told before under other labels, ended now; empty when the labels are the same or nothing was told."""
    if before is None or labels_of(before) == labels_of(alert):
        return []
    starts_ms = min(before.since_ms, now_ms)
    return [_element(labels_of(before), annotations_of(before), starts_ms, now_ms)]


def _element(labels: Mapping[str, str], annotations: Mapping[str, str], starts_ms: int, ends_ms: int) -> dict[str, Any]:
    return {
        "labels": dict(labels),
        "annotations": dict(annotations),
        "startsAt": time_text(starts_ms),
        "endsAt": time_text(ends_ms),
    }
