"""One alert in full: its labels, evidence, related alerts and transitions, and silencing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from fleetpulse.alerts.view import lines_of
from fleetpulse.dashboard.alert_evidence import EvidenceTable, costs, tables
from fleetpulse.dashboard.parts import Panel, button, choices, field, set_text, tag
from fleetpulse.dashboard.values import UNKNOWN, clean
from fleetpulse.dashboard.view import View
from fleetpulse.dashboard.zone import Zone
from schemas.contract.alerts import Alert, decode
from schemas.errors import RejectedError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS

DURATIONS = {
    "30m": ("30 minutes", 30 * MINUTE_MS),
    "2h": ("2 hours", 2 * HOUR_MS),
    "8h": ("8 hours", 8 * HOUR_MS),
    "1d": ("a day", DAY_MS),
    "7d": ("a week", 7 * DAY_MS),
}
REASON_CHARS_MAX = 200
_IN_FULL = ("with it",)

Silence = Callable[[str, int, str], None]
"""Takes the fingerprint, how long [ms] and why."""


def facts(alert: Alert, zone: Zone) -> list[tuple[str, str]]:
    """(label, value) pairs shown above the evidence."""
    lines = [(what, str(value)) for what, value in lines_of(alert, said=zone.said) if not what.startswith("evidence")]
    return [(what, value) for what, value in lines if what not in ("summary", *_IN_FULL)]


def members(alert: Alert, zone: Zone) -> EvidenceTable:
    """The other alerts that the same cause opened."""
    rows = tuple(
        (
            clean(one.severity),
            clean(one.summary or one.rule),
            clean(one.rule),
            str(zone.moment(one.since_ms)),
            zone.moment(one.until_ms) or "ongoing",
        )
        for one in alert.members
    )
    return EvidenceTable(
        "Same cause", ("severity", "what", "rule", f"since ({zone.name})", f"until ({zone.name})"), rows
    )


def transitions(rows: Sequence[Mapping[str, Any]], zone: Zone) -> EvidenceTable:
    """Transitions of the alert, the newest first."""
    cells = tuple(
        (f"{zone.moment(row['at_ms'])}", str(row["transition"]), clean(row["severity"]), clean(row["summary"]))
        for row in rows
    )
    return EvidenceTable("Transitions", (f"at ({zone.name})", "transition", "severity", "what"), cells)


class AlertPanel:
    """The panel; nothing is seen of it before ``show``."""

    def __init__(self, view: View, silence: Silence) -> None:
        self._view = view
        self._silence = silence
        self._for, self._reason = "2h", ""
        self._fingerprint = ""
        self._seen: tuple[Any, ...] = ()
        with tag("div", "fp-alert") as self._box:
            self._panel = Panel("Alert")
            with self._panel.tools:
                button("Close", lambda: view.open(view.link(view.path)), "close")
            with self._panel.body:
                self._title = tag("h3", text="", style=_TITLE)
                self._silence_row()
                self._content = tag("div", "fp-body")
        self._box.set_visibility(False)

    def _silence_row(self) -> None:
        user = self._view.user()
        if user is None or not user.operates:
            self._answer = tag("p", "fp-muted", text="An operator may silence this alert.", role="status")
            return
        with tag("div", "fp-filters", role="group", aria_label="Silence this alert"):
            choices("Silence for", {name: text for name, (text, _) in DURATIONS.items()}, self._for, self._choose)
            with tag("div", "fp-field"):
                props = {"placeholder": "for whoever looks", "style": "width:260px"}
                field("Why", "silence-reason", on_change=self._because, **props)
            button("Silence", self._send_silence, "notifications_off", "primary")
        self._answer = tag("p", "fp-muted", text="", role="status")

    def _choose(self, name: str) -> None:
        self._for = name if name in DURATIONS else self._for

    def _because(self, text: str) -> None:
        self._reason = text[:REASON_CHARS_MAX]

    def _send_silence(self) -> None:
        self.answer("sending the silence to the alert job …", bad=False)
        self._silence(self._fingerprint, DURATIONS[self._for][1], self._reason)

    def answer(self, text: str, *, bad: bool) -> None:
        """Show the result of silencing."""
        self._answer.classes(replace="fp-bad" if bad else "fp-muted")
        set_text(self._answer, text)

    def show(self, fingerprint: str, rows: Sequence[Mapping[str, Any]], paid: Sequence[Mapping[str, Any]] = ()) -> None:
        """Show this alert; ``rows`` are its transitions, the newest first, ``paid`` what its requests cost."""
        cost = costs(paid)
        seen = (fingerprint, cost, *((row["opened_ms"], row["number"]) for row in rows))
        if seen == self._seen:
            return
        self._seen, self._fingerprint = seen, fingerprint
        self._box.set_visibility(True)
        alert, zone = _decoded(rows[0]["record"]) if rows else None, self._view.zone
        if alert is None:
            self._panel.empty("This alert is not known", "It may be older than alerts are kept, or the link is wrong.")
            return
        self._panel.show()
        self._fingerprint = alert.fingerprint
        self._panel.hint(f"{alert.severity}, {alert.transition}")
        set_text(self._title, clean(alert.summary))
        self._content.clear()
        with self._content:
            _list(facts(alert, zone))
            with tag("div", "fp-grid"):
                for table in (*tables(alert.evidence, zone), cost, members(alert, zone), transitions(rows, zone)):
                    _table(self._view, table)
            _whole(rows[0]["record"])


def _decoded(record: str) -> Alert | None:
    try:
        return decode(record.encode())
    except RejectedError:
        return None


def _list(lines: Sequence[tuple[str, str]]) -> None:
    style = "display:grid;grid-template-columns:minmax(90px,max-content) minmax(0,1fr);gap:2px 16px;margin:0"
    with tag("dl", style=style):
        for what, value in lines:
            tag("dt", "fp-muted", clean(what))
            lines_of_it = "\n".join(map(clean, value.split("\n")))
            tag("dd", "", lines_of_it, style="margin:0;white-space:pre-line;overflow-wrap:anywhere")


def _table(view: View, table: EvidenceTable) -> None:
    if not table.rows:
        return
    wide = "c6" if len(table.columns) <= 2 else ""
    with tag("div", wide):
        tag("h3", "fp-muted", table.title, style=_HEAD)
        with (
            tag("div", style="overflow-x:auto", tabindex="0", role="region", aria_label=table.title),
            tag("table", "fp-plain", style="border-collapse:collapse;width:100%;font-size:12px"),
        ):
            if any(table.columns):
                with tag("thead"), tag("tr"):
                    for name in table.columns:
                        tag("th", "fp-muted", name, scope="col", style=f"{_CELL};font-weight:550")
            with tag("tbody"):
                for row in table.rows:
                    with tag("tr"):
                        for name, cell in zip(table.columns, row, strict=True):
                            _cell(view, name, cell)


_LINKS = {"request id": ("/requests", "id"), "gpu uuid": ("/gpu", "gpu"), "engine id": ("/requests", "engine_id")}
"""By column of evidence, the page that shows what it names, and the word for it in the address."""
_TITLE = "font-size:15px;font-weight:620;line-height:1.4;margin:0;overflow-wrap:anywhere"
_HEAD = "font-size:12px;font-weight:600;line-height:1.4;margin:6px 0 4px"
_CELL = "text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--line);vertical-align:top"


def _cell(view: View, column: str, text: str) -> None:
    if column not in _LINKS or text == UNKNOWN:
        tag("td", "", text, style=_CELL)
        return
    path, word = _LINKS[column]
    with tag("td", style=_CELL):
        tag("a", "", text, href=view.link(path, **{word: text}))


def _whole(record: str) -> None:
    text = orjson.dumps(orjson.loads(record), option=orjson.OPT_INDENT_2).decode()
    with tag("details"):
        tag("summary", "fp-muted", "The whole record as JSON", style="cursor:pointer")
        tag("pre", "fp-mono", text, style="overflow:auto;max-height:420px;margin:8px 0 0", tabindex="0")
