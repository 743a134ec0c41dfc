"""Processes of serving engines and of jobs on this host: rows of ``host.processes``.

Whose a process is, the registry of engines knows: the one that listens on an engine's port and all it started (API
server, tokenizer, one worker per GPU).

``cpu_thread_max_ppm`` is what finds a GPU that starves: an engine's scheduler is one thread. Reading every thread costs
the most, so threads are looked at while their process uses a tenth of a processor or more; else the field is null.
Files of other users' processes: ``stat`` is everyone's, ``io`` needs ``CAP_SYS_PTRACE``.

Formats: Linux, Documentation/filesystems/proc.rst. Parsers are pure.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from producers.collector import Collected, FieldErrors, Identity, Row
from producers.differences import INTERVAL_MS_MAX, since
from producers.gpu.cgroup import Container, container_of
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import HOST_PROCESSES

_log = logging.getLogger(__name__)

PROC = "/proc"
THREADS_FROM_PPM = 100_000
_FILE_BYTES_MAX = 64 * 1024
_TICKS_PER_S, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_PPM = 1_000_000

Owner = Mapping[str, str | None]
"""engine_id, placement_group and workload of a process."""


@dataclass(frozen=True, slots=True)
class Stat:
    """``started``: when, in ticks since the machine began; a pid that is used again has another."""

    name: str
    cpu_s: float
    threads: int
    started: int
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """Of one process; ``moment_ms`` is monotonic. ``threads_s``: processor time by thread; None: not looked at."""

    moment_ms: int
    stat: Stat
    read_bytes: int | None = None
    write_bytes: int | None = None
    threads_s: Mapping[str, float] | None = None


def stat_of(text: bytes) -> Stat:
    """From ``/proc/PID/stat``, or a thread's. The name is in parentheses and may hold some. ValueError otherwise."""
    end = text.rindex(b")")
    columns = text[end + 2 :].split(None, 22)  # numbered from 3 on in proc.rst
    return Stat(
        name=text[text.index(b"(") + 1 : end].decode(errors="replace"),
        cpu_s=(int(columns[11]) + int(columns[12])) / _TICKS_PER_S,
        threads=int(columns[17]),
        started=int(columns[19]),
        rss_bytes=int(columns[21]) * _PAGE,
    )


def io_of(text: bytes) -> tuple[int, int]:
    """What was read from disks and written to them, from ``/proc/PID/io``. ValueError otherwise."""
    counts = dict(line.split(b": ") for line in text.splitlines())
    try:
        return int(counts[b"read_bytes"]), int(counts[b"write_bytes"])
    except KeyError as error:
        raise ValueError("no such counts") from error


def title_of(name: str, command: bytes) -> str:
    """The name of a process: the kernel keeps 15 characters of one that the program gave itself, whose whole stands
    where its arguments were (``VLLM::Worker_TP0``)."""
    first = command.replace(b"\0", b" ").split(b" ")[0].decode(errors="replace")
    return first if first.startswith(name) else name


def cpu_ppm(before: ProcessReading | None, now: ProcessReading) -> int | None:
    """Of one processor, above a million where several work. None without a reading of the same process before."""
    if before is None or before.stat.started != now.stat.started:
        return None
    interval_ms = now.moment_ms - before.moment_ms
    if not 0 < interval_ms <= INTERVAL_MS_MAX:
        return None
    return round(max(0.0, now.stat.cpu_s - before.stat.cpu_s) * 1_000 * _PPM / interval_ms)


def process_row(before: ProcessReading | None, now: ProcessReading) -> dict[str, int | None]:
    """The numbers of a row. Pure."""
    row: dict[str, int | None] = {"memory_rss_bytes": now.stat.rss_bytes}
    used_ppm = cpu_ppm(before, now)
    if before is None or used_ppm is None:
        return row
    return row | {
        "interval_ms": now.moment_ms - before.moment_ms,
        "cpu_ppm": used_ppm,
        "cpu_thread_max_ppm": used_ppm if now.stat.threads == 1 else _busiest_ppm(before, now),
        "read_bytes": since(before.read_bytes, now.read_bytes),
        "write_bytes": since(before.write_bytes, now.write_bytes),
    }


def _busiest_ppm(before: ProcessReading, now: ProcessReading) -> int | None:
    """A thread that was not there before has begun since."""
    was = before.threads_s
    if was is None or not now.threads_s:
        return None
    busiest_s = max(spent_s - was.get(thread, 0.0) for thread, spent_s in now.threads_s.items())
    # The kernel counts in hundredths of a second: a thread that never rests may seem to use more than all the time.
    return min(_PPM, round(max(0.0, busiest_s) * 1_000 * _PPM / (now.moment_ms - before.moment_ms)))


@dataclass(slots=True)
class _Known:
    """A process between two readings. ``foreign``: its pid is another's since the owners were set."""

    owner: Owner
    reading: ProcessReading
    title: str
    container: Container
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """As in the section ``agent``."""

    processes_max: int = 256
    threads_max: int = 512


@dataclass(slots=True)
class HostProcesses:
    """The collector. ``owners``: whose each process is, by pid; a new mapping whenever processes were looked at."""

    identity: Identity
    period_ms: int
    owners: Callable[[], Mapping[int, Owner]]
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    proc: str = PROC
    clock: Clock = field(default_factory=SystemClock)
    counters: Counters = field(default_factory=lambda: COUNTERS)
    name: str = "host_processes"
    _errors: FieldErrors = field(init=False)
    _known: dict[int, _Known] = field(init=False, default_factory=dict)
    _of: Mapping[int, Owner] | None = field(init=False, default=None)
    _warned: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._errors = FieldErrors(self.name, HOST_PROCESSES, self.counters)

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """A row for each process that is there."""
        owners = self.owners()
        looked_anew, self._of = owners is not self._of, owners
        pids = self._bounded(sorted(owners))
        rows = [row for pid in pids for row in self._row(at_ms, pid, owners[pid], looked_anew)]
        self._known = {pid: self._known[pid] for pid in pids if pid in self._known}
        return [Collected(HOST_PROCESSES, rows)] if rows else []

    def close(self) -> None:
        """Nothing is held open."""

    def _bounded(self, pids: list[int]) -> list[int]:
        most = self.limits.processes_max
        if len(pids) > most:
            self._errors.count("too many processes", len(pids) - most)
            if not self._warned:
                self._warned = True
                facts = {"processes": len(pids), "kept": most, "setting": "agent.processes_max"}
                _log.warning("too many processes of engines and jobs; the rest is not reported", extra=facts)
        return pids[:most]

    def _row(self, at_ms: int, pid: int, owner: Owner, looked_anew: bool) -> Iterator[Row]:
        """None for a process that has ended, or whose pid went to another since the owners were set."""
        before = self._known.get(pid)
        try:
            now = self._read(pid, before.reading if before else None)
        except (OSError, ValueError, IndexError):
            self._known.pop(pid, None)
            return
        same = before is not None and before.reading.stat.started == now.stat.started
        if before is not None and not same:
            before.foreign = True
        if before is not None and before.foreign and not looked_anew:
            return
        known = self._take(pid, owner, now, before if same else None)
        row = self._errors.checked(process_row(before.reading if before is not None and same else None, now))
        identity = dict(self.identity.labels) | dict(known.owner) | self.identity.pod_of(known.container.pod_uid)
        about = {"origin": "measured", "pid": pid, "process_name": known.title}
        inside = {"container_id": known.container.container_id, "pod_uid": known.container.pod_uid}
        self._known[pid] = known
        yield {"at_ms": at_ms, **identity, **about, **inside, **row}

    def _take(self, pid: int, owner: Owner, now: ProcessReading, before: _Known | None) -> _Known:
        """What does not change is read once; the name again when it did."""
        if before is None:
            cgroup = self._text(f"{pid}/cgroup") or b""
            return _Known(owner, now, self._title(pid, now), container_of(cgroup.decode(errors="replace")))
        renamed = before.reading.stat.name != now.stat.name
        return _Known(owner, now, self._title(pid, now) if renamed else before.title, before.container)

    def _title(self, pid: int, now: ProcessReading) -> str:
        return title_of(now.stat.name, self._text(f"{pid}/cmdline") or b"")

    def _read(self, pid: int, before: ProcessReading | None) -> ProcessReading:
        text = self._text(f"{pid}/stat")
        if text is None:
            raise ProcessLookupError(pid)
        now = ProcessReading(round(self.clock.monotonic_s() * 1_000), stat_of(text), *self._io(pid))
        busy = (cpu_ppm(before, now) or 0) >= THREADS_FROM_PPM
        if not busy or now.stat.threads <= 1:
            return now
        return ProcessReading(now.moment_ms, now.stat, now.read_bytes, now.write_bytes, self._threads_s(pid, now.stat))

    def _io(self, pid: int) -> tuple[int | None, int | None]:
        text = self._text(f"{pid}/io")
        return (None, None) if text is None else io_of(text)

    def _threads_s(self, pid: int, stat: Stat) -> dict[str, float] | None:
        """By thread id; None where there are too many: the busiest may be any of them."""
        if stat.threads > self.limits.threads_max:
            self._errors.count("too many threads")
            return None
        with os.scandir(f"{self.proc}/{pid}/task") as entries:
            texts = {entry.name: self._text(f"{pid}/task/{entry.name}/stat") for entry in entries}
        return {thread: stat_of(text).cpu_s for thread, text in texts.items() if text is not None}

    def _text(self, name: str) -> bytes | None:
        """None when the process is gone or another user's."""
        try:
            descriptor = os.open(f"{self.proc}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(descriptor, _FILE_BYTES_MAX)
        except OSError:
            return None
        finally:
            os.close(descriptor)
