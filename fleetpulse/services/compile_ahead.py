"""Compiling ahead of time: what the jobs (and installed extensions) compile, into numba's cache on disk.

A job compiles when it first starts on a machine, for a minute and more; with a filled cache it loads in a second. An
image, a test session and a first demonstration fill it beforehand. The cache is where ``NUMBA_CACHE_DIR`` says, else
beside the modules; it holds for one kind of processor (``NUMBA_CPU_NAME``). numba takes no folder that it cannot write
to: an image, which nobody may write, names its filled cache in ``FLEETPULSE_COMPILED``, and ``provide`` copies that.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from fleetpulse.extensions import extensions

COMPILED = "FLEETPULSE_COMPILED"
CACHE = "NUMBA_CACHE_DIR"


def parts() -> dict[str, Callable[[], None]]:
    """What there is to compile, by who needs it; called, each compiles or loads its own."""
    from stream_jobs.costs.warm import warm as costs
    from stream_jobs.finals.warm import warm as finals
    from stream_jobs.insight.warm import warm as insight
    from stream_jobs.rules.load import load_set
    from stream_jobs.windows.warm import warm as windows

    found: dict[str, Callable[[], None]] = {
        "jobs windows": windows,
        "jobs finals": finals,
        "jobs alerts": partial(insight, load_set(None).rules, whole=True),
        "jobs costs": costs,
    }
    for extension in extensions():
        found |= extension.compiled()
    return found


def group_of(part: str) -> str:
    """The group of a part: parts of one group share loops, so that one process compiles them; groups share none."""
    return part.split()[0]


def has_loops(package: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether numba's cache holds loops of a package: by names of files, importing nothing, so they may be stale."""
    found = find_spec(package)
    beside = [] if found is None else found.submodule_search_locations or []
    folders = [environment[CACHE]] if environment.get(CACHE) else beside
    return any(True for folder in folders for _ in Path(folder).rglob("*.nbi"))


def provide(environment: Mapping[str, str] = os.environ) -> None:
    """Copy the image's compiled loops (some 15 MB) to where numba looks for them, unless something is there. Call it
    before a module with compiled loops is imported. Without them, or without room, the process compiles for itself."""
    made, wanted = environment.get(COMPILED), environment.get(CACHE)
    if not made or not wanted or not Path(made).is_dir() or Path(wanted).exists():
        return
    with contextlib.suppress(OSError):  # another process was first, or the disk is full
        Path(wanted).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=Path(wanted).parent) as beside:
            copied = Path(beside) / "compiled"
            shutil.copytree(made, copied)
            copied.rename(wanted)
