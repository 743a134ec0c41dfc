"""Tables of hosts, engines, GPUs and their processes, whose names link to the page of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.parts import Column, TablePanel, search_field
from fleetpulse.dashboard.values import ago, clean, middle, percent, short, size
from fleetpulse.dashboard.view import Refresh, View

LISTED = 200
LAST_SEEN = Column("heard_ago_ms", "Last seen", text=ago, right=True)
UTILIZATION = Column("busy", "Utilization", text=percent, right=True)
HOTTEST = Column("temperature_max_c", "Hottest", text=lambda c: f"{short(c)} °C", right=True)
ENGINE_LOAD = (
    Column("running", "Running", text=short, right=True),
    Column("waiting", "Waiting, most", text=short, right=True),
    Column("kv_used", "KV, most", text=percent, right=True),
    Column("tokens_per_s", "Tokens/s", text=short, right=True),
)


def host_column(view: View, name: str = "a_host") -> Column:
    """Name of a host."""
    return _linked(view, name, "Host", "/host", "name")


def engine_column(view: View, name: str = "engine_id") -> Column:
    """Id of an engine."""
    return _linked(view, name, "Engine", "/engine", "name")


def gpu_column(view: View, text: Callable[[Any], str] = clean) -> Column:
    """UUID of a GPU."""
    return _linked(view, "gpu_uuid", "GPU", "/gpu", "gpu", text)


def process_columns(view: View) -> list[Column]:
    """Processes that hold GPU memory."""
    return [
        Column("pid", "PID", right=True),
        Column("program", "Program"),
        engine_column(view, "engine"),
        Column("does", "Does"),
        gpu_column(view, middle),
        Column("held_bytes", "Holds", text=size, right=True),
        Column("held_max_bytes", "Most", text=size, right=True),
        Column("sm_share", "SMs", text=percent, right=True),
        Column("container", "Container", text=middle),
        Column("pod", "Pod", text=middle),
    ]


def load_columns(view: View) -> list[Column]:
    """What processes used of processors, memory and disks."""
    return [
        Column("process_name", "Program"),
        engine_column(view),
        Column("does", "Does"),
        Column("cores", "Processors", text=short, right=True),
        Column("busiest_thread", "Busiest thread", text=percent, right=True),
        Column("memory_max_bytes", "Memory, most", text=size, right=True),
        Column("read_per_s", "Read/s", text=size, right=True),
        Column("write_per_s", "Written/s", text=size, right=True),
    ]


def listed_of(known: int) -> str:
    """How many there are, and how many of them are listed."""
    return f"{known:,}" if known <= LISTED else f"{LISTED} of {known:,}; search for others"


def listing(view: View, what: str, columns: Sequence[Column], about: str, advice: str) -> Refresh:
    """A table of all of a kind, to search and choose from. The query ``hosts`` of ``host`` has them, and in a column of
    that name how many there are. ``about`` is what may be searched, ``advice`` what to do where there is none."""
    query = f"{what.lower()}s"
    panel = TablePanel(f"{what[0].upper()}{what[1:]}s", "", columns, page_rows=25)
    with panel.tools:
        search_field("Search", view.option("q"), lambda text: view.set(q=text), about)

    async def refresh() -> None:
        answer = await view.ask(query, search=view.option("q"), top=LISTED)
        rows = [row | {LAST_SEEN.name: max(0, view.until_ms - row["heard_ms"])} for row in answer.records()]
        known = rows[0][query] if rows else 0
        panel.hint(listed_of(known))
        panel.rows(rows, f"No {what} in this range", f"Choose a longer range; {advice}.")

    return refresh


def _linked(
    view: View, name: str, label: str, path: str, option: str, text: Callable[[Any], str] = clean
) -> Column:  # fmt: skip
    def href(row: Mapping[str, Any]) -> str:
        return view.link(path, **{option: str(row[name])}) if row[name] else ""

    return Column(name, label, text=text, href=href)
