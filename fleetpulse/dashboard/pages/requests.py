"""*Requests*: single requests, found by id, by what they were, or by how slow they were."""

from __future__ import annotations

from fleetpulse.dashboard.parts import Panel, choices, search_field
from fleetpulse.dashboard.requests_table import newest, requests_table
from fleetpulse.dashboard.view import PageSpec, Refresh, View
from schemas.ddl.slowest_hours import WINDOWS_UP_TO_MS

TOP = 200
ORDERS = {"newest": "newest", "failed": "newest failed", "ttft": "slowest first token", "e2e": "slowest end to end"}
_HINTS = {"newest": f"the newest {TOP} of the range", "failed": f"the newest {TOP} that did not end well"}


def slowest_hint(span_ms: int) -> str:
    """Among which requests the slowest of a range of this length are looked for."""
    if span_ms <= WINDOWS_UP_TO_MS:
        return "from the slowest two of every 10 s, engine and model"
    return "from the slowest of every hour, engine, model, tenant and status"


def build(view: View) -> Refresh:
    """A search and its table."""
    panel = Panel("Requests")
    with panel.tools:
        search_field("Request or trace id", view.option("id"), lambda text: view.set(id=text.strip()), "whole id")
        order = view.choice("order", ORDERS)
        choices("Show", ORDERS, order, lambda value: view.set(order=value))
    with panel.body:
        table = requests_table(view, "Requests")

    async def refresh() -> None:
        shown, wanted = view.choice("order", ORDERS), view.option("id")
        if shown in ("ttft", "e2e") and not wanted:
            answer = await view.ask("slowest_of_windows", metric=shown, top=TOP)
        elif wanted:  # all of it: requests of one trace may be hours apart
            answer = await view.ask("requests", top=TOP, id=wanted, failed=int(shown == "failed"))
        else:
            answer = await newest(view, TOP, id="", failed=int(shown == "failed"))
        if not answer.rows:
            where = "with this id in this range" if wanted else "in this range"
            panel.empty(f"No request {where}", "Choose a longer range or fewer filters; raw requests go after days.")
            return
        panel.hint("with this id" if wanted else _HINTS.get(shown) or slowest_hint(view.past.span_ms))
        panel.show()
        table.show(answer.records())

    return refresh


PAGE = PageSpec(
    path="/requests",
    title="Requests",
    icon="format_list_bulleted",
    about="Single requests: find one, see where its time went",
    build=build,
    reads=("requests",),
    filters=("model", "tenant", "status", "engine_id", "host"),
    options={"id": "", "order": "newest"},
)
