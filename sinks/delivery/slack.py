"""Alerts as messages of a Slack-compatible incoming webhook: a plain text for notifications, one coloured attachment.

Limits are Slack's (docs.slack.dev/reference/block-kit/blocks): a section's text 3,000 characters, a field's 2,000, ten
fields. Texts of alerts hold labels of anybody: they are one line each, ``&``, ``<`` and ``>`` are escaped, what would
be markup, a mention or a link is replaced by characters that look alike, and ``verbatim`` keeps Slack from making links
of names.
"""

from __future__ import annotations

import re
from typing import Any

from schemas.alerts import Alert
from sinks.delivery.wording import cut, facts_of, labels_text, plain, summary_of, time_text

TEXT_MAX = 3_000
FIELD_MAX = 2_000
FIELDS_MAX = 10
_COLORS = {"critical": "#d00000", "warning": "#e8a200", "info": "#3070c0"}
_RESOLVED_COLOR = "#2eb67d"
_ALIKE = str.maketrans(
    {"*": "\N{ASTERISK OPERATOR}", "~": "\N{TILDE OPERATOR}", "`": "\N{MODIFIER LETTER GRAVE ACCENT}"}
)
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""Underscores that could begin or end italics; those within a name are left as they are."""
_MENTION = re.compile(r"(?<!\w)@")
_SHORT = ("value", "expected", "baseline")


def message(alert: Alert) -> dict[str, Any]:
    """The message of a transition."""
    resolved = alert.transition == "resolved"
    title = f"[{'RESOLVED' if resolved else alert.severity.upper()}] {summary_of(alert)}"
    facts = facts_of(alert)
    blocks: list[dict[str, Any]] = [_section(f"*{escaped(title)}*")]
    fields = [_text(f"*{name}*\n{escaped(facts[name])}", FIELD_MAX) for name in _SHORT if name in facts]
    if fields:
        blocks.append({"type": "section", "fields": fields[:FIELDS_MAX]})
    blocks += [_section(f"*{name}*\n{escaped(facts[name])}") for name in ("advice", "note", "members") if name in facts]
    where = (
        f"{plain(alert.rule)} · {labels_text(alert.labels)} · since {time_text(alert.since_ms)} · {alert.fingerprint}"
    )
    blocks.append({"type": "context", "elements": [_text(escaped(where), FIELD_MAX)]})
    color = _RESOLVED_COLOR if resolved else _COLORS.get(alert.severity, _COLORS["info"])
    attachments = [{"color": color, "blocks": blocks}]
    return {
        "text": cut(escaped(title), TEXT_MAX),
        "unfurl_links": False,
        "unfurl_media": False,
        "attachments": attachments,
    }


def escaped(text: str) -> str:
    """The text as Slack shows it letter by letter: its control characters as entities, markup and links broken."""
    inert = _EDGE.sub("\N{FULLWIDTH LOW LINE}", text.translate(_ALIKE))
    inert = _MENTION.sub("\N{FULLWIDTH COMMERCIAL AT}", inert).replace("://", "[:]//")
    return inert.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _text(text, TEXT_MAX)}


def _text(text: str, characters_max: int) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": cut(text, characters_max), "verbatim": True}
