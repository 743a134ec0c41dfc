"""The few kinds of element that pages are made of. Everything that comes from data is put in as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from fleetpulse.dashboard.charts import marked, zoomed
from fleetpulse.dashboard.url_state import VALUE_CHARS_MAX
from fleetpulse.dashboard.values import UNKNOWN, clean, percent, short
from fleetpulse.dashboard.view import View

VALUE_CHARS_WIDE_MAX = 9
"""Longer values, such as names of engines, are written smaller and in several lines."""
VALUE_JS = "(e) => emit(e.target.value)"


def tag(name: str, classes: str = "", text: str | None = None, **props: str) -> ui.element:
    """An HTML element. ``text`` and ``props`` may come from anywhere; underscores in names of props become dashes."""
    made = ui.element(name).classes(classes)
    if text is not None:
        made._props["innerText"] = text  # a DOM property of plain text, never markup
    for prop, value in props.items():
        # Vue puts ``value`` back with every change of the page, under the fingers of who types; the default it leaves.
        typed = prop == "value" and name in ("input", "textarea")
        made._props["defaultValue" if typed else prop.replace("_", "-")] = value
    return made


class Panel:
    """A card with a head; its body can be shown, or a sentence in its place."""

    def __init__(self, title: str, hint: str = "", classes: str = "") -> None:
        with tag("section", f"fp-card {classes}", aria_label=title):
            with tag("div", "fp-head"):
                tag("h2", text=title)
                self._hint = tag("span", "fp-hint", hint)
                self.tools = tag("div", "fp-tools")
            self.body = tag("div", "fp-body")
            self._empty = tag("div", "fp-empty")
            with self._empty:
                self._title, self._advice = tag("b", text=""), tag("span", text="")
        self._empty.set_visibility(False)

    def hint(self, text: str) -> None:
        """What stands beside the title."""
        set_text(self._hint, text)

    def show(self) -> None:
        """Show the body."""
        self._empty.set_visibility(False)
        self.body.set_visibility(True)

    def empty(self, title: str, advice: str = "") -> None:
        """Show instead of the body that there is nothing, and what to do."""
        set_text(self._title, title)
        set_text(self._advice, advice)
        self.body.set_visibility(False)
        self._empty.set_visibility(True)


class TablePanel(Panel):
    """A panel that holds a table."""

    def __init__(self, title: str, hint: str, columns: Sequence[Column], classes: str = "", *, label: str = "",
                 page_rows: int = 10) -> None:  # fmt: skip
        super().__init__(title, hint, classes)
        with self.body:
            self._table = Table(columns, label or title, page_rows=page_rows)

    def rows(self, records: Sequence[Mapping[str, Any]], nothing: str, advice: str = "") -> None:
        """Show these rows; where there are none, say that there is nothing and what to do."""
        if records:
            self.show()
            self._table.show(records)
        else:
            self.empty(nothing, advice)


class ChartPanel(Panel):
    """A panel that holds a chart; ``label`` is what a screen reader says of it."""

    def __init__(self, view: View, title: str, hint: str, label: str, height_px: int, classes: str = "c6", *,
                 zoom: bool = True) -> None:  # fmt: skip
        super().__init__(title, hint, classes)
        self._view = view
        with self.body:
            self._chart = Chart(view, label, height_px, zoom=zoom)

    def draw(self, options: Mapping[str, Any]) -> None:
        """Draw these options, with the deployments of the range where the chart is one over time."""
        self.show()
        self._chart.show(marked(options, self._view.marks, self._view.palette))


def set_text(element: ui.element, text: str) -> None:
    """Another text for an element made by ``tag``."""
    if element._props.get("innerText") != text:
        element._props["innerText"] = text
        element.update()


@contextmanager
def grid() -> Iterator[ui.element]:
    """Cards side by side; their classes ``c3`` to ``c8`` are columns of twelve on wide screens."""
    with tag("div", "fp-grid") as box:
        yield box


class Stats:
    """A strip of headline values. ``names`` are keys and labels."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._cells: dict[str, tuple[ui.element, ui.element, ui.element]] = {}
        with tag("div", "fp-stats", role="group", aria_label="Totals of this range"):
            for name, label in names.items():
                with tag("div", "fp-stat") as cell:
                    tag("div", "k", label, title=label)
                    self._cells[name] = cell, tag("a", "v", UNKNOWN), tag("div", "s", "")

    def show(self, name: str, value: str, below: str = "", mood: str = "", *, href: str = "") -> None:
        """A value, a line below it, and ``good``, ``warn`` or ``bad``; ``href`` makes the value a link."""
        cell, number, line = self._cells[name]
        if number._props.get("href", "") != href:
            number._props["href"] = href
            if not href:
                del number._props["href"]
            number.update()
        set_text(number, value)
        set_text(line, below)
        cell.classes(replace=f"fp-stat {mood} {'long' if len(value) > VALUE_CHARS_WIDE_MAX else ''}")


class _Canvas(ui.element, component="chart.js"):
    """What ``chart.js`` draws, with the library that ``ui.echart`` brings."""

    def __init__(self, label: str, height_px: int) -> None:
        super().__init__()
        self._update_method = "update_chart"
        self._props["options"] = {"series": []}
        self._props["aria-label"] = label
        self.style(f"height:{height_px}px")


class Chart:
    """An ECharts chart. With ``zoom`` a stretch marked with the mouse becomes the page's range."""

    def __init__(self, view: View, label: str, height_px: int, *, zoom: bool = True) -> None:
        self._view = view
        self._canvas = _Canvas(label, height_px)
        self._canvas._props["zoom"] = zoom
        if zoom:
            self._canvas.on("zoom", lambda event: self._zoomed(event.args))
        self._zoom = zoom

    def show(self, options: Mapping[str, Any], height_px: int | None = None) -> None:
        """Draw these options."""
        if height_px is not None:
            self._canvas.style(f"height:{height_px}px")
        # Without UTC it is the browser's own zone, which is the page's.
        drawn = {**(zoomed(options) if self._zoom else options), "useUTC": self._view.zone.is_utc}
        self._canvas._props["options"] = drawn
        self._canvas.update()

    def _zoomed(self, args: Any) -> None:
        try:
            from_ms, to_ms = (round(float(value)) for value in args)
        except (TypeError, ValueError, OverflowError):
            return
        self._view.zoom(from_ms, to_ms)


class Pairs:
    """A list of names and values."""

    def __init__(self) -> None:
        self._list = tag("dl", "fp-facts")

    def show(self, pairs: Sequence[tuple[str, str]], links: Mapping[str, str] | None = None) -> None:
        """Show these; ``links`` are addresses by name."""
        self._list.clear()
        with self._list:
            for name, value in pairs:
                tag("dt", text=name)
                if href := (links or {}).get(name):
                    with tag("dd"):
                        tag("a", text=value, href=href)
                else:
                    tag("dd", text=value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: ``text`` writes the value; ``href`` makes a link, ``mood`` a class and ``title`` what
    is said to who points at it, all of the row."""

    name: str
    label: str
    text: Callable[[Any], str] = clean
    right: bool = False
    href: Callable[[Mapping[str, Any]], str] | None = None
    mood: Callable[[Mapping[str, Any]], str] | None = None
    title: Callable[[Mapping[str, Any]], str] | None = None


class _Rows(ui.element, component="table.js"):
    """What ``table.js`` shows."""


class Table:
    """A sortable table of records."""

    def __init__(self, columns: Sequence[Column], label: str, *, page_rows: int = 15) -> None:
        self._columns = columns
        heads = [{"name": one.name, "label": one.label, "right": one.right} for one in columns]
        self._table = _Rows()
        self._table._props |= {"label": label, "columns": heads, "rows": [], "page-rows": page_rows}

    def show(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Show these rows."""
        self._table._props["rows"] = [self._row(number, record) for number, record in enumerate(records)]
        self._table.update()

    def _row(self, number: int, record: Mapping[str, Any]) -> dict[str, Any]:
        """What differs from the value alone: a table is sent whole."""
        row: dict[str, Any] = {"__key": number}
        for column in self._columns:
            value = record.get(column.name)
            text = column.text(value)
            row[column.name] = value if isinstance(value, int | float | None) else clean(value)
            if text != row[column.name]:
                row[f"{column.name}__text"] = text
                if isinstance(value, str):
                    row[f"{column.name}__title"] = clean(value)
            if column.href is not None:
                row[f"{column.name}__href"] = column.href(record)
            if column.title is not None:
                row[f"{column.name}__title"] = column.title(record)
            if column.mood is not None:
                row[f"{column.name}__class"] = column.mood(record)
        return row


def field(label: str, name: str, kind: str = "input", *, on_change: Callable[[str], None], **props: str) -> ui.element:
    """A labelled ``input`` or ``select`` called ``name``; ``on_change`` takes its value when it is left or Enter is
    pressed. ``props`` are its own."""
    tag("label", text=label, **{"for": name})
    made = tag(kind, id=name, **props)
    if kind == "input":
        made._props |= {"maxlength": VALUE_CHARS_MAX, "autocomplete": "off", "spellcheck": "false"}
    made.on("change", lambda event: on_change(str(event.args)), js_handler=VALUE_JS)
    return made


def search_field(label: str, value: str, on_change: Callable[[str], None], about: str = "part of a name") -> ui.element:
    """A field for free text."""
    with tag("div", "fp-field") as box:
        props = {"type": "search", "value": value, "placeholder": about, "style": "width:170px"}
        field(label, f"search-{box.id}", on_change=on_change, **props)
    return box


def choices(label: str, known: Mapping[str, str], value: str, on_change: Callable[[str], None]) -> ui.element:
    """A native drop-down: value and text of each choice."""
    with tag("div", "fp-field") as box, field(label, f"choice-{box.id}", "select", on_change=on_change):
        for one, text in known.items():
            tag("option", text=text, value=one, **({"selected": "selected"} if one == value else {}))
    return box


class GpuMap(ui.element, component="gpu_map.js"):
    """The map of all GPUs, drawn by ``gpu_map.js``, which asks for the lines of a GPU when somebody looks at it.

    ``describe`` gives the lines about the GPU of a number, ``choose`` opens it; both get numbers in range alone.
    """

    def __init__(self, label: str, describe: Callable[[int], list[str]], choose: Callable[[int], None]) -> None:
        super().__init__()
        self._describe = describe
        self._choose = choose
        self._count = 0
        self._props["label"] = label
        self.show({"columns": 1, "rows": 1, "height": 0, "places": "", "levels": "", "states": "", "shades": "",
                   "hosts": [], "least": "", "most": ""})  # fmt: skip
        self.on("look", lambda event: self._checked(event.args, self._look))
        self.on("choose", lambda event: self._checked(event.args, self._choose))

    def show(self, properties: Mapping[str, Any]) -> None:
        """Draw what ``heat_map`` made."""
        self._count = len(properties["levels"])
        self._props.update(properties)
        self.update()

    def _look(self, number: int) -> None:
        self.run_method("describe", number, self._describe(number))

    def _checked(self, number: Any, then: Callable[[int], None]) -> None:
        """What a browser emits may be anything."""
        if isinstance(number, int) and 0 <= number < self._count:
            then(number)


class Segments:
    """Buttons of which one is pressed, or none."""

    def __init__(self, label: str, known: Mapping[str, str], value: str, on_change: Callable[[str], None]) -> None:
        self._buttons: dict[str, ui.element] = {}
        with tag("div", "fp-seg", role="group", aria_label=label):
            for one, text in known.items():
                button = tag("button", text=text, type="button")
                button.on("click", lambda _event, one=one: self._pressed(one, on_change))
                self._buttons[one] = button
        self.press(value)

    def _pressed(self, value: str, on_change: Callable[[str], None]) -> None:
        self.press(value)
        on_change(value)

    def press(self, value: str) -> None:
        """Show this one as pressed."""
        for one, button in self._buttons.items():
            button._props["aria-pressed"] = "true" if one == value else "false"
            button.update()


def button(text: str, on_click: Callable[[], Any], icon: str = "", classes: str = "") -> ui.element:
    """A push button."""
    made = _with_icon(tag("button", f"fp-btn {classes}", type="button"), text, icon)
    made.on("click", lambda _event: on_click())
    return made


def link_button(text: str, href: str, icon: str = "") -> ui.element:
    """A link that looks like a button."""
    return _with_icon(tag("a", "fp-btn", href=href), text, icon)


def _with_icon(element: ui.element, text: str, icon: str) -> ui.element:
    with element:
        if icon:
            ui.icon(icon).props("aria-hidden=true")
        tag("span", text=text)
    return element


def severity_mood(severity: object) -> str:
    """The class of a severity in a table."""
    return {"critical": "fp-pill fp-bad", "warning": "fp-pill fp-warn"}.get(str(severity), "fp-pill fp-muted")


def share_mood(share: float | None, warn: float, bad: float) -> str:
    """The class of a share of failures: bad or worth a look above these."""
    return "" if share is None or share <= warn else "fp-bad" if share > bad else "fp-warn"


def ends_columns(warn: float, bad: float) -> list[Column]:
    """How requests ended, in four columns, and the failed of those without client faults, coloured above these."""
    return [
        Column("ok", "OK", text=short, right=True),
        Column("aborted", "Aborted", text=short, right=True),
        Column("client_fault", "Client faults", text=short, right=True),
        Column("failed", "Failed", text=short, right=True),
        Column(
            "failed_share",
            "Failed share",
            text=percent,
            right=True,
            mood=lambda row: share_mood(row["failed_share"], warn, bad),
        ),
    ]
