"""Alerts as PagerDuty events (Events API v2, developer.pagerduty.com/docs/events-api-v2/trigger-events).

``dedup_key`` is the fingerprint: all transitions of an alert are one incident. A summary has at most 1,024
characters. An alert that is muted after it was told is acknowledged.
"""

from __future__ import annotations

from typing import Any, Literal

from schemas.alerts import Alert
from sinks.delivery.wording import cut, facts_of, source_of, time_text

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
    payload = {
        "summary": cut(alert.summary or alert.rule, SUMMARY_MAX),
        "source": source_of(alert),
        "severity": alert.severity,
        "timestamp": time_text(alert.since_ms),
        "component": alert.labels.get("engine_id") or alert.labels.get("host"),
        "group": alert.labels.get("cluster") or alert.labels.get("model"),
        "class": alert.rule,
        "custom_details": {**details, "labels": dict(sorted(alert.labels.items()))},
    }
    return {name: value for name, value in payload.items() if value is not None}
