"""A tree of files in the format of Documentation/filesystems/proc.rst (Linux), and this machine's own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from producers.collector import Identity
from producers.host.processes import (
    HostProcesses,
    Owner,
    ProcessLimits,
    ProcessReading,
    Stat,
    io_of,
    process_row,
    stat_of,
    title_of,
)
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.events.event_types import HOST_PROCESSES
from tests.virtual_clock import VirtualClock

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
OWNER: Owner = {"engine_id": "h:8000", "placement_group": "g", "workload": "inference"}
CONTAINER, POD = "c" * 64, "3b6a6b0e-51c5-4f0e-9d4c-6a2d3b1c0f11"
CGROUP = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n"


def stat_line(name: str, cpu_ticks: int, *, threads: int = 1, started: int = 7, pages: int = 3) -> str:
    """Columns as proc.rst numbers them; user time is a third of all."""
    user = cpu_ticks // 3
    return (
        f"42 ({name}) S 1 42 42 0 -1 4194560 1 2 3 4 {user} {cpu_ticks - user} 5 6 20 0 {threads} 0 {started} 9999"
        f" {pages} 18446744073709551615 1 1 0 0 0 0 0 16781312 17642 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    )


class Machine:
    """Processes below a folder, and the collector that reads them."""

    def __init__(self, root: Path, **limits: int) -> None:
        self.root = root
        self.clock = VirtualClock()
        self.counters = Counters()
        self.owners: Mapping[int, Owner] = {}
        identity = Identity({"host": "h"}, {}, pod_of=lambda uid: {"pod_name": "p-0"} if uid == POD else {})
        self.collector = HostProcesses(
            identity, 5_000, lambda: self.owners, ProcessLimits(**limits), str(root), self.clock, self.counters
        )

    def put(self, pid: int, stat: str, *, io: str | None = None, command: str = "", **threads: str) -> None:
        """A process and its threads, by ``tN``; without ``io`` it is another user's."""
        folder = self.root / str(pid)
        (folder / "task").mkdir(parents=True, exist_ok=True)
        texts = {"stat": stat, "cmdline": command, "cgroup": CGROUP} | ({} if io is None else {"io": io})
        for name, text in texts.items():
            (folder / name).write_text(text)
        for name, text in threads.items():
            (folder / "task" / name[1:]).mkdir(exist_ok=True)
            (folder / "task" / name[1:] / "stat").write_text(text)

    def rows(self, after_s: int = 5) -> list[dict[str, Any]]:
        """The next reading's."""
        self.clock.advance(after_s * 1_000)
        rows = [dict(row) for part in self.collector.collect(self.clock.now_ms()) for row in part.rows]
        assert block_from_rows(HOST_PROCESSES.fields, rows).rows == len(rows)
        return rows


def io(read: int, written: int) -> str:
    calls = "rchar: 9\nwchar: 9\nsyscr: 9\nsyscw: 9\n"
    return f"{calls}read_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n"


def test_a_process_is_read_as_the_kernel_writes_it() -> None:
    """A name may hold parentheses and spaces; what is cut or another file is no process."""
    assert stat_of(stat_line("a) S (b", 300, threads=5).encode()) == Stat("a) S (b", 300 / TICKS, 5, 7, 3 * PAGE)
    assert io_of(io(7, 9).encode()) == (7, 9)
    for text in (b"", b"42 (a) S 1"):
        with pytest.raises((ValueError, IndexError)):
            stat_of(text)
    with pytest.raises(ValueError, match="no such counts"):
        io_of(b"rchar: 9\n")


@pytest.mark.parametrize(
    ("name", "command", "title"),
    [
        ("VLLM::Worker_TP", b"VLLM::Worker_TP0\0\0\0", "VLLM::Worker_TP0"),
        ("sglang::schedul", b"sglang::scheduler_TP1 --x", "sglang::scheduler_TP1"),
        ("python3", b"/usr/bin/python3\0-m\0vllm", "python3"),
        ("python3", b"", "python3"),
    ],
)
def test_a_name_that_a_program_gave_itself_is_told_whole(name: str, command: bytes, title: str) -> None:
    """The kernel keeps fifteen characters; a path is no name."""
    assert title_of(name, command) == title


def test_what_a_process_used_since_the_reading_before() -> None:
    """Of one processor, and of the busiest thread, which is at most one; a thread that is new counts from its start."""
    before = ProcessReading(1_000, Stat("p", 10.0, 3, 7, 5), 100, 200, {"1": 4.0, "2": 6.0})
    now = ProcessReading(3_000, Stat("p", 13.0, 3, 7, 6), 150, 200, {"1": 4.5, "2": 6.1, "3": 2.02})

    assert process_row(None, now) == {"memory_rss_bytes": 6}
    assert process_row(before, now) == {
        "memory_rss_bytes": 6,
        "interval_ms": 2_000,
        "cpu_ppm": 1_500_000,
        "cpu_thread_max_ppm": 1_000_000,
        "read_bytes": 50,
        "write_bytes": 0,
    }


@pytest.mark.parametrize(
    "before",
    [
        ProcessReading(1_000, Stat("p", 1.0, 1, 6, 5)),
        ProcessReading(3_000, Stat("p", 1.0, 1, 7, 5)),
        ProcessReading(3_000 - 3_600_001, Stat("p", 1.0, 1, 7, 5)),
    ],
    ids=["another process of this id", "no time", "more than an hour"],
)
def test_nothing_is_compared_with_another_process_or_moment(before: ProcessReading) -> None:
    """Only what it holds now is known."""
    assert process_row(before, ProcessReading(3_000, Stat("p", 9.0, 1, 7, 5))) == {"memory_rss_bytes": 5}


def test_processes_of_engines_have_a_row_each(tmp_path: Path) -> None:
    """With whose they are and where they run; of one that is another user's what it reads and writes is unknown."""
    machine = Machine(tmp_path)
    machine.owners = {42: OWNER, 43: {**OWNER, "engine_id": None, "workload": "training"}, 44: OWNER}
    machine.put(42, stat_line("VLLM::EngineCor", 0), io=io(0, 0), command="VLLM::EngineCore")
    machine.put(43, stat_line("python", 0, pages=2))
    machine.rows()
    machine.put(42, stat_line("VLLM::EngineCor", 5 * TICKS // 2), io=io(10, 20), command="VLLM::EngineCore")

    common = {"host": "h", "placement_group": "g", "origin": "measured", "pod_name": "p-0"}
    inside = {"container_id": CONTAINER, "pod_uid": POD, "interval_ms": 5_000}
    assert machine.rows() == [
        common
        | inside
        | {
            "at_ms": machine.clock.now_ms(),
            "engine_id": "h:8000",
            "workload": "inference",
            "pid": 42,
            "process_name": "VLLM::EngineCore",
            "memory_rss_bytes": 3 * PAGE,
            "cpu_ppm": 500_000,
            "cpu_thread_max_ppm": 500_000,
            "read_bytes": 10,
            "write_bytes": 20,
        },
        common
        | inside
        | {
            "at_ms": machine.clock.now_ms(),
            "engine_id": None,
            "workload": "training",
            "pid": 43,
            "process_name": "python",
            "memory_rss_bytes": 2 * PAGE,
            "cpu_ppm": 0,
            "cpu_thread_max_ppm": 0,
            "read_bytes": None,
            "write_bytes": None,
        },
    ]


def test_threads_are_looked_at_while_their_process_works(tmp_path: Path) -> None:
    """Reading hundreds of them costs the most. From the second reading of them on the busiest is known."""
    machine = Machine(tmp_path)
    machine.owners = {42: OWNER}
    busiest = []
    for second, cpu_ticks in enumerate((0, 0, 6 * TICKS, 14 * TICKS, 14 * TICKS)):
        share = {f"t{thread}": stat_line("t", cpu_ticks * thread // 4) for thread in (1, 3)}
        machine.put(42, stat_line("server", cpu_ticks, threads=2), **share)
        busiest.append(next(iter(machine.rows())).get("cpu_thread_max_ppm", second))

    assert busiest == [0, None, None, 1_000_000, None]


def test_too_many_threads_have_no_busiest(tmp_path: Path) -> None:
    """It may be any of those that are not looked at; counted."""
    machine = Machine(tmp_path, threads_max=1)
    machine.owners = {42: OWNER}
    for cpu_ticks in (0, 5 * TICKS, 10 * TICKS):
        machine.put(42, stat_line("server", cpu_ticks, threads=2), t1=stat_line("t", cpu_ticks))
        (row,) = machine.rows()

    assert (row["cpu_ppm"], row["cpu_thread_max_ppm"]) == (1_000_000, None)
    assert machine.counters.value("sampler_errors", sampler="host_processes", field="too many threads") == 2


def test_too_many_processes_are_counted_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those with the lowest ids are reported."""
    machine = Machine(tmp_path, processes_max=2)
    machine.owners = dict.fromkeys((44, 42, 43), OWNER)
    for pid in machine.owners:
        machine.put(pid, stat_line("p", 0))

    assert [[row["pid"] for row in machine.rows()] for _ in range(2)] == [[42, 43], [42, 43]]
    assert machine.counters.value("sampler_errors", sampler="host_processes", field="too many processes") == 2
    assert [vars(record)["setting"] for record in caplog.records] == ["agent.processes_max"]


def test_an_id_that_is_used_again_is_nobody_s_until_processes_are_looked_at_again(tmp_path: Path) -> None:
    """An engine's process ended, and something else has its id."""
    machine = Machine(tmp_path)
    machine.owners = {42: OWNER}
    machine.put(42, stat_line("server", 0))
    machine.rows()
    machine.put(42, stat_line("bash", 0, started=8))
    seen = [len(machine.rows()), len(machine.rows())]
    machine.owners = {42: {**OWNER, "engine_id": "other"}}

    assert seen == [0, 0]
    assert [row["engine_id"] for row in machine.rows()] == ["other"]


def test_without_engines_nothing_is_read(tmp_path: Path) -> None:
    """A process that has ended has no row either."""
    machine = Machine(tmp_path)
    assert machine.rows() == []
    machine.owners = {42: OWNER}
    assert machine.rows() == []


def test_a_real_process_that_works_is_seen_working(tmp_path: Path) -> None:
    """As an independent reader sees it; its one thread is its busiest."""
    work = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()\n"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        machine = Machine(Path("/proc"))
        machine.owners = {process.pid: OWNER}
        assert process.stdout is not None
        process.stdout.readline()
        machine.rows()
        (row,) = machine.rows()
        used = psutil.Process(process.pid).cpu_times()
        stat = stat_of(Path(f"/proc/{process.pid}/stat").read_bytes())
        process.communicate(b"\n")

    assert row["process_name"].startswith("python")
    assert row["read_bytes"] == 0
    assert abs(stat.cpu_s - used.user - used.system) < 0.05
    assert stat.cpu_s >= 0.19
