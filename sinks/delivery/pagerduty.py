"""Alerts as PagerDuty events (Events API v2, developer.pagerduty.com/docs/events-api-v2/trigger-events).

``dedup_key`` is the fingerprint: all transitions of an alert are one incident. A summary has at most 1,024
characters. An alert that is muted after it was told is acknowledged.
"""

from __future__ import annotations

from typing import Any, Literal

from schemas.alerts import Alert
from sinks.delivery.wording import cut, facts_of, plain, source_of, summary_of, time_text

SUMMARY_MAX = 1_024
DETAIL_MAX = 8_192
CLIENT = "fleetpulse"
Action = Literal["trigger", "acknowledge", "resolve"]


def event(alert: Alert, routing_key: str, action: Action) -> dict[str, Any]:
    """The event; only a trigger has a payload."""
    told: dict[str, Any] = {"routing_key": routing_key, "event_action": action, "dedup_key": alert.fingerprint}
    if action == "trigger":
        told |= {"client": CLIENT, "payload": _payload(alert)}
    return told


def action_of(alert: Alert) -> Action:
    """``resolve`` for what is resolved, else ``trigger``."""
    return "resolve" if alert.transition == "resolved" else "trigger"


def _payload(alert: Alert) -> dict[str, Any]:
    details = {name: cut(text, DETAIL_MAX) for name, text in facts_of(alert).items()}
    labels = {plain(name): plain(value) for name, value in sorted(alert.labels.items())}
    payload = {
        "summary": cut(summary_of(alert), SUMMARY_MAX),
        "source": source_of(alert),
        "severity": alert.severity,
        "timestamp": time_text(alert.since_ms),
        "component": labels.get("engine_id") or labels.get("host"),
        "group": labels.get("cluster") or labels.get("model"),
        "class": plain(alert.rule),
        "custom_details": {**details, "labels": labels},
    }
    return {name: value for name, value in payload.items() if value is not None}
