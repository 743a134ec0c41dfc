"""Bring the local stack up and down, and one part of it for tests that kill.

A stack is all in its data folder: ``stack.json`` (ports, passwords, processes), ``kafka/``,
``clickhouse/`` and ``log/``. One ``up`` or ``down`` works on a folder at a time; each may be killed anywhere and run
again. What it started goes on running without it and is found again by process id and start, or, when it was killed
before it could note them, by the folder's name in the command line.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from fleetpulse.stack import clickhouse, daemons, java, kafka, kafka_jars, ports
from fleetpulse.stack.report import PartStatus, StackStatus, command_for
from runtime import priority
from runtime.file_lock import locked
from runtime.live_process import Process, alive
from runtime.local_stack import DATABASE, StackState, node_name, read_state, write_state
from runtime.stack_registry import register, unregister
from schemas.errors import StackError

KAFKA, CLICKHOUSE = kafka.NAME, clickhouse.NAME
DISK_FREE_BYTES_MIN = 1 << 30
READY_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0
LOCK_WITHIN_S = 600.0
NODES_MAX = 9
"""Brokers, or shards, of a stack."""
_PORT_TAKEN = "Address already in use"
_JAVA_CRASHED = "A fatal error has been detected by the Java Runtime Environment"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Part:
    """How one part is made, recognised and checked. ``prepare`` returns the command line; once it runs it steps back by
    ``nice`` (``runtime.priority``). ``mark`` and ``program``: as ``daemons.find`` takes them."""

    name: str
    mark: Callable[[Path], str]
    prepare: Callable[[StackState, Progress], list[str]]
    is_ready: Callable[[StackState], bool]
    finish: Callable[[StackState], object]
    ports: Callable[[StackState], tuple[int, ...]]
    address: Callable[[StackState], str]
    logs: Callable[[Path], Sequence[Path]]
    nice: int = 0
    program: str = ""

    def find(self, data_dir: Path) -> Process | None:
        """The part of the stack in this folder, where it runs."""
        return daemons.find(self.mark(data_dir), self.program)


def _kafka(number: int) -> _Part:
    def prepare(state: StackState, on_progress: Progress) -> list[str]:
        runtime = java.find_java(os.environ)
        cache = kafka_jars.cache_dir(os.environ, state.data_dir)
        jars = kafka_jars.jars(cache, on_progress)
        kafka.prepare(state, number)
        shared = kafka.sharing(state, kafka.class_archive(runtime, jars, cache), number)
        return kafka.command(state, runtime, jars, shared, number)

    name = node_name(KAFKA, number)
    return _Part(
        name,
        lambda data_dir: kafka.mark(data_dir, number),
        prepare,
        lambda state: kafka.is_ready(state.nodes[number - 1].kafka, number),
        lambda state: None,
        lambda state: (state.nodes[number - 1].kafka, state.nodes[number - 1].kafka_controller),
        lambda state: f"{ports.HOST}:{state.nodes[number - 1].kafka}",
        lambda data_dir: (data_dir / "log" / f"{name}.log",),
    )


def _clickhouse(number: int) -> _Part:
    def prepare(state: StackState, _on_progress: Progress) -> list[str]:
        line = clickhouse.command(state, number)
        clickhouse.prepare(state, number)
        return line

    return _Part(
        node_name(CLICKHOUSE, number),
        lambda data_dir: clickhouse.mark(data_dir, number),
        prepare,
        lambda state: clickhouse.is_ready(state.nodes[number - 1].clickhouse_http),
        lambda state: clickhouse.execute(state, f"CREATE DATABASE IF NOT EXISTS {DATABASE}", number),
        lambda state: (state.nodes[number - 1].clickhouse_http, state.nodes[number - 1].clickhouse_native),
        lambda state: state.clickhouse_urls[number - 1],
        lambda data_dir: clickhouse.log_files(data_dir, number),
        nice=priority.BEHIND,
        program=clickhouse.PROGRAM,
    )


def _parts(shards: int = 1, brokers: int = 1) -> dict[str, _Part]:
    found = [*map(_clickhouse, range(1, shards + 1)), *map(_kafka, range(1, brokers + 1))]
    return {part.name: part for part in found}


def parts_of(state: StackState) -> dict[str, _Part]:
    """The parts of a stack by name, in the order in which they start."""
    return _parts(state.shards, state.brokers)


def _silent(_text: str) -> None:
    """Progress for nobody."""


def up(
    data_dir: Path,
    *,
    on_progress: Progress = _silent,
    new_ports: bool = False,
    brokers: int | None = None,
    shards: int | None = None,
) -> StackState:
    """Start what does not run yet and return when all of it answers. ``new_ports`` chooses other ports for a stack
    that is down, and is refused where any part of it runs. ``brokers`` of Kafka and ``shards`` of ClickHouse are
    decided when a stack is made; None: as it is, or one. Raises StackError saying what to do; what runs by then goes
    on running."""
    data_dir = make_folder(data_dir)
    with _alone(data_dir, on_progress):
        state = _begin(data_dir, new_ports=new_ports, brokers=brokers, shards=shards)
        state = _start(state, tuple(parts_of(state)), on_progress)
        _register(data_dir, on_progress)
        return state


def _register(data_dir: Path, on_progress: Progress) -> None:
    try:
        register(data_dir, os.environ)
    except OSError as error:  # it runs, and is found from its own folder
        on_progress(f"commands in other folders need FLEETPULSE_DATA_DIR={data_dir} ({error})")


def start_part(data_dir: Path, part: str, *, on_progress: Progress = _silent) -> StackState:
    """Start one part again, with the ports and data it had, and wait until it answers."""
    data_dir = make_folder(data_dir)
    with _alone(data_dir, on_progress):
        return _start(_begin(data_dir), (part,), on_progress)


def signal_part(data_dir: Path, part: str, number: signal.Signals) -> bool:
    """Send a signal to one part; False when it was not running."""
    state = _known(make_folder(data_dir))
    process = _running(state, parts_of(state)[part])
    if process is not None:
        daemons.send(process, number)
    return process is not None


def kill(data_dir: Path, part: str) -> int | None:
    """SIGKILL one part (``KAFKA``, ``CLICKHOUSE`` or another of ``parts_of``) and return its process id; None when it
    was not running."""
    data_dir = make_folder(data_dir)
    with _alone(data_dir):
        state = _known(data_dir)
        process = _running(state, parts_of(state)[part])
        if process is None:
            return None
        daemons.kill(process)
        return process.pid


def down(data_dir: Path) -> None:
    """Stop all parts; data and passwords stay. A part that does not end in 30 s is killed (both survive that).
    Raises OSError where that cannot be noted, once nothing runs."""
    data_dir = data_dir.expanduser().absolute()
    if read_state(data_dir) is None:
        return
    with _alone(data_dir):
        state = replace(_known(data_dir), wanted=False)
        with contextlib.suppress(OSError):  # as of a full disk: the last line tells, once nothing runs
            write_state(state)
        unregister(data_dir, os.environ)
        found = {
            name: process for name, part in parts_of(state).items() if (process := _running(state, part)) is not None
        }
        for process in found.values():
            daemons.terminate(process)
        ended = {name: daemons.stop(process, STOP_WITHIN_S) for name, process in found.items()}
        if ended.get(KAFKA):
            kafka.keep_archive(state, kafka_jars.cache_dir(os.environ, data_dir))
        write_state(replace(state, processes={}))


def status(data_dir: Path) -> StackStatus:
    """What runs; asks every part that does. Changes nothing."""
    data_dir = data_dir.expanduser().absolute()
    state = read_state(data_dir)
    if state is None:
        return StackStatus(str(data_dir), False, tuple(_down(data_dir, part) for part in _parts().values()))
    found = tuple(_part_status(state, part) for part in parts_of(state).values())
    return StackStatus(str(data_dir), state.wanted, found)


def _down(data_dir: Path, part: _Part) -> PartStatus:
    return PartStatus(part.name, False, False, None, None, None, str(part.logs(data_dir)[0]))


def _part_status(state: StackState, part: _Part) -> PartStatus:
    process = state.processes.get(part.name)
    if process is None or not alive(process):
        return replace(_down(state.data_dir, part), address=part.address(state))
    memory_bytes = None
    with contextlib.suppress(psutil.Error):
        memory_bytes = psutil.Process(process.pid).memory_info().rss
    log = str(part.logs(state.data_dir)[0])
    return PartStatus(part.name, True, part.is_ready(state), process.pid, part.address(state), memory_bytes, log)


def make_folder(data_dir: Path) -> Path:
    """The folder of a stack, made where it is missing, for its owner alone. Raises StackError saying what to do."""
    folder = data_dir.expanduser().absolute()
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise StackError(f"{str(folder)!r}: the name of this folder is not UTF-8; choose another --data-dir") from None
    if ":" in str(folder):
        raise StackError(f"{folder}: Java cannot work in a folder with a colon in its name; choose another --data-dir")
    if "," in str(folder):
        raise StackError(f"{folder}: Kafka takes what follows a comma for another folder; choose another --data-dir")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "log").mkdir(exist_ok=True)
    except OSError as error:
        raise StackError(f"{folder} cannot be made ({error}); choose another --data-dir") from error
    return folder


@contextlib.contextmanager
def _alone(data_dir: Path, on_progress: Progress = _silent) -> Iterator[None]:
    descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end_s = time.monotonic() + LOCK_WITHIN_S
        while not locked(descriptor):
            on_progress(f"waiting for another fleetpulse at work in {data_dir}")
            if time.monotonic() > end_s:
                raise StackError(f"another fleetpulse has been at work in {data_dir} for {LOCK_WITHIN_S:.0f} s; end it")
            time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _begin(
    data_dir: Path, *, new_ports: bool = False, brokers: int | None = None, shards: int | None = None
) -> StackState:
    state = read_state(data_dir)
    if state is None:
        _end_leftovers(data_dir)
        brokers, shards = brokers or 1, shards or 1
        first, *further = ports.choose(data_dir, max(brokers, shards))
        state = StackState(
            data_dir=data_dir,
            cluster_id=base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).decode().rstrip("="),
            ports=first,
            writer_password=secrets.token_urlsafe(24),
            reader_password=secrets.token_urlsafe(24),
            brokers=brokers,
            shards=shards,
            further=tuple(further),
        )
    _demand_size(state, brokers, shards)
    if new_ports:
        _demand_down(state)
        first, *further = ports.choose(data_dir, len(state.nodes))
        state = replace(state, ports=first, further=tuple(further))
    write_state(state)
    return state


def _demand_down(state: StackState) -> None:
    if running := ", ".join(part.name for part in parts_of(state).values() if _running(state, part)):
        down_first = f"run `{command_for('down', state.data_dir)}` first"
        raise StackError(f"{running} of the stack in {state.data_dir} runs, on the ports that it has: {down_first}")


def _demand_size(state: StackState, brokers: int | None, shards: int | None) -> None:
    if brokers in (None, state.brokers) and shards in (None, state.shards):
        return
    raise StackError(
        f"the stack in {state.data_dir} has {state.brokers} brokers and {state.shards} shards, which is decided when it"
        " is made; make another: --data-dir"
    )


def _end_leftovers(data_dir: Path) -> None:
    """End what a folder's former stack left running when the folder was removed under it."""
    for part in _parts(NODES_MAX, NODES_MAX).values():
        if (process := part.find(data_dir)) is not None:
            daemons.kill(process)


def _known(data_dir: Path) -> StackState:
    state = read_state(data_dir)
    if state is None:
        raise StackError(f"there is no stack in {data_dir}; start one: {command_for('up', data_dir)}")
    return state


def _start(state: StackState, names: Sequence[str], on_progress: Progress) -> StackState:
    parts = [parts_of(state)[name] for name in names]
    for part in parts:
        state = _with(state, part, _running(state, part) or _spawn(state, part, on_progress))
    for part in parts:
        came_up = _came_up(state, part, on_progress)
        if not came_up and (why := _why_again(state, part)):
            on_progress(f"{why}: starting it again")
            state = _with(state, part, _spawn(state, part, on_progress))
            came_up = _came_up(state, part, on_progress)
        if not came_up:
            raise _not_up(state, part)
    return state


def _with(state: StackState, part: _Part, process: Process) -> StackState:
    state = replace(state, wanted=True, processes={**state.processes, part.name: process})
    write_state(state)
    return state


def _spawn(state: StackState, part: _Part, on_progress: Progress) -> Process:
    on_progress(f"starting {part.name}")
    _demand_disk(state.data_dir)
    ports.demand_free(part.ports(state), part.name, state.data_dir)
    return daemons.spawn(part.prepare(state, on_progress), _fresh_log(state.data_dir, part))


def _running(state: StackState, part: _Part) -> Process | None:
    process = state.processes.get(part.name)
    return process if alive(process) else part.find(state.data_dir)


def _demand_disk(data_dir: Path) -> None:
    free_bytes = shutil.disk_usage(data_dir).free
    if free_bytes < DISK_FREE_BYTES_MIN:
        raise StackError(
            f"the disk of {data_dir} has {free_bytes >> 20} MiB left, the stack needs {DISK_FREE_BYTES_MIN >> 20}: "
            "make room, or choose another --data-dir"
        )


def _fresh_log(data_dir: Path, part: _Part) -> Path:
    log = data_dir / "log" / f"{part.name}.log"
    if log.exists() and log.stat().st_size > 4 << 20:
        log.replace(log.with_suffix(".log.1"))
    return log


def _came_up(state: StackState, part: _Part, on_progress: Progress) -> bool:
    process = state.processes[part.name]
    on_progress(f"waiting for {part.name}")
    ready = daemons.wait_until(lambda: part.is_ready(state) or not alive(process), READY_WITHIN_S)
    if not (ready and alive(process)):
        return False
    part.finish(state)
    priority.step_back(process.pid, part.nice)
    return True


def _why_again(state: StackState, part: _Part) -> str | None:
    """What ended a part while it started and is gone by now; None where another start would end as well."""
    if _lost_a_port(state, part):
        return f"a port of {part.name} was taken for a moment"
    crashed = part.name == KAFKA and _JAVA_CRASHED in daemons.tail(part.logs(state.data_dir)[0], 40)
    if crashed and kafka.drop_archives(kafka_jars.cache_dir(os.environ, state.data_dir)):
        return "Java ended over the classes that an earlier broker has kept, which are removed"
    return None


def _lost_a_port(state: StackState, part: _Part) -> bool:
    """Whether the part ended because somebody had one of its ports, and has it no more: who looks for free ports, as
    another stack does when it is made, listens on each for a moment."""
    said = any(_PORT_TAKEN in daemons.tail(log) for log in part.logs(state.data_dir))
    return said and not alive(state.processes[part.name]) and all(map(ports.is_free, part.ports(state)))


def _not_up(state: StackState, part: _Part) -> StackError:
    said = "\n".join(text for log in part.logs(state.data_dir) if (text := daemons.tail(log)))
    living = alive(state.processes[part.name])
    what = f"does not answer after {READY_WITHIN_S:.0f} s" if living else "ended while starting"
    return StackError(f"{part.name} {what}; its logs are in {part.logs(state.data_dir)[0].parent}, the end:\n{said}")
