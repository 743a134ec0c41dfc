from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pynvml
import pytest

from producers.engines import processes
from producers.engines.processes import (
    COMMAND_CHARS_MAX,
    ProcessTable,
    command_of,
    first_processes,
    read_gpu_processes,
    read_listeners,
    read_parents,
    read_processes,
    sees_host_pids,
)
from producers.gpu.watchdog import Watchdog
from producers.identity.network import OURS
from tests import nvml_stub
from tests.fake_nvml import FakeNvml, gpus_of


def test_this_process_has_its_parent_and_its_command() -> None:
    """By the system's own table."""
    assert read_parents()[os.getpid()] == os.getppid()
    assert "python" in command_of(os.getpid())


def test_a_process_that_is_gone_has_no_command() -> None:
    """It ended between two looks."""
    assert command_of(2**22 + 1) == ""


def test_a_long_command_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training script can have a hundred kilobytes of arguments."""
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _self: ["x" * 9_999])

    assert command_of(os.getpid()) == "x" * COMMAND_CHARS_MAX


def connection(port: int, pid: int | None, status: str = psutil.CONN_LISTEN) -> Any:
    return SimpleNamespace(laddr=SimpleNamespace(port=port), pid=pid, status=status)


def test_listeners_are_listed_by_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several may share one; connections that do not listen are left out, and those that are hidden are counted."""
    found = [connection(80, 1), connection(80, 2), connection(81, None), connection(82, 3, psutil.CONN_ESTABLISHED)]
    monkeypatch.setattr(psutil, "net_connections", lambda _kind: found)
    monkeypatch.setattr(processes, "_STATUS", Path("/no/status"))

    assert read_listeners() == ({80: {1, 2}}, 1)


@pytest.mark.parametrize(
    ("effective", "hidden"),
    [
        pytest.param("0000000000000000", 1, id="no rights"),
        pytest.param("0000000000080000", 1, id="the links without the folders"),
        pytest.param("0000000000000004", 1, id="the folders without the links"),
        pytest.param("0000000000001000", 1, id="CAP_NET_ADMIN"),
        pytest.param("0000000000080004", 0, id="the two of the unit"),
        pytest.param("0000000000080002", 0, id="CAP_DAC_OVERRIDE for CAP_DAC_READ_SEARCH"),
        pytest.param("000001ffffffffff", 0, id="root"),
    ],
)
def test_sockets_are_hidden_for_want_of_rights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, effective: str, hidden: int
) -> None:
    """With both rights what is left without a pid is the kernel's or of another pid namespace."""
    (tmp_path / "status").write_text(f"Name:\tx\nCapPrm:\t{effective}\nCapEff:\t{effective}\n")
    monkeypatch.setattr(psutil, "net_connections", lambda _kind: [connection(81, None)])
    monkeypatch.setattr(processes, "_STATUS", tmp_path / "status")

    assert read_listeners() == ({}, hidden)


def test_a_system_that_forbids_to_look_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are then matched by configuration alone."""

    def forbidden(*_arguments: Any, **_options: Any) -> Any:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", forbidden)
    monkeypatch.setattr(psutil, "process_iter", forbidden)

    assert (read_listeners(), read_parents()) == (({}, 0), {})


class Nvml:
    """Two GPUs, the second of which reports no processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processes: list[Any]) -> None:
        self.processes = processes
        self.open = 0
        self.mig: dict[int, int] = {}
        for name in ("Init", "Shutdown", "DeviceGetCount"):
            monkeypatch.setattr(pynvml, f"nvml{name}", getattr(self, name))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: f"G{handle}")
        monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda _handle: "a GPU")
        monkeypatch.setattr(pynvml, "nvmlDeviceGetGpuInstanceId", lambda _handle: 1)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses_v3", self.running)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMPSComputeRunningProcesses_v3", self.unsupported)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", self.mig_mode)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMaxMigDeviceCount", lambda _gpu: 3)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", self.mig_device)

    def Init(self) -> None:
        self.open += 1

    def Shutdown(self) -> None:
        self.open -= 1

    def DeviceGetCount(self) -> int:
        return 2

    def mig_mode(self, gpu: int) -> list[int]:
        """``mig`` has a mode for the GPUs that support it."""
        if gpu not in self.mig:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [self.mig[gpu], 0]

    def mig_device(self, gpu: int, slot: int) -> str:
        """The middle one of three slots is empty."""
        if slot == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"{gpu}-mig-{slot}"

    def unsupported(self, _handle: int | str) -> list[Any]:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def running(self, handle: int | str) -> list[Any]:
        if handle == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.processes


def test_compute_processes_are_listed_by_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that does not report them is missing: it is not known to be idle."""
    nvml = Nvml(monkeypatch, [SimpleNamespace(pid=os.getpid())])

    assert read_gpu_processes() == ({"G0": {os.getpid(): command_of(os.getpid())}}, {})
    assert nvml.open == 0


def test_processes_are_read_through_the_driver_s_own_handles() -> None:
    """Those are pointers: they have no hash, so they are no keys of anything."""
    gpus = nvml_stub.gpus(2)
    gpus[0].processes = [(os.getpid(), 2**30)]

    with nvml_stub.installed(nvml_stub.NvmlStub(gpus)):
        listed, gpu_of = read_gpu_processes()

    assert listed[gpus[0].uuid] == {os.getpid(): command_of(os.getpid())}
    assert (set(listed), gpu_of) == ({gpu.uuid for gpu in gpus}, {})


def test_processes_that_share_a_gpu_through_mps_compute_on_it() -> None:
    """Beside MPS' own server, which is the only one in the other list."""
    (gpu,) = nvml_stub.gpus(1)
    gpu.processes, gpu.mps_processes = [(1, 2**20)], [(os.getpid(), 2**30), (os.getppid(), 2**30)]

    with nvml_stub.installed(nvml_stub.NvmlStub([gpu])):
        listed, _ = read_gpu_processes()

    assert set(listed[gpu.uuid]) == {1, os.getpid(), os.getppid()}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, id="a driver that lacks the call"),
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, id="a GPU that is lost meanwhile"),
    ],
)
def test_a_gpu_whose_processes_are_not_told_is_missing_alone(code: int) -> None:
    """Nobody knows that it is idle; the other's are listed."""

    class Refusing(nvml_stub.NvmlStub):
        def entered(self, name: str, gpu: nvml_stub.StubGpu | None) -> int:
            refused = gpu is bad and name.startswith("nvmlDeviceGetComputeRunning")
            return code if refused else super().entered(name, gpu)

    bad, good = nvml_stub.gpus(2)
    good.processes = [(os.getpid(), 2**30)]

    with nvml_stub.installed(Refusing([bad, good])):
        listed, _ = read_gpu_processes()

    assert listed == {good.uuid: {os.getpid(): command_of(os.getpid())}}


def test_a_divided_gpu_is_listed_by_its_mig_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU itself is not, but whose devices they are is known."""
    nvml = Nvml(monkeypatch, [])
    nvml.mig = {0: pynvml.NVML_DEVICE_MIG_ENABLE}

    assert read_gpu_processes() == ({"G0-mig-0": {}, "G0-mig-2": {}}, {"G0-mig-0": "G0", "G0-mig-2": "G0"})
    assert read_processes().gpu_of == {"G0-mig-0": "G0", "G0-mig-2": "G0"}
    nvml.processes = [SimpleNamespace(pid=os.getpid())]
    monkeypatch.setattr(processes, "read_listeners", lambda: ({}, 0))
    assert read_processes().gpu_of == {"G0-mig-0": "G0", "G0-mig-2": "G0"}
    nvml.processes, nvml.mig = [], {0: pynvml.NVML_DEVICE_MIG_DISABLE}
    assert read_gpu_processes() == ({"G0": {}}, {})


def test_without_a_driver_there_is_nothing_to_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the other tables are not read."""

    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    monkeypatch.setattr(processes, "read_listeners", lambda: pytest.fail("not called"))

    assert read_processes() == ProcessTable()


def test_with_processes_on_a_gpu_all_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle GPUs need no match."""
    nvml = Nvml(monkeypatch, [])
    monkeypatch.setattr(processes, "read_listeners", lambda: ({80: {1}}, 2))

    assert read_processes() == ProcessTable(gpus={"G0": {}})
    assert read_processes(True).listeners == {80: {1}}, "an engine's processes are wanted on any hardware"
    nvml.processes = [SimpleNamespace(pid=os.getpid())]
    table = read_processes()
    assert (table.listeners, table.parents[os.getpid()]) == ({80: {1}}, os.getppid())
    assert table.hidden_sockets == 2
    assert table.networks == {os.getpid(): OURS}


def test_the_first_process_of_a_container_is_the_one_that_was_started_in_it(tmp_path: Path) -> None:
    """Its parent is outside. What was started beside it later (``kubectl exec``) has a higher id."""
    a, b = "a" * 64, "b" * 64
    cgroups = {1: "/init.scope", 10: f"/docker/{a}", 11: f"/docker/{a}", 20: f"/docker/{b}", 30: f"/docker/{a}"}
    for pid, path in cgroups.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"0::{path}\n")
    parents = {30: 1, 11: 10, 10: 1, 20: 1, 1: 0, 99: 1}

    assert first_processes(parents, tmp_path) == {a: 10, b: 20}


@pytest.mark.parametrize(("second", "first"), [("7000", 10), ("50", 7), (None, 10)], ids=["later", "first", "gone"])
def test_of_several_in_a_container_the_one_that_was_started_first_is_its_first(
    tmp_path: Path, second: str | None, first: int
) -> None:
    """Ids begin again from low ones. A name may hold anything."""
    for pid, started in ((10, "600"), (7, second)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/docker/{'a' * 64}\n")
        if started is not None:
            between = " ".join(["0"] * 18)
            (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) (b c) S {between} {started} 0 0\n")

    assert first_processes({7: 1, 10: 1}, tmp_path) == {"a" * 64: first}


def test_the_host_s_namespace_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Every other is a container's; where there is no such file there are no namespaces."""
    (tmp_path / "pid").touch()

    assert not sees_host_pids(tmp_path / "pid")
    assert sees_host_pids(tmp_path / "absent")


def test_a_gpu_that_hangs_hides_no_other() -> None:
    """It is missing until the call returns, and is not asked again before; the library stays open under it."""
    hangs, fine = gpus_of("mock_h100", 2)
    library, watchdog = FakeNvml([hangs, fine]), Watchdog[Any](0.3)
    with nvml_stub.installed(library):
        release = hangs.hangs = threading.Event()
        first = read_gpu_processes(watchdog)
        asked = len(hangs.called)
        second = read_gpu_processes(watchdog)
        balance = library.calls["nvmlInitWithFlags"] - library.calls["nvmlShutdown"]
        asked_again = len(hangs.called) - asked
        hangs.hangs = None
        release.set()
        while hangs.uuid not in (last := read_gpu_processes(watchdog)[0]):
            time.sleep(0.01)
        watchdog.close()

    assert (first, second) == (({fine.uuid: {}}, {}), ({fine.uuid: {}}, {}))
    assert (balance, asked_again) == (2, 0)
    assert set(last) == {hangs.uuid, fine.uuid}
