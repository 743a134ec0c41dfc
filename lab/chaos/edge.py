"""Faults at the edge, under streams: a proxy in front of a mock engine and an agent, both as they are shipped.

While a fault lasts no stream may be cut or changed, no process may end, and readiness must say what is wrong; in the
end every request that was served is in the books of the proxy's spool, or declared as shed in them. Kafka is away all
the time, so that nothing leaves the spool; but for one fault, where it is killed, comes back and must get everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fleetpulse import stack
from fleetpulse.migrate.bring_up import bring_up
from lab.bench.counterparts import spooled_rows
from lab.bench.proxy_load import REQUEST, seen_of
from lab.chaos.clock_shim import SteppedClock
from lab.chaos.disk_shim import FaultyDisk, compiler
from lab.chaos.edge_parts import LOOK_EVERY_S, Part, agent, engine, proxy
from producers.spool.spool import Spool
from schemas.errors import FleetpulseError
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import MINUTE_MS

END = b"\r\n0\r\n\r\n"
BEFORE_S, AFTER_S = 3.0, 4.0
NOTED_WITHIN_S = 60.0
"""So much longer a fault lasts at most until every part has said so: an agent writes when its readings are due."""
MEMORY_MIB_MAX = 400
NOWHERE = "127.0.0.1:9"
NOT_MADE = ("CA file gone: needs a Kafka with TLS (tests/unit/producers/publish holds the case)",)


@dataclass(frozen=True, slots=True)
class Fault:
    """``disk`` is a fault of the disk, ``descriptors`` the limit of the proxy's, ``kafka``: it is killed; ``clock_ms``:
    so far the wall clock steps, and back at the end; ``noted``: readiness must say it."""

    name: str
    disk: str | None = None
    descriptors: int | None = None
    kafka: bool = False
    clock_ms: int | None = None
    noted: bool = True

    @property
    def shim(self) -> bool:
        """Whether a library of C makes it."""
        return self.disk is not None or self.clock_ms is not None

    @property
    def word(self) -> str:
        """What whatever makes it is set to."""
        return self.disk or (str(self.clock_ms) if self.clock_ms is not None else "away")


FAULTS = (
    Fault("disk full", "full"),
    Fault("disk read-only", "read-only"),
    Fault("disk failing", "failing"),
    Fault("disk slow", "slow 3000", noted=False),
    Fault("256 descriptors", descriptors=256, noted=False),
    Fault("clock forward", clock_ms=5 * MINUTE_MS, noted=False),
    Fault("clock back", clock_ms=-5 * MINUTE_MS, noted=False),
    Fault("Kafka away", kafka=True, noted=False),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one fault. ``refused`` clients got a 503 instead of a stream, and ``reset`` ones
    not even that; ``missing`` requests were served and
    are neither in the books nor declared; ``unsent`` of the booked ones were not acknowledged."""

    fault: str
    streams: int
    refused: int
    reset: int
    cut: int
    changed: int
    requests: int
    booked: int
    declared: int
    unsent: int
    notes: Mapping[str, str]
    ended: Sequence[str]
    not_back: Sequence[str]
    memory_mib: Mapping[str, int]
    wrong: Sequence[str]

    @property
    def missing(self) -> int:
        """Below 0: more than were served."""
        return self.requests - self.booked - self.declared


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """All faults that were made, and those that this machine cannot make."""

    outcomes: tuple[Outcome, ...]
    not_made: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether nothing is wrong with any."""
        return bool(self.outcomes) and not any(one.wrong for one in self.outcomes)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        outcomes = [asdict(one) | {"missing": one.missing} for one in self.outcomes]
        return {"exact": self.exact, "faults": outcomes, "not_made": list(self.not_made)}

    def text(self) -> str:
        """For people."""
        head = (
            "fault",
            "streams",
            "503",
            "reset",
            "cut",
            "changed",
            "served",
            "in books",
            "declared",
            "missing",
            "MiB",
        )
        lines = [_line(head)]
        for one in self.outcomes:
            memory = "/".join(map(str, one.memory_mib.values()))
            counts = (one.streams, one.refused, one.reset, one.cut, one.changed, one.requests, one.booked, one.declared)
            lines.append(_line((one.fault, *counts, one.missing, memory)))
        lines += [f"{one.fault}: {what}" for one in self.outcomes for what in one.wrong]
        lines += [f"not made here: {what}" for what in self.not_made]
        return "\n".join([*lines, "all served, all accounted for" if self.exact else "NOT as it should be"])


def _line(cells: Sequence[object]) -> str:
    return str(cells[0]).ljust(18) + "".join(str(cell).rjust(10) for cell in cells[1:])


def run_edge(
    *, streams: int, fault_s: float, only: str | None, data_dir: Path, say: Callable[[str], None]
) -> EdgeReport:
    """Make each fault in turn, for ``fault_s`` under so many streams. ``only``: the fault of this name alone."""
    wanted = [fault for fault in FAULTS if only in (None, fault.name)]
    if not wanted:
        raise FleetpulseError(f"no such fault; there are: {', '.join(fault.name for fault in FAULTS)}")
    not_made = list(NOT_MADE)
    if compiler() is None:
        not_made += [f"{fault.name}: needs a C compiler (cc)" for fault in wanted if fault.shim]
        wanted = [fault for fault in wanted if not fault.shim]
    outcomes = []
    for fault in wanted:
        say(fault.name)
        folder = data_dir / "chaos" / fault.name.replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "disk").mkdir(parents=True)
        kafka = _Kafka(folder / "stack", say) if fault.kafka else None
        try:
            outcomes.append(_run(fault, folder, streams, fault_s, kafka))
        finally:
            if kafka is not None:
                stack.down(kafka.folder)
        if not outcomes[-1].wrong:
            shutil.rmtree(folder)
    return EdgeReport(tuple(outcomes), tuple(not_made))


class _Kafka:
    """A local stack whose Kafka may be killed."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.bootstrap = bring_up(folder, say).kafka.bootstrap

    def set(self, fault: str) -> None:
        """As ``FaultyDisk.set``."""
        if fault == "none":
            stack.start_kafka(self.folder)
        else:
            stack.kill(self.folder, stack.KAFKA)


def _run(fault: Fault, folder: Path, streams: int, fault_s: float, kafka: _Kafka | None) -> Outcome:
    shim: FaultyDisk | SteppedClock | None = None
    if fault.shim:
        shim = FaultyDisk(folder / "disk", folder) if fault.disk else SteppedClock(folder)
    bootstrap = NOWHERE if kafka is None else kafka.bootstrap
    with contextlib.ExitStack() as running:
        port = running.enter_context(engine())
        parts = {
            "proxy": running.enter_context(proxy(folder, shim, bootstrap, fault.descriptors, port)),
            "agent": running.enter_context(agent(folder, shim, bootstrap)),
        }
        for part in parts.values():
            part.wait_until_up()
        seen, notes = asyncio.run(_under_load(parts, shim or kafka, fault, streams, fault_s))
        ended = [name for name, part in parts.items() if part.process.poll() is not None]
        not_back = [name for name, part in parts.items() if name not in ended and not part.is_back()]
        memory_mib = {name: part.memory_bytes_max >> 20 for name, part in parts.items()}
        for part in parts.values():
            part.stop()
    booked, declared, unsent = _books(folder / "disk" / "proxy")
    whole, cut, changed = (sum(one == what for one in seen) for what in ("whole", "cut", "changed"))
    counts = (
        len(seen),
        seen.count("503"),
        seen.count("reset"),
        cut,
        changed,
        whole + changed,
        booked,
        declared,
        unsent,
    )
    outcome = Outcome(fault.name, *counts, notes, ended, not_back, memory_mib, ())
    return Outcome(fault.name, *counts, notes, ended, not_back, memory_mib, tuple(_wrong(outcome, fault)))


def _wrong(one: Outcome, fault: Fault) -> Iterator[str]:
    if one.cut or one.changed:
        yield f"{one.cut} streams were cut, {one.changed} changed"
    if not one.requests:
        yield "no stream was served"
    if one.missing:
        yield f"{one.missing} requests are neither in the books nor declared"
    yield from (f"{name} ended" for name in one.ended)
    yield from (f"readiness of the {name} does not become good again" for name in one.not_back)
    if fault.kafka and one.unsent:
        yield f"{one.unsent} requests did not reach Kafka when it was back"
    if fault.noted:
        yield from (f"readiness of the {name} said nothing" for name in ("proxy", "agent") if name not in one.notes)
    yield from (f"the {name} took {mib} MiB" for name, mib in one.memory_mib.items() if mib > MEMORY_MIB_MAX)


def _books(folder: Path) -> tuple[int, int, int]:
    """Requests that were served and that the proxy's spool has events of, those that it declares as shed, and how many
    Kafka has not. Refused requests have events too: where they still lie there, they are told apart."""
    spool = Spool.open(folder)
    try:
        tallies = [tally for (_, topic), tally in spool.books.items() if topic == LLM_REQUESTS.topic]
    finally:
        spool.abandon()
    refused = sum(row["status"] != "ok" for row in spooled_rows(folder))
    booked, acknowledged = sum(tally.events for tally in tallies), sum(tally.acknowledged_events for tally in tallies)
    return booked - refused, sum(tally.shed_events for tally in tallies), booked - acknowledged


# Load


async def _under_load(
    parts: Mapping[str, Part],
    faulty: FaultyDisk | SteppedClock | _Kafka | None,
    fault: Fault,
    streams: int,
    fault_s: float,
) -> tuple[list[str], dict[str, str]]:
    """What became of each stream, and what readiness said during the fault."""
    notes: dict[str, str] = {}
    over = asyncio.Event()
    tasks = [asyncio.create_task(_ask_until(parts["proxy"].port, over)) for _ in range(streams)]
    await asyncio.sleep(BEFORE_S)
    if faulty is not None:
        await asyncio.to_thread(faulty.set, fault.word)
    ends_s = time.monotonic() + fault_s
    noted_s = ends_s + NOTED_WITHIN_S if fault.noted else ends_s
    while time.monotonic() < ends_s or (len(notes) < len(parts) and time.monotonic() < noted_s):
        for name, part in parts.items():
            if (note := await asyncio.to_thread(part.look)) is not None:
                notes[name] = note
        await asyncio.sleep(LOOK_EVERY_S)
    if faulty is not None:
        await asyncio.to_thread(faulty.set, "none")
    await asyncio.sleep(AFTER_S)
    over.set()
    seen = [each for several in await asyncio.gather(*tasks) for each in several]
    return seen, notes


async def _ask_until(port: int, over: asyncio.Event) -> list[str]:
    seen = []
    while not over.is_set():
        seen.append(await _stream(port))
        if seen[-1] != "whole":
            await asyncio.sleep(0.5)
    return seen


async def _stream(port: int) -> str:
    """``whole``, ``cut`` or ``changed``; ``503`` or ``reset`` for one that was refused before it began."""
    raw = b""
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            while data := await asyncio.wait_for(reader.read(65_536), 60.0):
                raw += data
        finally:
            writer.close()
    if raw.startswith(b"HTTP/1.1 503 "):
        return "503"
    if not raw.endswith(END):
        return "cut" if raw else "reset"
    return "whole" if seen_of(0, [(0, raw)], first=True).whole else "changed"
