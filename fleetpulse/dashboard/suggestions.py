"""A filter field: the wanted value of one dimension, with the most frequent values that hold what is typed.

However many values there are, at most ``SHOWN_MAX`` reach the browser: those of the search, most frequent first.
"""

from __future__ import annotations

from nicegui import background_tasks

from fleetpulse.dashboard.parts import tag
from fleetpulse.dashboard.url_state import VALUE_CHARS_MAX
from fleetpulse.dashboard.values import clean
from fleetpulse.dashboard.view import View
from schemas.errors import FleetpulseError

SHOWN_MAX = 50
OF_GPUS = frozenset({"host", "gpu_model", "gpu_uuid", "workload"})
LABELS = {"gpu_model": "GPU", "engine_id": "Engine", "slo_class": "Class", "error_kind": "Error"}


class Suggestions:
    """The field and its list."""

    def __init__(self, view: View, dimension: str) -> None:
        self._view = view
        self._dimension = dimension
        value = view.filter(dimension)
        label = LABELS.get(dimension, dimension.capitalize())
        with tag("div", "fp-field set" if value else "fp-field") as self._field:
            name = f"filter-{dimension}"
            tag("label", text=label, **{"for": name})
            made = tag("input", id=name, list=f"{name}-values", placeholder="all", value=value, type="search")
            made._props |= {"maxlength": VALUE_CHARS_MAX, "autocomplete": "off", "spellcheck": "false"}
            self._list = tag("datalist", id=f"{name}-values")
        made.on("change", lambda event: self._chosen(str(event.args)), js_handler="(e) => emit(e.target.value)")
        made.on("input", lambda event: self._typed(str(event.args)), js_handler="(e) => emit(e.target.value)",
                throttle=0.25, leading_events=False)  # fmt: skip
        made.on("focus", lambda _event: self._typed(""))

    def _chosen(self, value: str) -> None:
        self._field.classes(replace="fp-field set" if value else "fp-field")
        self._view.set(**{self._dimension: value})

    def _typed(self, text: str) -> None:
        background_tasks.create(self._suggest(text[:VALUE_CHARS_MAX]))

    async def _suggest(self, text: str) -> None:
        name = "values_of_gpus" if self._dimension in OF_GPUS else "values_of_requests"
        try:
            answer = await self._view.ask(name, dimension=self._dimension, search=text, top=SHOWN_MAX)
        except FleetpulseError:
            return  # the page itself says what is wrong; a list of suggestions needs no second notice
        self._list.clear()
        with self._list:
            for value, _count in answer.rows:
                tag("option", value=str(value)[:VALUE_CHARS_MAX], label=clean(value))
