"""Parameters of a statement on page *SQL*: what the page fills in itself, what people give, and what is offered there.

Values travel to the server beside the statement, by the type that stands in it; nothing is written into SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from urllib.parse import parse_qsl, quote

from fleetpulse.dashboard.parts import Panel, button, field, tag
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.view import View
from fleetpulse.queries.calendar_days import before
from fleetpulse.sql.query import parameters_of

GIVEN_MAX = 20
"""Values that one link carries; no statement of ours has so many parameters."""
_TOP = 50
_ESCAPES = str.maketrans({character: quote(character) for character in "%&=+"})
"""Of what has a meaning in a link; other letters are written as they are, for a link carries so many characters."""
_CHANGED_JS = (
    "(e) => { const box = document.getElementById('sql-text'); emit([e.target.value, box ? box.value : '']); }"
)


def of_range(span: TimeRange, now_ms: int, zone: tzinfo) -> dict[str, int]:
    """What follows from the page's range: its bounds, those of the range before it, the width of a point; and the
    number of rows of a list."""
    before_from_ms, before_to_ms = before((span.from_ms, span.to_ms), now_ms, zone)
    return {
        "from_ms": span.from_ms,
        "to_ms": span.to_ms,
        "before_from_ms": before_from_ms,
        "before_to_ms": before_to_ms,
        "bucket_ms": span.bucket_ms,
        "top": _TOP,
    }


def written(given: Mapping[str, str]) -> str:
    """Values that people gave, as a link carries them, readable where that can be."""
    return "&".join(f"{name.translate(_ESCAPES)}={value.translate(_ESCAPES)}" for name, value in given.items() if value)


def parsed(given: str) -> dict[str, str]:
    """What ``written`` wrote, or anything that a link holds: what cannot be read is left out."""
    return dict(parse_qsl(given)) if given.count("&") < GIVEN_MAX else {}


def values_for(
    sql: str, ranged: Mapping[str, int], given: Mapping[str, str], offer: Mapping[str, tuple[str, ...]]
) -> dict[str, str | int]:
    """A value for each parameter that has one: of people, else of the page's range (``of_range``), else the first
    offered, else, for text, none at all, which filters of ours take as all."""
    known: dict[str, str | int] = {name: "" for name, kind in parameters_of(sql).items() if kind == "String"}
    known |= {name: values[0] for name, values in offer.items()}
    known |= {**ranged, **given}
    return {name: known[name] for name in parameters_of(sql) if name in known}


def missing(sql: str, values: Mapping[str, str | int]) -> str:
    """What people must give before this can be run; "" for nothing."""
    lacking = [f"{name} ({kind})" for name, kind in parameters_of(sql).items() if name not in values]
    return f"{', '.join(lacking)}: give a value below the statement" if lacking else ""


def question(view: View, panel: Panel, text: str, query: str, given: Callable[[], Mapping[str, str]]) -> None:
    """A button in the head of a panel that leads to the answer of a saved query over the page's range."""
    with panel.tools:
        button(text, lambda: view.open(view.link("/sql", query=query, given=written(given()))), "manage_search")


class Fields:
    """A field for each parameter of the shown statement that does not follow from the page's range. ``on_change`` is
    given all values as a link carries them, and the statement as it stands in the editor."""

    def __init__(self, on_change: Callable[[str, str], None]) -> None:
        self._on_change = on_change
        self._shown: tuple[object, ...] = ()
        self._given: dict[str, str] = {}
        self._box = tag("div", "fp-filters", role="group", aria_label="Parameters of the statement")

    def show(self, sql: str, given: Mapping[str, str], offer: Mapping[str, tuple[str, ...]]) -> None:
        """The fields of this statement with what was given, built again only where they differ from those that stand:
        somebody may be writing in one."""
        fixed = of_range(TimeRange(0, 1), 1, UTC).keys() - given.keys()
        places = {name: kind for name, kind in parameters_of(sql).items() if name not in fixed}
        shown = (tuple(places.items()), tuple(offer.items()))
        if shown == self._shown and given == self._given:
            return
        self._shown, self._given = shown, dict(given)
        self._box.clear()
        with self._box:
            for name, kind in places.items():
                self._field(name, kind, offer.get(name, ()))

    def _field(self, name: str, kind: str, offer: tuple[str, ...]) -> None:
        place = offer[0] if offer else "all" if kind == "String" else kind
        with tag("div", "fp-field") as box:
            known = {"list": f"offered-{box.id}"} if offer else {}
            value = self._given.get(name, "")
            made = field(name, f"parameter-{box.id}", on_change=lambda _: None, value=value, placeholder=place, **known)
            made.on("change", lambda event: self._changed(name, event.args), js_handler=_CHANGED_JS)
            if offer:
                with tag("datalist", id=f"offered-{box.id}"):
                    for one in offer:
                        tag("option", value=one)

    def _changed(self, name: str, event: object) -> None:
        if not (isinstance(event, list) and len(event) == 2 and all(isinstance(one, str) for one in event)):
            return
        value, sql = event
        self._given = {key: one for key, one in {**self._given, name: value}.items() if one}
        self._on_change(written(self._given), sql)
