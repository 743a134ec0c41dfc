"""What stands around every page: menu, title, range, live mode, filters, theme, and the notice of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from nicegui import Client, background_tasks, ui

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.parts import VALUE_JS, Segments, button, field, set_text, tag
from fleetpulse.dashboard.security import LOCAL
from fleetpulse.dashboard.theme import css
from fleetpulse.dashboard.time_range import PRESETS, RangeSpec, fixed
from fleetpulse.dashboard.url_state import VALUE_CHARS_MAX, UrlState, parse
from fleetpulse.dashboard.users import User
from fleetpulse.dashboard.values import clean
from fleetpulse.dashboard.view import AGAIN_S, Facts, PageSpec, View, wall_ms
from fleetpulse.dashboard.zone import DAYS, ZONE_COOKIE, Zone
from fleetpulse.queries.data_ends import Lack
from schemas.errors import FleetpulseError

THEME_COOKIE = "fleetpulse_theme"
FIRST_ANSWER_S = 0.2
"""How long the first page waits for its numbers, so that quick ones come with it; slower ones follow."""
_SHOW_WHERE = "document.querySelector('.fp-nav [aria-current]')?.scrollIntoView({block: 'nearest', inline: 'center'})"
"""On a phone the menu is wider than the screen."""
SHOWN_MAX = 50
"""Values that a filter suggests; a search finds the others."""
OF_GPUS = frozenset({"host", "gpu_model", "gpu_uuid", "workload"})
LABELS = {"gpu_model": "GPU", "engine_id": "Engine", "slo_class": "Class", "error_kind": "Error"}
_HEAD = """<meta name="referrer" content="same-origin"><script>
window.addEventListener('popstate', () => location.reload());
function fpKeep(name, value) {
  document.cookie = name + '=' + value + ';path=/;max-age=31536000;samesite=strict';
  if (document.cookie.includes(name + '=' + value)) location.reload();
}
const fpZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
(() => {
  const kept = (document.cookie.match(/fleetpulse_zone=([^;]*)/) || [])[1] || '';
  const check = () => {
    if (kept !== 'UTC' && kept !== fpZone() && (kept || fpZone() !== 'UTC')) fpKeep('fleetpulse_zone', fpZone());
  };
  // Names of zones take a browser a tenth of a second: only who is plainly not in UTC pays it before the page is there.
  if (!kept && new Date().getTimezoneOffset()) check();
  else setTimeout(check, 3000);
})();
</script>"""


class Shell:
    """Builds one page for one browser."""

    def __init__(self, pages: Sequence[PageSpec], spec: PageSpec, data: Data, facts: Facts) -> None:
        self._pages = pages
        self._spec = spec
        self._data = data
        self._facts = facts

    async def open(
        self, client: Client, query: Mapping[str, str], user: Callable[[], User | None], *, dark: bool, zone: Zone
    ) -> None:
        """Build the page for this user, and ask for the first time."""
        state, notices = parse(query, self._spec.filters, self._spec.options)
        self._view = view = View(
            self._spec.path,
            self._spec.options,
            state,
            self._data,
            self._facts,
            user,
            dark=dark,
            zone=zone,
            now_ms=wall_ms,
            reads=self._spec.reads,
        )
        ui.add_head_html(f"<style>{css()}</style>{_HEAD}")  # as the parser takes it: ``add_css`` is a script
        ui.dark_mode(dark)
        ui.colors(primary=view.palette.accent)
        tag("a", "fp-skip", "Skip to the page", href="#page")
        self._busy = tag("div", "fp-busy", aria_hidden="true")
        with tag("div", "fp-app"):
            self._side()
            with tag("main", "fp-main", id="page") as self._main:
                self._bar()
                self._filters()
                self._notices(notices)
                with tag("div", "fp-body"):
                    refresh = self._spec.build(view)
        view.on_notice, view.on_busy, view.on_state = self._notice, self._show_busy, self._show_state
        view.on_lack = self._show_lack
        client.on_delete(view.stop)  # a short gap in the network ends nothing: a disconnect may be one
        ui.run_javascript(_SHOW_WHERE)
        await asyncio.wait({view.begin(refresh)}, timeout=FIRST_ANSWER_S)
        # A timer waits for the browser, and with the first that does the page is sent: with its numbers, so after them.
        ui.timer(self._spec.live_s, lambda: view.tick() if view.state.live else None)
        ui.timer(AGAIN_S, lambda: view.tick() if view.failed else None)

    def _side(self) -> None:
        with tag("aside", "fp-side"):
            with tag("a", "fp-brand", href="/", aria_label="fleetpulse"):
                ui.icon("monitor_heart").props("aria-hidden=true")
                tag("span", text="fleetpulse")
            self._links: list[tuple[PageSpec, ui.element]] = []
            with tag("nav", "fp-nav", aria_label="Pages"):
                for page in self._pages:
                    if page.in_menu:
                        self._links.append((page, self._nav(page)))
            with tag("div", "fp-foot"):
                if (user := self._view.user()) is not None and user is not LOCAL:
                    tag("span", text=f"{clean(user.name)}, {user.role}")
                zone = self._view.zone
                tag("span", text=f"Times are {zone.name}, in links UTC")
                wanted = "fpZone()" if zone.is_utc else "'UTC'"
                other = tag("button", "fp-btn", "Show my time" if zone.is_utc else "Show UTC", type="button")
                other.on("click", js_handler=f"() => fpKeep('{ZONE_COOKIE}', {wanted})")

    def _nav(self, page: PageSpec) -> ui.element:
        here = {"aria_current": "page"} if page.path == self._spec.path else {}
        with tag("a", href=self._view.link(page.path), **here) as link:
            ui.icon(page.icon).props("aria-hidden=true")
            tag("span", text=page.title)
        return link

    def _bar(self) -> None:
        view, dark = self._view, self._view.dark
        with tag("header", "fp-bar"):
            with tag("div", "fp-title"):
                tag("h1", text=self._spec.title)
                tag("div", "fp-about", self._spec.about)
            if self._spec.has_range:
                presets = {preset: preset for preset in PRESETS}
                self._preset = Segments("Time range", presets, view.state.range_spec.last or "", self._last)
                self._custom_button()
                self._live = tag("button", "fp-btn", type="button", aria_pressed=_pressed(view.state.live))
                with self._live:
                    tag("span", "fp-dot", aria_hidden="true")
                    tag("span", text="Live")
                self._live.on("click", lambda _: view.shell(replace(view.state, live=not view.state.live)))
            with tag(
                "button", "fp-btn", type="button", aria_label="Light colours" if dark else "Dark colours"
            ) as theme:
                ui.icon("light_mode" if dark else "dark_mode").props("aria-hidden=true")
            theme.on("click", js_handler=f"() => fpKeep('{THEME_COOKIE}', '{'light' if dark else 'dark'}')")
        if self._spec.has_range:
            self._custom()

    def _custom_button(self) -> None:
        with tag("button", "fp-btn", type="button", aria_expanded="false") as self._custom_toggle:
            ui.icon("date_range").props("aria-hidden=true")
            self._custom_text = tag("span", text=self._custom_label())
        self._custom_toggle.on("click", self._toggle_custom)

    def _custom_label(self) -> str:
        spec = self._view.state.range_spec
        return "Custom" if spec.last is not None else self._view.zone.label(spec.from_ms, spec.to_ms)

    def _custom(self) -> None:
        self._ends = {"from": "", "to": ""}
        with tag("div", "fp-filters") as self._custom_row:
            for name in self._ends:
                with tag("div", "fp-field"):
                    keep = partial(self._ends.__setitem__, name)
                    props = {"type": "datetime-local", "step": "1", "style": "width:190px"}
                    label = f"{name.capitalize()} ({self._view.zone.name})"
                    field(label, f"end-{name}", on_change=keep, **props)
            button("Apply", self._apply_custom, classes="primary")
            for name in DAYS:
                button(name, partial(self._view.days, name))
        self._custom_row.set_visibility(False)

    def _toggle_custom(self) -> None:
        shown, view = not self._custom_row.visible, self._view
        if shown:
            self._ends |= {"from": view.zone.typed(view.range.from_ms), "to": view.zone.typed(view.range.to_ms)}
            for name, text in self._ends.items():
                ui.run_javascript(f"document.getElementById('end-{name}').value = '{text}'")
        self._custom_row.set_visibility(shown)
        self._custom_toggle._props["aria-expanded"] = _pressed(shown)
        self._custom_toggle.update()

    def _apply_custom(self) -> None:
        try:
            spec = fixed(*(self._view.zone.read(self._ends[name]) for name in ("from", "to")))
        except ValueError:
            self._notice("Give both ends of the range, the earlier one first.")
            return
        self._view.shell(replace(self._view.state, range_spec=spec, live=False))

    def _last(self, preset: str) -> None:
        self._view.shell(replace(self._view.state, range_spec=RangeSpec(preset)))

    def _filters(self) -> None:
        with tag("div", "fp-filters", role="search", aria_label="Filters"):
            for name in self._spec.filters:
                Suggestions(self._view, name)

    def _notices(self, notices: Sequence[str]) -> None:
        for sentence in notices:
            with tag("div", "fp-notice soft", role="status"):
                tag("span", text=sentence)
        with tag("div", "fp-notice soft", role="status") as self._lack_box:
            self._lack_text = tag("span", text="")
            self._nearest: tuple[int, int] | None = None
            button("Show the nearest data", self._show_nearest, "history")
        self._lack_box.set_visibility(False)
        with tag("div", "fp-notice", role="alert") as self._notice_box:
            ui.icon("error_outline").props("aria-hidden=true")
            self._notice_text = tag("span", text="")
        self._notice_box.set_visibility(False)

    def _notice(self, text: str | None) -> None:
        set_text(self._notice_text, text or "")
        self._notice_box.set_visibility(bool(text))
        if self._view.stale:
            self._main.classes(add="fp-stale")
        else:
            self._main.classes(remove="fp-stale")

    def _show_lack(self, lack: Lack | None) -> None:
        """Say that the range has none of what the page shows, and where some is; nothing where none is held at all:
        the page says what to start."""
        self._nearest = lack.nearest() if lack is not None else None
        if lack is not None and self._nearest is not None:
            said = lack.said(self._view.zone.label)
            set_text(self._lack_text, f"{said[:1].upper()}{said[1:]}.")
        self._lack_box.set_visibility(self._nearest is not None)

    def _show_nearest(self) -> None:
        if self._nearest is not None:
            self._view.zoom(*self._nearest)

    def _show_busy(self, busy: bool) -> None:
        if busy:
            self._busy.classes(add="on")
        else:
            self._busy.classes(remove="on")

    def _show_state(self) -> None:
        state: UrlState = self._view.state
        self._preset.press(state.range_spec.last or "")
        set_text(self._custom_text, self._custom_label())
        self._live._props["aria-pressed"] = _pressed(state.live)
        self._live.update()
        for page, link in self._links:
            link._props["href"] = self._view.link(page.path)
            link.update()


class Suggestions:
    """A filter field: the wanted value of one dimension, with the most frequent values that hold what is typed."""

    def __init__(self, view: View, dimension: str) -> None:
        self._view = view
        self._dimension = dimension
        value = view.filter(dimension)
        label = LABELS.get(dimension, dimension.capitalize())
        with tag("div", "fp-field set" if value else "fp-field") as self._field:
            name = f"filter-{dimension}"
            props = {"list": f"{name}-values", "placeholder": "all", "value": value, "type": "search"}
            made = field(label, name, on_change=self._chosen, **props)
            self._list = tag("datalist", id=f"{name}-values")
        made.on("input", lambda event: self._typed(str(event.args)), js_handler=VALUE_JS, throttle=0.25,
                leading_events=False)  # fmt: skip
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


def _pressed(on: bool) -> str:
    return "true" if on else "false"
