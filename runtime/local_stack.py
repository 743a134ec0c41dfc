"""The file ``stack.json`` in the data folder: ports and passwords of a running local stack.

``fleetpulse.stack`` writes it; every process reads it with its configuration. It is written whole (a new
file renamed over the old one) and readable by its owner alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runtime.live_process import Process
from schemas.errors import StackError

FILE_NAME = "stack.json"
WRITER = "fleetpulse"
READER = "reader"
DATABASE = "fleetpulse"
CLUSTER = "fleetpulse"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports on the loopback interface."""

    kafka: int
    kafka_controller: int
    clickhouse_http: int
    clickhouse_native: int


@dataclass(frozen=True, slots=True)
class StackState:
    """``wanted`` stays true from ``up`` to ``down``, also while a part is dead and waits for its restart. Node 1 has
    ``ports``, those behind it have ``further``; the first ``brokers`` of them run Kafka, the first ``shards``
    ClickHouse."""

    data_dir: Path
    cluster_id: str
    ports: Ports
    writer_password: str = field(repr=False)
    reader_password: str = field(repr=False)
    wanted: bool = False
    processes: Mapping[str, Process] = field(default_factory=dict)
    brokers: int = 1
    shards: int = 1
    further: tuple[Ports, ...] = ()

    @property
    def nodes(self) -> tuple[Ports, ...]:
        """Ports of every node, the first one's first."""
        return (self.ports, *self.further)

    @property
    def kafka_bootstrap(self) -> str:
        """``host:port`` for Kafka clients, of every broker."""
        return ",".join(f"127.0.0.1:{ports.kafka}" for ports in self.nodes[: self.brokers])

    @property
    def clickhouse_urls(self) -> tuple[str, ...]:
        """Base address of the HTTP interface of every ClickHouse server."""
        return tuple(f"http://127.0.0.1:{ports.clickhouse_http}" for ports in self.nodes[: self.shards])

    @property
    def clickhouse_url(self) -> str:
        """The first of them."""
        return self.clickhouse_urls[0]

    @property
    def clickhouse_cluster(self) -> str:
        """Name of the servers in ``remote_servers``; empty where there is one."""
        return CLUSTER if self.shards > 1 else ""


def node_name(part: str, number: int) -> str:
    """Of a node's part, and of its folder: ``kafka``, ``kafka-2``."""
    return part if number == 1 else f"{part}-{number}"


def default_data_dir(environment: Mapping[str, str], here: Path) -> Path:
    """Where the stack lives: ``FLEETPULSE_DATA_DIR``, else ``data_dir_of(here)``, else the user's data folder."""
    if given := environment.get("FLEETPULSE_DATA_DIR"):
        return Path(given).expanduser().absolute()
    return data_dir_of(here) or _data_dir_of_user(environment)


def data_dir_of(here: Path) -> Path | None:
    """``.fleetpulse`` in ``here`` when it exists or ``here`` is a checkout of the project; None elsewhere."""
    local = here / ".fleetpulse"
    return local.absolute() if local.is_dir() or _is_checkout(here) else None


def _data_dir_of_user(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "fleetpulse"


def _is_checkout(folder: Path) -> bool:
    project = folder / "pyproject.toml"
    return project.is_file() and 'name = "fleetpulse"' in project.read_text(encoding="utf-8", errors="replace")


def is_wanted(data_dir: Path) -> bool:
    """Whether the stack in ``data_dir`` was started and not stopped since. Raises as ``read_state``."""
    state = read_state(data_dir)
    return state is not None and state.wanted


def read_state(data_dir: Path) -> StackState | None:
    """The state of the stack in ``data_dir``; None when there never was one, or none of this user's."""
    path = data_dir / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        raise StackError(f"{path} cannot be read: {error}") from error
    try:
        return _decode(json.loads(text), data_dir)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackError(f"{path} is not a state file of this version ({error}); move {data_dir} away") from error


def _decode(raw: dict[str, object], data_dir: Path) -> StackState:
    if raw.pop("version") != _VERSION:
        raise ValueError("version")
    ports, processes, further = raw.pop("ports"), raw.pop("processes"), raw.pop("further", [])
    if not isinstance(ports, dict) or not isinstance(processes, dict) or not isinstance(further, list):
        raise TypeError("ports and processes must be objects, further a list")
    return StackState(
        data_dir=data_dir,
        ports=Ports(**ports),
        further=tuple(Ports(**one) for one in further),
        processes={name: Process(**process) for name, process in processes.items()},
        **raw,  # type: ignore[arg-type]
    )


def write_state(state: StackState) -> None:
    """Replace ``stack.json`` in one step; a reader sees the old state or the new one, never half of it."""
    raw = asdict(state)
    del raw["data_dir"]  # the folder may be moved
    if not state.further:  # processes of 0.1.0 read it too
        del raw["brokers"], raw["shards"], raw["further"]
    path = state.data_dir / FILE_NAME
    fresh = path.with_suffix(f".{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, **raw}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
