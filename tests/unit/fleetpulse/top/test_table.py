"""The table of ``fleetpulse top``: numbers, sorting, keys."""

from __future__ import annotations

import io
import json
import os
import pty
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.sql.database import Answer
from fleetpulse.top import screen as top_screen
from fleetpulse.top.table import COLUMNS, GPUS_MAX, HEADINGS, KEYS, Row, View, screen, sql, summary, table_of
from schemas.errors import UnavailableError
from tests.virtual_clock import VirtualClock


def gpu(host: str | None, number: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "host": host,
        "gpu_uuid": f"GPU-{number}",
        "parent_uuid": None,
        "gpu_model": "H100",
        "engine_id": f"e-{number}",
        "model": "llama",
        "workload": "inference",
        "age_ms": 1_500,
        "util_gpu_pct": 50,
        "memory_used_bytes": 60,
        "memory_total_bytes": 80,
        "power_mw": 350_000,
        "power_limit_mw": 700_000,
        "temperature_c": 60,
        "engine_running": 3,
        "engine_waiting": 0,
        "engine_kv_used_ppm": 250_000,
        "host_cpu_busy_ppm": 100_000,
    }
    return row | changes


FLEET = (
    gpu("b", 1, util_gpu_pct=None, power_mw=None, temperature_c=40),
    gpu("a", 2, util_gpu_pct=90, engine_waiting=7),
    gpu("a", 3, util_gpu_pct=10, model="qwen"),
)


def test_a_row_has_every_column_in_the_units_of_the_heading() -> None:
    """Watts, percent, seconds; shares from used and total."""
    (row,) = table_of(FLEET[1:2], View())

    assert row == {
        "host": "a",
        "gpu": "GPU-2",
        "type": "H100",
        "model": "llama",
        "util %": 90,
        "mem %": 75.0,
        "power W": 350.0,
        "of limit %": 50.0,
        "temp C": 60,
        "running": 3,
        "waiting": 7,
        "kv %": 25.0,
        "cpu %": 10.0,
        "age s": 1.5,
    }


def test_a_host_folds_its_gpus() -> None:
    """Means of shares, sums of power, the greatest of temperatures and queues, names or how many."""
    first, second = table_of(FLEET, View("host", "host"))

    assert (first["host"], first["gpu"], first["util %"], first["power W"], first["waiting"]) == (
        "a",
        2,
        50.0,
        700.0,
        7,
    )
    assert first["model"] == "2 of them"
    assert (second["host"], second["util %"], second["power W"], second["temp C"]) == ("b", None, None, 40)


def test_requests_of_a_host_are_those_of_its_engines() -> None:
    """An engine on several GPUs counts once; GPUs without one have none."""
    fleet = [
        *(gpu("a", number, engine_id="tp", engine_running=5, engine_waiting=2) for number in range(4)),
        gpu("a", 5, engine_id="other", engine_running=3, engine_waiting=None),
        *(gpu("a", number, engine_id=None, engine_running=None, engine_waiting=None) for number in (6, 7)),
        gpu("b", 8, engine_id=None, engine_running=None, engine_waiting=None),
    ]

    first, second = table_of(fleet, View("host", "host"))

    assert (first["running"], first["waiting"], first["gpu"]) == (8, 2, 7)
    assert (second["running"], second["waiting"]) == (None, None)


def test_rows_that_are_left_out_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table has 50 without --limit, JSON all."""
    fleet = Answer(tuple(gpu("", 0)), tuple(tuple(gpu(f"h-{number}", number).values()) for number in range(60)))
    database = SimpleNamespace(sql=lambda _sql: fleet, close=lambda: None)
    monkeypatch.setattr("fleetpulse.sql.database.Database", lambda _login: database)

    def top(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["top", *words], env={"COLUMNS": "200"})
        return (len(json.loads(done.stdout)) if "--json" in words else done.stdout.count("GPU-")), done.stderr

    assert top("--once") == (50, "50 of 60 rows; --limit for more\n")
    assert top("--once", "--limit", "60") == (60, "")
    assert top("--json") == (60, "")
    assert top("--json", "--limit", "5") == (5, "5 of 60 rows; --limit for more\n")


@pytest.mark.parametrize(
    ("view", "order"),
    [
        (View(), ["GPU-2", "GPU-3", "GPU-1"]),
        (View(rising=True), ["GPU-3", "GPU-2", "GPU-1"]),
        (View(sort="host"), ["GPU-2", "GPU-3", "GPU-1"]),
        (View(sort="host", rising=True), ["GPU-1", "GPU-2", "GPU-3"]),
        (View(sort="temp C"), ["GPU-2", "GPU-3", "GPU-1"]),
    ],
    ids=["most first", "least first", "names rise", "names fall", "equal ones by host and GPU"],
)
def test_rows_are_sorted_and_the_unknown_come_last(view: View, order: list[str]) -> None:
    """Whichever way round."""
    assert [row["gpu"] for row in table_of(FLEET, view)] == order


@pytest.mark.parametrize(
    ("view", "order"),
    [
        (View(), "util_gpu_pct DESC"),
        (View(rising=True), "util_gpu_pct ASC"),
        (View(sort="mem %"), "memory_used_bytes / nullIf(memory_total_bytes, 0) DESC"),
        (View(sort="host"), "host ASC"),
        (View(sort="host", rising=True), "host DESC"),
        (View("host"), "avg(util_gpu_pct) OVER (PARTITION BY host) DESC"),
        (View("host", "temp C", rising=True), "max(temperature_c) OVER (PARTITION BY host) ASC"),
        (View("host", "model"), "min(model) OVER (PARTITION BY host) ASC"),
        (View("host", "gpu"), "uniqExact(ifNull(parent_uuid, gpu_uuid)) OVER (PARTITION BY host) DESC"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fleet_beyond_the_limit_is_cut_in_the_order_of_the_table(view: View, order: str) -> None:
    """What is left out is what would be last, and the same at every look."""
    assert sql(view).endswith(f"\nORDER BY {order} NULLS LAST, host, gpu_uuid\nLIMIT {GPUS_MAX}\n")


@pytest.mark.parametrize("by", ["gpu", "host"])
@pytest.mark.parametrize("heading", HEADINGS)
def test_every_column_has_an_order_in_sql(by: Literal["gpu", "host"], heading: str) -> None:
    """Of values that are asked for."""
    assert "ORDER BY" in sql(View(by, heading))


def test_every_column_sorts_hosts_and_gpus() -> None:
    """No column mixes what cannot be compared, unknown names included."""
    fleet = (*FLEET, gpu(None, 4, model=None, engine_waiting=None, memory_total_bytes=0))

    shown = {(heading, by): len(table_of(fleet, View(by, heading))) for heading in HEADINGS for by in ("gpu", "host")}

    assert shown == {(heading, by): 4 if by == "gpu" else 3 for heading in HEADINGS for by in ("gpu", "host")}


@pytest.mark.parametrize(
    ("key", "after"),
    [
        ("q", None),
        ("\x1b", None),
        ("\t", View("host", "util %", False, 0)),
        ("t", View("gpu", "temp C", False, 0)),
        ("u", View("gpu", "util %", True, 0)),
        ("i", View("gpu", "util %", True, 0)),
        ("j", View("gpu", "util %", False, 6)),
        ("J", View("gpu", "util %", False, 15)),
        ("^", View("gpu", "util %", False, 0)),
        ("?", View("gpu", "util %", False, 5)),
        ("\x1b[B", View("gpu", "util %", False, 6)),
        ("\x1b[A", View("gpu", "util %", False, 4)),
        ("\x1b[6~", View("gpu", "util %", False, 15)),
        ("\x1b[5~", View("gpu", "util %", False, 0)),
        ("\x1b[C", View("gpu", "util %", False, 5)),
    ],
    ids=[
        "q ends",
        "Escape ends",
        "hosts",
        "other column",
        "same column turns",
        "turn",
        "down",
        "page",
        "up",
        "nothing",
        "arrow down",
        "arrow up",
        "Page Down",
        "Page Up",
        "another arrow",
    ],
)
def test_keys_change_the_view(key: str, after: View | None) -> None:
    """From row 5 of 25 with ten on a page."""
    assert View(first=5).pressed(key, 25, 10) == after


def test_the_end_of_the_table_stays_on_the_screen() -> None:
    """Paging down stops where the last page is full, and at the top of a short table."""
    last = View(first=14).pressed("J", 20, 10)
    short = View().pressed("J", 3, 10)

    assert last is not None
    assert short is not None
    assert (last.first, short.first) == (10, 0)


def test_no_key_means_two_things() -> None:
    """Keys of columns are single letters that no command has."""
    assert len(KEYS) == sum(bool(column.key) for column in COLUMNS)
    assert set(KEYS).isdisjoint("qijJK^\t \x1b")


def test_one_line_tells_of_the_whole_fleet() -> None:
    """Unknown numbers are left out of means and sums; those that fell silent are counted."""
    assert summary(FLEET) == "2 hosts, 3 GPUs, 50 % utilization, 0.7 kW"
    assert summary([gpu("a", number) for number in range(GPUS_MAX)]).startswith("1 hosts, the first 20,000 GPUs, ")
    assert summary([gpu("a", 1, age_ms=30_001, util_gpu_pct=None)]) == (
        "1 hosts, 1 GPUs, – % utilization, 0.35 kW, 1 silent for 30 s"
    )


def test_a_gpu_counts_once_with_its_mig_devices() -> None:
    """Also where these alone report; it is silent once all of them are."""
    device = gpu("a", 8, gpu_uuid="MIG-1", parent_uuid="GPU-1", util_gpu_pct=None, power_mw=None)
    other = device | {"gpu_uuid": "MIG-2", "age_ms": 30_001}
    alone = other | {"gpu_uuid": "MIG-3", "parent_uuid": "GPU-2"}
    fleet = [gpu("a", 1), device, other, alone]

    (host,) = table_of(fleet, View("host"))

    assert host["gpu"] == 2
    assert summary(fleet) == "1 hosts, 2 GPUs with 3 MIG devices, 50 % utilization, 0.35 kW, 1 silent for 30 s"


def test_a_name_is_never_markup() -> None:
    """Whatever a host calls itself; the page ends where it should."""
    console = Console(file=io.StringIO(), width=240)

    console.print(screen((gpu("[/red]x\x1b[31m", 1), *FLEET), View(sort="host", rising=True), 2))

    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "b" in text
    assert "GPU-2" in text
    assert "GPU-3" not in text
    console.print(screen((gpu("[/red]x\x1b[31m", 1),), View(), 5))
    assert "[/red]x\\x1b[31m" in console.file.getvalue()  # type: ignore[attr-defined]


class Fleet:
    """Answers once, then is away once, then answers again."""

    def __init__(self) -> None:
        self.queries = 0
        self.sorted_by: list[str] = []

    def __call__(self, view: View) -> Sequence[Row]:
        self.sorted_by.append(view.sort)
        self.queries += 1
        if self.queries == 2:
            raise UnavailableError("ClickHouse is away")
        return FLEET


class Ticking(VirtualClock):
    """A second passes at every look."""

    def monotonic_s(self) -> float:
        self.advance(1_000)
        return super().monotonic_s()


def test_the_screen_asks_again_survives_an_outage_and_ends_by_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of its own: keys come one by one, and the terminal is as it was afterwards."""
    ours, theirs = pty.openpty()
    fleet = Fleet()
    console = Console(file=io.StringIO(), width=240, height=30, force_terminal=True)
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        before = top_screen.termios.tcgetattr(terminal)
        os.write(ours, b"tj\tq")
        top_screen.run(fleet, View(), console, Ticking(), every_s=1.0)
        after = top_screen.termios.tcgetattr(terminal)
    os.close(ours)

    assert fleet.queries == 4
    assert fleet.sorted_by == ["util %", "temp C", "temp C", "temp C"]
    assert "as of before: ClickHouse is away" in console.file.getvalue()  # type: ignore[attr-defined]
    assert after == before


@pytest.mark.parametrize("down", [b"J", b"\x1b[6~", b"j" * 30, b"\x1b[B" * 30], ids=["J", "Page Down", "j", "arrow"])
def test_hosts_are_scrolled_to_the_last_and_not_beyond(down: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many GPUs each has: the last page is full, and the keys of arrows are no Escape."""
    fleet = [gpu(f"host-{number // 8:02}", number) for number in range(8 * 30)]
    ours, theirs = pty.openpty()
    console = Console(file=io.StringIO(), width=240, height=18, force_terminal=True)
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(ours, down * 4 + b"q")
        top_screen.run(lambda _view: fleet, View("host", "host"), console, VirtualClock(), every_s=60.0)
    os.close(ours)

    last = console.file.getvalue().rpartition("30 hosts")[2]  # type: ignore[attr-defined]
    assert [f"host-{number:02}" for number in range(20, 30)] == [word for word in last.split() if "host-" in word]
