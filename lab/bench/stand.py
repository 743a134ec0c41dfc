"""The bench's own stack: a Kafka and a ClickHouse beside the one you work with, with nothing else in them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from fleetpulse import stack
from fleetpulse.migrate.bring_up import bring_up, demand_local
from fleetpulse.stack.ports import free_ports
from runtime.config import Config, load
from runtime.local_stack import is_wanted, read_state
from schemas.contract.topics import BY_NAME, state_topic
from schemas.errors import FleetpulseError

Say = Callable[[str], None]
FOLDER = "bench"
_PARTITIONS = "FLEETPULSE_PARTITIONS"
OUTPUTS = ("window.partials", "books", "rejected")
_given: set[int] = set()


@dataclass(frozen=True, slots=True)
class Stand:
    """A running stack: its configuration and the process ids of its two servers."""

    config: Config
    data_dir: Path
    clickhouse_pid: int
    kafka_pid: int

    @property
    def environment(self) -> dict[str, str]:
        """With it a child finds this stack."""
        return {"FLEETPULSE_DATA_DIR": str(self.data_dir)}

    @property
    def log_dir(self) -> Path:
        """Where children of the bench write their logs."""
        folder = self.data_dir / "bench-log"
        folder.mkdir(exist_ok=True)
        return folder


@contextlib.contextmanager
def stand(data_dir: Path | None, say: Say, *, keep: bool = False) -> Iterator[Stand]:
    """The stack, started where it does not run, and stopped again if it was started here (unless ``keep``)."""
    folder = load({"data_dir": data_dir}).data_dir / FOLDER
    demand_local(folder)
    ran = is_wanted(folder)
    try:
        stack.up(folder, on_progress=say)
        yield _found(folder)
    finally:
        if not (ran or keep):
            say("stopping Kafka and ClickHouse")
            stack.down(folder)


@contextlib.contextmanager
def fresh_stand(
    data_dir: Path | None,
    say: Say,
    *,
    folder: str = "bench-fresh",
    keep: bool = False,
    kept: bool = False,
    partitions: Mapping[str, int] | None = None,
) -> Iterator[Stand]:
    """A stack with topics and tables that never ran before, removed at the end. ``keep`` leaves its files (its servers
    stop), ``kept`` begins with those left before; ``FleetpulseError`` where there are none. ``partitions`` are other
    counts than the contract's, for children too."""
    own = load({"data_dir": data_dir}).data_dir / folder
    stack.down(own)
    if kept and not own.exists():
        raise FleetpulseError(f"nothing was kept in {own}: fill it with --keep first")
    if not kept:
        shutil.rmtree(own, ignore_errors=True)
    given = {} if partitions is None else {_PARTITIONS: orjson.dumps(dict(partitions)).decode()}
    try:
        with _environment(given):
            bring_up(own, say)
            yield _found(own)
    finally:
        say("stopping Kafka and ClickHouse")
        stack.down(own)
        if not keep:
            shutil.rmtree(own, ignore_errors=True)


@contextlib.contextmanager
def _environment(given: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _found(folder: Path) -> Stand:
    state = read_state(folder)
    if state is None or not {stack.KAFKA, stack.CLICKHOUSE} <= set(state.processes):
        raise FleetpulseError(f"the bench's stack in {folder} does not run")
    config = load({"data_dir": folder})
    clickhouse, kafka = state.processes[stack.CLICKHOUSE], state.processes[stack.KAFKA]
    return Stand(config, folder, clickhouse.pid, kafka.pid)


def until(holds: Callable[[], object], within_s: float, failure: Callable[[], str], every_s: float = 0.2) -> None:
    """Wait until it holds, and raise FleetpulseError with ``failure`` where that takes too long."""
    end_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end_s:
            raise FleetpulseError(failure())
        time.sleep(every_s)


def free_port() -> int:
    """A port of the loopback that nobody listens on now, and that nobody was given before: who was may be starting, or
    be gone for a while."""
    port = next(port for port in iter(_a_port, None) if port not in _given)
    _given.add(port)
    return port


def _a_port() -> int:
    return free_ports(1, start=secrets.randbelow(1 << 16))[0]


def page(port: int, path: str, within_s: float = 10.0) -> str:
    """A page that a process serves beside its health. Raises OSError where it does not; an HTTP error is one."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=within_s) as answer:
        return str(answer.read().decode())


def is_ready(port: int, within_s: float = 1.0) -> bool:
    """Whether the process whose health is there says that it is ready."""
    try:
        return bool(page(port, "readyz", within_s))
    except OSError:
        return False


def samples(metrics: str, name: str) -> list[Sample]:
    """One of our metrics in a page of them, by its labels; none where it is not there."""
    found = (sample for family in text_string_to_metric_families(metrics) for sample in family.samples)
    return [sample for sample in found if sample.name.removesuffix("_total") == f"fleetpulse_{name}"]


def metric(metrics: str, name: str) -> float:
    """Sum over labels of one of our metrics in a page of them; 0 where it is not there."""
    return sum(sample.value for sample in samples(metrics, name))


def partitions_of(sources: tuple[str, ...]) -> dict[str, int]:
    """Partitions of everything that the windows job of these source topics reads and writes."""
    names = [*sources, *(state_topic("windows", source) for source in sources), *OUTPUTS]
    return {name: BY_NAME[name].partitions for name in names}
