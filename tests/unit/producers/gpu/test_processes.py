from __future__ import annotations

import threading
import time
from pathlib import Path

import pynvml
import pytest

from producers.collector import Identity
from producers.gpu.collector import GpuProcessCollector
from producers.gpu.library import DriverGoneError
from producers.gpu.processes import PROCESSES_MAX, ProcessReader, mean_by_pid
from schemas.codec.build import block_from_rows
from schemas.errors import UnavailableError
from schemas.events.machine_events import GPU_PROCESSES
from tests.fake_nvml import Error, FakeNvml, gpus_of, installed, mig
from tests.unit.producers.gpu.conftest import LABELS

ID = "0123456789abcdef" * 4
UID = "1f3bd2c5-7c1e-4a76-9f0a-5f4f8f6a1b2c"
GIB = 2**30


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """/proc of a host with an engine in a pod (41) and a process whose name is no text (42)."""
    for pid, comm, cgroup in ((41, b"vllm\n", f"0::/kubepods/pod{UID}/{ID}\n"), (42, b"\xff\xfe\n", "0::/\n")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_bytes(comm)
        (tmp_path / str(pid) / "cgroup").write_text(cgroup)
    return tmp_path


def test_a_process_has_its_name_memory_container_and_pod(proc: Path) -> None:
    """One that is gone, or in a namespace that is not ours, has its id and its memory."""
    gpus = gpus_of("mock_h100", 2)
    gpus[0].processes = [(41, 70 * GIB), (42, GIB), (43, pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value)]
    gpus[0].process_samples = [(41, 1_000, 90), (41, 2_000, 81), (42, 2_000, 0), (99, 2_000, 5)]
    about = {"at_ms": 5, "origin": "measured", **LABELS, "engine_id": "engine-7", "gpu_uuid": gpus[0].uuid}

    with installed(FakeNvml(gpus)):
        rows = ProcessReader(proc).rows(5, LABELS, {gpus[0].uuid: {"engine_id": "engine-7"}})

    assert rows == [
        about
        | {
            "pid": 41,
            "memory_bytes": 70 * GIB,
            "sm_util_pct": 86,
            "process_name": "vllm",
            "container_id": ID,
            "pod_uid": UID,
        },
        about
        | {
            "pid": 42,
            "memory_bytes": GIB,
            "sm_util_pct": 0,
            "process_name": "\ufffd\ufffd",
            "container_id": None,
            "pod_uid": None,
        },
        about
        | {
            "pid": 43,
            "memory_bytes": None,
            "sm_util_pct": None,
            "process_name": None,
            "container_id": None,
            "pod_uid": None,
        },
    ]
    assert block_from_rows(GPU_PROCESSES.fields, rows).rows == 3


def test_a_gpu_without_processes_costs_one_call(proc: Path) -> None:
    """Utilization is read where there are processes."""
    (gpu,) = gpus_of("mock_h100")
    gpu.process_samples = [(41, 1_000, 90)]

    with installed(FakeNvml([gpu])):
        assert ProcessReader(proc).rows(5, LABELS, {}) == []

    assert "nvmlDeviceGetProcessUtilization" not in gpu.called


def test_processes_of_an_instance_stand_with_the_instance(proc: Path) -> None:
    """In the place of its GPU, and without utilisation: the driver has none."""
    (gpu,) = gpus_of("mock_h100")
    mig(gpu, "1g.10gb")
    gpu.instances[0].processes = gpu.processes = [(41, GIB)]

    with installed(FakeNvml([gpu])):
        rows = ProcessReader(proc).rows(5, LABELS, {gpu.uuid: {"workload": "inference"}})

    assert [(row["gpu_uuid"], row["pid"], row["sm_util_pct"], row["workload"]) for row in rows] == [
        ("MIG-00000000-0", 41, None, "inference")
    ]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_SUPPORTED])
def test_a_gpu_that_tells_nothing_costs_no_other(proc: Path, code: int) -> None:
    """Lost, or not supported."""
    bad, good = gpus_of("mock_h100", 2)
    good.processes = [(41, GIB)]
    with installed(FakeNvml([bad, good])):
        reader = ProcessReader(proc)
        bad.calls["nvmlDeviceGetMigMode"] = Error(code)
        bad.lost = code if code == pynvml.NVML_ERROR_GPU_IS_LOST else 0

        assert [row["gpu_uuid"] for row in reader.rows(5, LABELS, {})] == [good.uuid]


def test_a_driver_that_is_gone_ends_the_reading(proc: Path) -> None:
    """The agent makes a new one, after a rest."""
    library = FakeNvml(list(gpus_of("mock_h100")))
    with installed(library):
        reader = ProcessReader(proc)
        library.gone = pynvml.NVML_ERROR_UNINITIALIZED
        with pytest.raises(DriverGoneError):
            reader.rows(5, LABELS, {})


def test_more_processes_than_the_limit_are_left_out(proc: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And that is logged."""
    (gpu,) = gpus_of("mock_h100")
    gpu.processes = [(pid, GIB) for pid in range(1_000, 1_001 + PROCESSES_MAX)]

    with installed(FakeNvml([gpu])):
        rows = ProcessReader(proc).rows(5, LABELS, {})

    assert len(rows) == PROCESSES_MAX
    assert [record.message for record in caplog.records] == ["too many processes on a GPU; the rest is not reported"]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], {}),
        ([(1, 100), (1, 0), (2, 33)], {1: 50, 2: 33}),
        ([(1, 101), (1, 20), (2, 4_294_967_295)], {1: 20}),
    ],
    ids=["none", "means", "nonsense of the driver"],
)
def test_utilisation_is_the_mean_of_samples(samples: list[tuple[int, int]], expected: dict[int, int]) -> None:
    """By process."""
    assert mean_by_pid(samples) == expected


def test_on_a_shared_gpu_each_process_stands_under_its_own_engine() -> None:
    """The GPU's place names none; a process that nobody knows has none, and all have the group."""
    (gpu,) = gpus_of("mock_h100")
    gpu.processes = [(41, 30 * GIB), (42, 10 * GIB), (43, GIB)]
    place = {gpu.uuid: {"engine_id": None, "placement_group": "one+two", "workload": "inference"}}
    with installed(FakeNvml([gpu])):
        collector = GpuProcessCollector(Identity(LABELS, place, {41: "one", 42: "two"}.get), 10_000)
        (collected,) = collector.collect(7_000)
        collector.close()

    assert [(row["engine_id"], row["placement_group"], row["memory_bytes"]) for row in collected.rows] == [
        ("one", "one+two", 30 * GIB),
        ("two", "one+two", 10 * GIB),
        (None, "one+two", GIB),
    ]


def test_the_collector_gives_rows_of_its_event() -> None:
    """At its slow period."""
    (gpu,) = gpus_of("mock_h100")
    gpu.processes = [(2**22, GIB)]
    with installed(FakeNvml([gpu])):
        collector = GpuProcessCollector(Identity(LABELS, {}), 30_000)
        (collected,) = collector.collect(7_000)
        collector.close()

    assert (collector.name, collector.period_ms) == ("gpu_processes", 30_000)
    assert collected.event is GPU_PROCESSES
    assert [(row["at_ms"], row["pid"]) for row in collected.rows] == [(7_000, 2**22)]


def test_without_a_driver_there_is_no_collector() -> None:
    """The agent's probe says so."""
    library = FakeNvml([])
    library.init = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with installed(library), pytest.raises(UnavailableError):
        GpuProcessCollector(Identity(LABELS, {}), 30_000)


def test_a_gpu_that_hangs_is_left_out(proc: Path) -> None:
    """The others are read; it is again when the call has returned."""
    hangs, fine = gpus_of("mock_h100", 2)
    for gpu in (hangs, fine):
        gpu.processes = [(41, GIB)]
    with installed(FakeNvml([hangs, fine])):
        reader = ProcessReader(proc, limit_s=0.3)
        release = hangs.hangs = threading.Event()
        seen = [[row["gpu_uuid"] for row in reader.rows(5, LABELS, {})] for _ in range(2)]
        hangs.hangs = None
        release.set()
        while len(rows := reader.rows(6, LABELS, {})) < 2:
            time.sleep(0.01)
        reader.close()

    assert seen == [[fine.uuid], [fine.uuid]]
    assert [row["gpu_uuid"] for row in rows] == [hangs.uuid, fine.uuid]
