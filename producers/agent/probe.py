"""Probes side by side, each in a daemon thread with a time limit: a driver that hangs delays the start, no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from producers.agent.choice import Probed


class Missing(Exception):
    """What a probe looked for is not there; the text says why, for people."""


Probe = Callable[[], str]
"""Says what it found, or raises ``Missing`` (or anything else)."""


def probe_all(probes: Mapping[str, Probe], limit_s: float) -> dict[str, Probed]:
    """What each probe found within the time limit, which they share."""
    found: dict[str, Probed] = {}

    def ask(name: str, probe: Probe) -> None:
        found[name] = _probed(probe)

    threads = {
        name: threading.Thread(target=ask, args=(name, probe), name=f"probe-{name}", daemon=True)
        for name, probe in probes.items()
    }
    for thread in threads.values():
        thread.start()
    until_s = time.monotonic() + limit_s
    for thread in threads.values():
        thread.join(max(0.0, until_s - time.monotonic()))
    late = Probed(None, f"no answer within {limit_s:g} s")
    return {name: found.get(name, late) for name in probes}


def _probed(probe: Probe) -> Probed:
    try:
        return Probed(probe())
    except Missing as missing:
        return Probed(None, str(missing))
    except Exception as error:
        return Probed(None, f"{type(error).__name__}: {error}")
