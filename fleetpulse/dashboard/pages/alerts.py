"""*Alerts*: open alerts, history, one alert with all its evidence, and silences."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import background_tasks

from fleetpulse.alerts.view import checked, publish
from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.pages.alert_panel import AlertPanel
from fleetpulse.dashboard.parts import ChartPanel, Column, Segments, Stats, TablePanel, grid, severity_mood
from fleetpulse.dashboard.users import User
from fleetpulse.dashboard.values import UNKNOWN, ago, clean
from fleetpulse.dashboard.view import PageSpec, Refresh, View, wall_ms
from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from runtime.config import load
from schemas.contract.alert_commands import TEXT_CHARS_MAX, Command
from schemas.contract.alerts import SEVERITIES
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import MINUTE_MS

BARS_MAX = 40
_BARS_MS = tuple(MINUTE_MS * minutes for minutes in (1, 2, 5, 10, 30, 60, 180, 360, 720, 1_440, 10_080))
SILENCED = {"no": "active", "yes": "silenced", "all": "all"}


def silence_of(fingerprint: str, now_ms: int, last_ms: int, reason: str, user: User) -> Command:
    """The command by which this user silences one alert from now on; ``ConfigError`` for one that the alert job would
    reject, and for who is no operator."""
    if not user.operates:
        raise ConfigError("silence", user.name, "only an operator may silence alerts")
    name, by = f"s-{secrets.token_hex(4)}", f"dashboard: {user.name}"[:TEXT_CHARS_MAX]
    return checked(Command("mute", name, {"fingerprint": fingerprint}, now_ms, now_ms + last_ms, reason, by))


def opened(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float | None]]]:
    """Points of a bar chart by severity, the worst first, each with one of every bar: the chart stacks first on first,
    whatever their moments. Severities that never came are left out."""
    counts = {(row["severity"], int(row["bucket"])): float(row["opened"]) for row in rows}
    came, moments = {severity for severity, _ in counts}, sorted({at_ms for _, at_ms in counts})
    return {
        severity: [(at_ms, counts.get((severity, at_ms), 0.0)) for at_ms in moments]
        for severity in reversed(SEVERITIES)
        if severity in came
    }


def open_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many alerts are open in all, by severity, and how many of any are ``silenced`` instead: also of those that
    the query had no room for, as every row says."""
    names = (*SEVERITIES, "silenced")
    return {name: rows[0][f"{name}_alerts"] if rows else 0 for name in names}


def cut(what: str, shown: int, known: int) -> str:
    """What a table holds, and that more do not fit."""
    return what if shown >= known else f"{what}; the first {shown:,} of {known:,}"


def bar_ms(span_ms: int) -> int:
    """Width of a bar: a round step that gives at most ``BARS_MAX`` bars."""
    return next((step for step in _BARS_MS if step * BARS_MAX >= span_ms), _BARS_MS[-1])


def build(view: View) -> Refresh:
    """Counts, the chosen alert, open alerts, history."""
    return _Alerts(view).refresh


class _Alerts:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {"critical": "Critical", "warning": "Warning", "info": "Info", "silenced": "Silenced", "changed": "Changed"}
        )
        self._one = AlertPanel(view, self._silence)
        self._open = TablePanel(
            "Open", "the worst first", self._open_columns(), _WRAPPED, label="Open alerts", page_rows=15
        )
        with self._open.tools:
            shown = view.choice("silenced", SILENCED)
            Segments("Silenced alerts", SILENCED, shown, lambda value: view.set(silenced=value))
        with grid():
            columns = self._history_columns()
            self._history = TablePanel("History", _HISTORY, columns, f"c8 {_WRAPPED}", label="Alerts of this range")
            self._bars = ChartPanel(view, "Opened", "by severity", "Alerts opened over time, by severity", 220, "c4")
            self._actions = TablePanel(
                "Actions", _ACTIONS, self._action_columns(), f"c12 {_WRAPPED}", label="What people did"
            )

    def _link(self, row: Mapping[str, Any]) -> str:
        filters = {name: self._view.filter(name) for name in PAGE.filters}
        return self._view.link(PAGE.path, alert=str(row["fingerprint"]), **filters)

    def _moment(self, at_ms: int | None) -> str:
        return self._view.zone.moment(at_ms) or UNKNOWN

    def _open_columns(self) -> list[Column]:
        return [
            Column("severity", "Severity", mood=lambda row: severity_mood(row["severity"])),
            Column("summary", "What", href=self._link),
            Column("age_ms", "Since", text=ago, right=True),
            Column("host", "Host", text=_or_dash),
            Column("model", "Model", text=_or_dash),
            Column("members", "With it", right=True),
            Column("muted_until_ms", "Silenced until", text=self._moment),
        ]

    def _history_columns(self) -> list[Column]:
        return [
            Column("ago_ms", "Opened", text=ago, right=True),
            Column("worst", "Worst", mood=lambda row: severity_mood(row["worst"])),
            Column("said", "What", href=self._link),
            Column("lasted_ms", "Lasted", text=lambda ms: "open" if ms is None else ago(max(1_000, ms)), right=True),
            Column("transitions", "Transitions", right=True),
        ]

    def _action_columns(self) -> list[Column]:
        return [
            Column("ago_ms", "When", text=ago, right=True),
            Column("done_by", "Who", text=_or_dash),
            Column("action", "What"),
            Column("about", "Of", text=_or_dash),
            Column("until_ms", "Until", text=self._moment),
            Column("reason", "Why", text=_or_dash),
        ]

    async def refresh(self) -> None:
        view = self._view
        (waiting, history, bars, actions), _ = await asyncio.gather(
            view.gather(
                view.ask("alerts_open", kept_ms=ALERTS_KEPT_MS),
                view.ask("alerts_history"),
                view.ask("alerts_over_time", bucket_ms=bar_ms(view.range.span_ms)),
                view.ask("actions"),
            ),
            self._show_one(view.option("alert")),
        )
        records, past = waiting.records(), history.records()
        counts = open_counts(records)
        self._show_stats(counts, past[0]["alerts_transitioned"] if past else 0)
        self._show_open(records, counts)
        self._show_history(past, bars.records())
        self._actions.rows(
            [{**row, "ago_ms": max(0, view.until_ms - row["at_ms"])} for row in actions.records()],
            "Nobody did anything in this range",
            "Silences, and commands that change stored results, stand here.",
        )

    async def _show_one(self, fingerprint: str) -> None:
        """The alert that the address names, if any."""
        if not fingerprint:
            return
        found, paid = await self._view.gather(
            self._view.ask("alert_transitions", fingerprint=fingerprint, kept_ms=ALERTS_KEPT_MS),
            self._view.ask("request_cost_of_alert", fingerprint=fingerprint),
        )
        self._one.show(fingerprint, found.records(), paid.records())

    def _show_stats(self, counts: Mapping[str, int], transitioned: int) -> None:
        for severity, mood in (("critical", "bad"), ("warning", "warn"), ("info", "")):
            count = counts[severity]
            self._stats.show(severity, f"{count:,}", "open and not silenced", mood if count else "good")
        self._stats.show("silenced", f"{counts['silenced']:,}", "open, nobody is notified")
        self._stats.show("changed", f"{transitioned:,}", "opened, changed or resolved in this range")

    def _show_open(self, records: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> None:
        wanted = self._view.choice("silenced", SILENCED)
        shown = [row for row in records if wanted == "all" or bool(row["muted"]) == (wanted == "yes")]
        every = sum(counts.values())
        known = {"all": every, "yes": counts["silenced"], "no": every - counts["silenced"]}[wanted]
        hidden, until_ms = every - known, self._view.until_ms
        self._open.hint(cut("the worst first", len(shown), known))
        self._open.rows(
            [{**row, "age_ms": max(0, until_ms - row["since_ms"])} for row in shown],
            "No alert is silenced" if wanted == "yes" else "No alert is open",
            f"{hidden:,} more are behind the other button." if hidden else _QUIET,
        )

    def _show_history(self, records: Sequence[Mapping[str, Any]], bars: Sequence[Mapping[str, Any]]) -> None:
        view = self._view
        self._history.hint(cut(_HISTORY, len(records), records[0]["alerts_known"] if records else 0))
        rows = [{**row, "ago_ms": max(0, view.until_ms - row["opened_ms"])} for row in records]
        self._history.rows(rows, "No alert in this range", "Choose a longer range.")
        colours = {"critical": view.palette.bad, "warning": view.palette.warn, "info": view.palette.muted}
        lines = [
            Line(severity, points, colour=colours[severity], stack="all", bar=True)
            for severity, points in opened(bars).items()
        ]
        if not lines:
            self._bars.empty("No alert was opened", "Those beside were opened before." if records else "")
            return
        chart = over_time(lines, view.range, view.palette)
        chart["yAxis"] |= {"minInterval": 1}
        self._bars.draw(chart)

    def _silence(self, fingerprint: str, last_ms: int, reason: str) -> None:
        background_tasks.create(self._publish_silence(fingerprint, last_ms, reason))

    async def _publish_silence(self, fingerprint: str, last_ms: int, reason: str) -> None:
        try:
            command = silence_of(fingerprint, wall_ms(), last_ms, reason, self._view.check_user())
            await publish(load().kafka, command)
        except FleetpulseError as error:
            self._one.answer(str(error), bad=True)
            return
        until = self._view.zone.said(command.until_ms)
        self._one.answer(
            f"Silenced until {until} once the alert job has read it, with its next window. "
            f"To end it sooner: fleetpulse alerts unsilence {command.id}",
            bad=False,
        )


def _or_dash(text: Any) -> str:
    return clean(text) if text else UNKNOWN


_HISTORY = "alerts of this range, those that were open before too"
_ACTIONS = "silences, and runs that change stored results: who, when, what"
_WRAPPED = "fp-wrapped"
_QUIET = "Alerts come from the alert job (fleetpulse jobs alerts); rules: fleetpulse rules."

PAGE = PageSpec(
    path="/alerts",
    title="Alerts",
    icon="notifications",
    about="Open and past alerts, their evidence, silences",
    build=build,
    filters=("cluster", "host", "model", "tenant"),
    options={"alert": "", "silenced": "no"},
    live_s=2.0,
)
