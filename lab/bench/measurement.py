"""Measurements as commands: their options, what is printed, and a result that can be compared later.

A result is kept with the machine, the versions, the seed and the command beside its numbers.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from fleetpulse.commands.output import Result, answers, err, out, table
from fleetpulse.commands.progress import Progress
from fleetpulse.plan.size import TABLE
from lab.bench import sizing

RESULTS = Path("lab") / "bench" / "results"
_FOLDERS = ("--data-dir", "--results")
_PACKAGES = ("aiokafka", "chdb-core", "clickhouse-connect", "faust-streaming", "numba", "numpy", "orjson")

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where the local stack lives; the bench uses bench/ below it.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the bench's Kafka and ClickHouse running.")]
Seed = Annotated[int, typer.Option(help="Same seed, same events.")]
Results = Annotated[
    Path | None, typer.Option("--results", help="Folder for the result. Default: lab/bench/results of a checkout.")
]
Rows = Iterable[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a measurement found: ``result`` is kept as ``name``, ``tables`` (title, columns, rows) and ``lines`` are for
    people, ``wrong`` lists what ends the command with exit code 1, by what is wrong with it."""

    name: str
    result: dict[str, Any]
    tables: Sequence[tuple[str, Sequence[str], Rows]] = ()
    lines: Sequence[str] = ()
    wrong: Mapping[str, Sequence[str]] = field(default_factory=dict)


def measurement(measure: Callable[..., Measured | None]) -> Callable[..., None]:
    """The command of a measurement: its options but ``progress``, then ``--seed``, ``--results`` and ``--json``.

    ``measure`` takes them and ``seed``; None says that there is nothing to keep yet.
    """
    given = inspect.signature(measure, eval_str=True).parameters
    options = {
        name: one.replace(kind=one.KEYWORD_ONLY) for name, one in given.items() if name not in ("progress", "seed")
    }
    shared = {"seed": (Seed, 1), "results": (Results, None)}
    options |= {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in shared.items()
    }

    @functools.wraps(measure)
    def command(*, seed: int, results: Path | None, **own: Any) -> Result | None:
        with Progress() as progress:
            measured = measure(progress=progress, seed=seed, **own)
        return None if measured is None else finish(measured, seed, results)

    vars(command)["__signature__"] = inspect.Signature(list(options.values()))
    return answers(command)


def finish(measured: Measured, seed: int, results: Path | None) -> Result:
    """Keep a result with what it depends on."""
    whole = {"measurement": measured.name, **surroundings(seed), **measured.result}
    kept = keep(measured.name, whole, results)
    if kept is not None:
        err.print(f"kept in {kept}", style="dim", highlight=False)

    def show() -> None:
        for one in measured.tables:
            out.print(table(*one))
        for line in measured.lines:
            out.print(line, highlight=False, markup=False)

    return Result(
        plain(whole), show, "\n".join(f"{what}: {', '.join(names)}" for what, names in measured.wrong.items() if names)
    )


def surroundings(seed: int) -> dict[str, Any]:
    """What a number depends on beside the code."""
    import psutil

    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_of(sys.argv[1:]),
        "seed": seed,
        "commit": _commit(),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": psutil.virtual_memory().total,
            "kernel": platform.release(),
            "load_1m": round(os.getloadavg()[0], 2),
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def command_of(arguments: Sequence[str]) -> str:
    """The command as another machine would give it: without the folders of this one."""
    kept, left = [], iter(arguments)
    for one in left:
        if one in _FOLDERS:
            next(left, None)
        elif not one.startswith(tuple(f"{name}=" for name in _FOLDERS)):
            kept.append(one)
    return " ".join(("fleetpulse", *kept))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, all the way down; keys as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _key(key: Any) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def keep(name: str, result: dict[str, Any], folder: Path | None) -> Path | None:
    """Write a result to ``folder`` (None: ``lab/bench/results`` of a checkout, elsewhere nothing is kept)."""
    if folder is None and not RESULTS.parent.is_dir():
        return None
    of_checkout, folder = folder is None, folder or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_bytes(orjson.dumps(plain(result), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    if of_checkout and name in sizing.SOURCES:
        sizing.write(folder, TABLE)
    return path
