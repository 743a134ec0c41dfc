"""Streams through a proxy while something is wrong, and what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lab.bench.proxy_load import REQUEST, seen_of
from lab.chaos.edge_parts import LOOK_EVERY_S, Part

END = b"\r\n0\r\n\r\n"
BEFORE_S, AFTER_S = 3.0, 4.0
NOTED_WITHIN_S = 60.0
"""So much longer a fault lasts at most until every part has said so: an agent writes when its readings are due."""
SILENT_S = 60.0
"""A stream on which nothing comes for so long is cut."""
AGAIN_S = 0.5


class Fate(StrEnum):
    """What became of a stream. ``REFUSED``: it got a 503 instead, and ``RESET``: no connection; one that was accepted
    and is silent or ends early is ``CUT``."""

    WHOLE = "whole"
    CUT = "cut"
    CHANGED = "changed"
    REFUSED = "503"
    RESET = "reset"


class Phase(StrEnum):
    """When a stream began."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


Phases = Mapping[Phase, Mapping[Fate, int]]
"""How many streams that began then came to what."""


class Settable(Protocol):
    """Whatever makes a fault."""

    def set(self, fault: str) -> None:
        """From now on; ``none``: no more."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was seen under load. ``notes``: what readiness said during the fault."""

    phases: Phases
    notes: Mapping[str, str]

    def count(self, *fates: Fate) -> int:
        """Of all phases."""
        return sum(found[fate] for found in self.phases.values() for fate in fates)


async def under_load(
    parts: Mapping[str, Part], faulty: Settable | None, word: str, streams: int, fault_s: float, *, noted: bool
) -> Loaded:
    """So many streams at a time; in their midst ``faulty`` is set to ``word`` for so long, and until all parts have
    said so where it is to be ``noted``."""
    notes: dict[str, str] = {}
    over = asyncio.Event()
    tasks = [asyncio.create_task(_ask_until(parts["proxy"].port, over)) for _ in range(streams)]
    await asyncio.sleep(BEFORE_S)
    if faulty is not None:
        await asyncio.to_thread(faulty.set, word)
    struck_s = time.monotonic()
    ends_s = struck_s + fault_s
    noted_s = ends_s + NOTED_WITHIN_S if noted else ends_s
    while time.monotonic() < ends_s or (len(notes) < len(parts) and time.monotonic() < noted_s):
        for name, part in parts.items():
            if (note := await asyncio.to_thread(part.look)) is not None:
                notes[name] = note
        await asyncio.sleep(LOOK_EVERY_S)
    ended_s = time.monotonic()
    if faulty is not None:
        await asyncio.to_thread(faulty.set, "none")
    mended_s = time.monotonic()
    await asyncio.sleep(AFTER_S)
    over.set()
    phases = {phase: dict.fromkeys(Fate, 0) for phase in Phase}
    for began_s, fate in [each for several in await asyncio.gather(*tasks) for each in several]:
        # What began while the fault was set or taken away is neither during it nor without it: it counts as beside it.
        phase = Phase.DURING if struck_s <= began_s < ended_s else Phase.AFTER if began_s >= mended_s else Phase.BEFORE
        phases[phase][fate] += 1
    return Loaded(phases, notes)


async def _ask_until(port: int, over: asyncio.Event) -> list[tuple[float, Fate]]:
    seen = []
    while not over.is_set():
        seen.append((time.monotonic(), await stream(port)))
        if seen[-1][1] is not Fate.WHOLE:
            await asyncio.sleep(AGAIN_S)
    return seen


async def stream(port: int, silent_s: float = SILENT_S) -> Fate:
    """Ask for one and read it to its end."""
    raw, accepted = b"", False
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        accepted = True
        try:
            writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            while data := await asyncio.wait_for(reader.read(65_536), silent_s):
                raw += data
        finally:
            writer.close()
    if raw.startswith(b"HTTP/1.1 503 "):
        return Fate.REFUSED
    if not raw.endswith(END):
        return Fate.CUT if accepted else Fate.RESET
    return Fate.WHOLE if seen_of(0, [(0, raw)], first=True).whole else Fate.CHANGED
