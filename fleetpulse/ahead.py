"""Compiling ahead of time: what the jobs and the simulated fleet compile, into numba's cache on disk.

A job compiles when it first starts on a machine, for a minute and more; with a filled cache it loads in a second. An
image, a test session and a first demonstration fill it beforehand. The cache is where ``NUMBA_CACHE_DIR`` says, else
beside the modules; it holds for one kind of processor (``NUMBA_CPU_NAME``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


def parts() -> dict[str, Callable[[], None]]:
    """What there is to compile, by who needs it; called, each compiles or loads its own."""
    from producers.fleet.run import warm_up as fleet
    from stream_jobs.costs.warm import warm as costs
    from stream_jobs.finals.warm import warm as finals
    from stream_jobs.insight.warm import warm as insight
    from stream_jobs.rules.load import load_set
    from stream_jobs.windows.warm import warm as windows

    return {
        "jobs windows": windows,
        "jobs finals": finals,
        "jobs alerts": partial(insight, load_set(None).rules),
        "jobs costs": costs,
        "simulate": fleet,
    }
