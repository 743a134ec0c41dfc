"""What each kind of target is sent: ``SHAPES``, one entry per kind. Pure.

- ``alertmanager``: API v2, POST /api/v2/alerts (prometheus.io/docs/alerting/latest/alerts_api). Alertmanager knows an
  alert by its labels: when those change (a worse severity, another headline), the request that sends the new alert
  also ends the old one. Both carry ``fleetpulse_fingerprint``, by which routes may group.
- ``webhook``: the record of topic ``alerts``, byte for byte.
- ``slack``: a Slack-compatible incoming webhook; limits are those of docs.slack.dev/reference/block-kit/blocks.
- ``pagerduty``: Events API v2 (developer.pagerduty.com/docs/events-api-v2/trigger-events); ``dedup_key`` is the
  fingerprint, so that all transitions of an alert are one incident.

Labels come from whoever sends telemetry. What people read of them is one line of printable characters: no label begins
a line of its own, changes the direction of writing or controls a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from runtime.delivery_config import TargetConfig
from runtime.runbook import FLEET_ALERTS, section
from schemas.contract.alerts import Alert, Member
from sinks.delivery.backlog import Send
from sinks.delivery.request import Request

MEMBERS_SHOWN_MAX = 20
FINGERPRINT = "fleetpulse_fingerprint"
ALERTMANAGER_LABELS = ("alertname", "severity", FINGERPRINT)
SLACK_TEXT_MAX = 3_000
SLACK_FIELD_MAX = 2_000
PAGERDUTY_SUMMARY_MAX = 1_024
PAGERDUTY_DETAIL_MAX = 8_192
_SOURCES = ("gpu_uuid", "engine_id", "placement_group", "host", "model", "tenant", "cluster")
"""Labels that name the place of an alert, the narrowest first."""
_SLACK_COLORS = {"critical": "#d00000", "warning": "#e8a200", "info": "#3070c0", "resolved": "#2eb67d"}
_SLACK_ALIKE = str.maketrans(
    {"*": "\N{ASTERISK OPERATOR}", "~": "\N{TILDE OPERATOR}", "`": "\N{MODIFIER LETTER GRAVE ACCENT}"}
)
_SLACK_ITALICS = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""Underscores that could begin or end italics; those within a name are left as they are."""
_SLACK_MENTION = re.compile(r"(?<!\w)@")
_NOT_IN_LABEL_NAMES = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of target takes alerts. ``body`` makes what is posted, given the time in ms."""

    body: Callable[[TargetConfig, Send, int], bytes]
    acknowledges: bool = False
    """An alert that is silenced after the target was notified of it is acknowledged there."""
    expires: bool = False
    """The target resolves an alert by itself unless it is sent again (``resend_s``)."""


def request_of(config: TargetConfig, send: Send, now_ms: int) -> Request:
    """The request that notifies a target of a transition. Raises what a record of wrong types makes it raise."""
    key = send.delivery.transition.alert.transition_id
    return Request(SHAPES[config.kind].body(config, send, now_ms), f"{key}-acknowledge" if send.acknowledge else key)


def renotify_request_of(config: TargetConfig, alerts: Sequence[Alert], now_ms: int) -> Request:
    """The request that sends Alertmanager all of these again."""
    return Request(orjson.dumps([alertmanager_alert(config, alert, now_ms) for alert in alerts]), None)


def _alertmanager(config: TargetConfig, send: Send, now_ms: int) -> bytes:
    alert, before = send.delivery.transition.alert, send.before
    posted = [alertmanager_alert(config, alert, now_ms)]
    if before is not None and alertmanager_labels(before) != alertmanager_labels(alert):
        posted.insert(0, _alertmanager_alert(config, before, now_ms, now_ms))
    return orjson.dumps(posted)


def alertmanager_alert(config: TargetConfig, alert: Alert, now_ms: int) -> dict[str, Any]:
    """One element of the request. Open: valid for ``valid_s`` unless sent again. Resolved: it ended then, but neither
    before it began (which Alertmanager rejects) nor after now (which it takes for still open)."""
    if alert.transition != "resolved":
        return _alertmanager_alert(config, alert, now_ms, now_ms + round(config.valid_s * 1_000))
    resolved_ms = alert.at_ms if alert.resolved_ms is None else alert.resolved_ms
    return _alertmanager_alert(config, alert, now_ms, max(min(alert.since_ms, now_ms), min(resolved_ms, now_ms)))


def _alertmanager_alert(config: TargetConfig, alert: Alert, now_ms: int, ends_ms: int) -> dict[str, Any]:
    facts = _facts(alert)
    described = ". ".join(facts[name].rstrip(".") for name in ("note", "advice") if name in facts)
    annotations = {"summary": _plain(alert.summary), "description": described, "runbook_url": section(FLEET_ALERTS)}
    page = {"generatorURL": f"{config.dashboard_url}/alerts?alert={alert.fingerprint}"} if config.dashboard_url else {}
    return {
        "labels": alertmanager_labels(alert),
        "annotations": {**{name: text for name, text in annotations.items() if text}, **facts},
        "startsAt": _time(min(alert.since_ms, now_ms)),
        "endsAt": _time(ends_ms),
        **page,
    }


def alertmanager_labels(alert: Alert) -> dict[str, str]:
    """Labels of the alert. Empty values are left out (Prometheus takes them for absent). Of two names that become the
    same one, the first in order of names keeps it, the next gets ``_2``."""
    labels = {"alertname": alert.rule, "severity": alert.severity, FINGERPRINT: alert.fingerprint}
    for name, value in sorted(alert.labels.items()):
        if not value:
            continue
        free = valid = label_name(name)
        number = 1
        while free in labels:
            number += 1
            free = f"{valid}_{number}"
        labels[free] = value
    return labels


def label_name(name: str) -> str:
    """The name as Prometheus allows it: ``[A-Za-z_][A-Za-z0-9_]*``; our own three are kept free by ``exported_``."""
    valid = _NOT_IN_LABEL_NAMES.sub("_", name)
    if not valid or valid[0].isdigit():
        valid = f"_{valid}"
    return f"exported_{valid}" if valid in ALERTMANAGER_LABELS else valid


def _webhook(_config: TargetConfig, send: Send, _now_ms: int) -> bytes:
    return send.delivery.transition.record


def _slack(_config: TargetConfig, send: Send, _now_ms: int) -> bytes:
    """A plain text for notifications and one coloured attachment. ``verbatim`` keeps Slack from making links."""
    alert = send.delivery.transition.alert
    state = "resolved" if alert.transition == "resolved" else alert.severity
    title, facts = slack_text(f"[{state.upper()}] {_plain(alert.summary or alert.rule)}"), _facts(alert)
    shown = {name: f"*{name}*\n{slack_text(text)}" for name, text in facts.items()}
    blocks: list[dict[str, Any]] = [{"type": "section", "text": _mrkdwn(f"*{title}*", SLACK_TEXT_MAX)}]
    if fields := [_mrkdwn(shown[name], SLACK_FIELD_MAX) for name in ("value", "expected", "baseline") if name in shown]:
        blocks.append({"type": "section", "fields": fields})
    sections = [shown[name] for name in ("advice", "note", "members") if name in shown]
    blocks += [{"type": "section", "text": _mrkdwn(text, SLACK_TEXT_MAX)} for text in sections]
    where = f"{_plain(alert.rule)} · {_labels(alert.labels)} · since {_time(alert.since_ms)} · {alert.fingerprint}"
    blocks.append({"type": "context", "elements": [_mrkdwn(slack_text(where), SLACK_FIELD_MAX)]})
    message = {
        "text": _cut(title, SLACK_TEXT_MAX),
        "unfurl_links": False,
        "unfurl_media": False,
        "attachments": [{"color": _SLACK_COLORS.get(state, _SLACK_COLORS["info"]), "blocks": blocks}],
    }
    return orjson.dumps(message)


def slack_text(text: str) -> str:
    """The text as Slack shows it letter by letter: its control characters as entities; what would be markup, a mention
    or a link is replaced by characters that look alike."""
    inert = _SLACK_ITALICS.sub("\N{FULLWIDTH LOW LINE}", text.translate(_SLACK_ALIKE))
    inert = _SLACK_MENTION.sub("\N{FULLWIDTH COMMERCIAL AT}", inert).replace("://", "[:]//")
    return inert.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mrkdwn(text: str, characters_max: int) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": _cut(text, characters_max), "verbatim": True}


def _pagerduty(config: TargetConfig, send: Send, _now_ms: int) -> bytes:
    """The event; only a trigger has a payload."""
    assert config.routing_key is not None, "the configuration requires it"
    alert = send.delivery.transition.alert
    action = "acknowledge" if send.acknowledge else "resolve" if alert.transition == "resolved" else "trigger"
    event = {
        "routing_key": config.routing_key.get_secret_value(),
        "event_action": action,
        "dedup_key": alert.fingerprint,
    }
    payload = {"client": "fleetpulse", "payload": _pagerduty_payload(alert)} if action == "trigger" else {}
    return orjson.dumps({**event, **payload})


def _pagerduty_payload(alert: Alert) -> dict[str, Any]:
    details = {name: _cut(text, PAGERDUTY_DETAIL_MAX) for name, text in _facts(alert).items()}
    labels = {_plain(name): _plain(value) for name, value in sorted(alert.labels.items())}
    payload = {
        "summary": _cut(_plain(alert.summary or alert.rule), PAGERDUTY_SUMMARY_MAX),
        "source": _plain(next((alert.labels[name] for name in _SOURCES if alert.labels.get(name)), "fleet")),
        "severity": alert.severity,
        "timestamp": _time(alert.since_ms),
        "component": labels.get("engine_id") or labels.get("host"),
        "group": labels.get("cluster") or labels.get("model"),
        "class": _plain(alert.rule),
        "custom_details": {**details, "labels": labels},
    }
    return {name: value for name, value in payload.items() if value is not None}


SHAPES: Mapping[str, Shape] = {
    "alertmanager": Shape(_alertmanager, expires=True),
    "webhook": Shape(_webhook),
    "slack": Shape(_slack),
    "pagerduty": Shape(_pagerduty, acknowledges=True),
}


def _facts(alert: Alert) -> dict[str, str]:
    """What is known beyond summary and labels, by name, in order; ``members`` alone has several lines."""
    facts = {
        "value": _number(alert.value, alert.unit),
        "expected": _range(alert),
        "baseline": _number(alert.baseline, alert.unit),
        "advice": _plain(alert.advice),
        "note": _plain(alert.note),
        "members": _members(alert.members),
    }
    return {name: text for name, text in facts.items() if text}


def _time(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:.6g} {_plain(unit)}".strip()


def _range(alert: Alert) -> str | None:
    low, high = _number(alert.low, alert.unit), _number(alert.high, alert.unit)
    if low is not None and high is not None:
        return f"{low} to {high}"
    if high is not None:
        return f"up to {high}"
    return None if low is None else f"{low} or more"


def _members(members: tuple[Member, ...]) -> str:
    """A line for each of the first members and one for how many there are beyond."""
    lines = [
        f"[{member.severity if member.until_ms is None else 'over'}] {_plain(member.summary or member.rule)} "
        f"({_labels(member.labels)})"
        for member in members[:MEMBERS_SHOWN_MAX]
    ]
    if len(members) > MEMBERS_SHOWN_MAX:
        lines.append(f"and {len(members) - MEMBERS_SHOWN_MAX} more")
    return "\n".join(lines)


def _labels(labels: Mapping[str, str]) -> str:
    return _plain(", ".join(f"{name}={value}" for name, value in sorted(labels.items())))


def _plain(text: str) -> str:
    """The text as one line: white space of any kind as a space, other characters that do not print as U+FFFD."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _cut(text: str, characters_max: int) -> str:
    """At most so many characters, the last one an ellipsis where it was longer."""
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"
