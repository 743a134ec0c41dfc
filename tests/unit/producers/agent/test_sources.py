from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from producers.agent import sources
from producers.agent.choice import Finding
from producers.agent.search import find, plans_of, setting_of
from producers.agent.sources import GPU_LIMIT_MS, SOURCES
from producers.dcgm import collector as dcgm_collector
from producers.engines import processes
from producers.engines.target import EngineTarget, target_of
from producers.host.processes import HostProcesses
from runtime.edge_config import AgentConfig, CollectorSwitches, EngineConfig
from tests.nvml_stub import NvmlStub, gpus, installed

OFF = dict.fromkeys(CollectorSwitches.model_fields, "off")


def config_of(*on: str, **settings: object) -> AgentConfig:
    switches = OFF | dict.fromkeys(on, "auto")
    return AgentConfig.model_validate({"host": "h", "collectors": switches, **settings})


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if these tests ran outside any container."""
    monkeypatch.setattr(processes, "sees_host_pids", lambda: True)


def test_gpus_by_the_driver_come_with_their_events() -> None:
    """Samples and events apart, with a time limit that leaves room for the driver's own."""
    setting = setting_of(config_of("nvml", "gpu_processes"))

    with installed(NvmlStub(gpus(2))):
        findings = find(setting)
        plans = plans_of(setting, findings)
        names = [plan.make().name for plan in plans]

    found = "2 GPUs by the driver's library, driver 580.65.06"
    assert [each for each in findings if each.chosen] == [
        Finding("nvml", "auto", True, found),
        Finding("gpu_processes", "auto", True, found),
    ]
    assert names == ["nvml", "gpu_events", "gpu_processes"]
    assert [plan.limit_ms for plan in plans] == [GPU_LIMIT_MS, GPU_LIMIT_MS, 10_000]


def test_each_life_of_the_collector_of_events_has_its_own() -> None:
    """One that hangs closes what it waits in when it returns: that is nobody else's by then."""
    setting = setting_of(config_of("nvml"))
    source = next(each for each in SOURCES if each.name == "nvml")
    make = source.makes(setting)["gpu_events"]

    assert make() is not make()


def test_without_a_driver_the_probe_says_so() -> None:
    """Nothing is collected."""
    setting = setting_of(config_of("nvml"))

    with installed(NvmlStub([])):
        (nvml,) = [each for each in find(setting) if each.name == "nvml"]

    assert (nvml.chosen, nvml.reason) == (False, "the NVIDIA driver lists no GPU")


def test_the_last_resort_is_a_program_on_the_path(tmp_path: Path) -> None:
    """A bare name is looked up; one that is not there is named in the reason."""
    program = tmp_path / "smi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    there = setting_of(config_of("nvidia_smi", "host_devices", nvidia_smi_path=str(program)))
    nowhere = setting_of(config_of("nvidia_smi", nvidia_smi_path="no-such-program"))

    found = [(each.name, each.reason) for each in find(there) if each.chosen]
    names = [plan.make().name for plan in plans_of(there, find(there))]
    missing = [each.reason for each in find(nowhere) if each.name == "nvidia_smi"]

    assert found == [("host_devices", "this host"), ("nvidia_smi", str(program))]
    assert names == ["host_devices", "nvidia_smi"]
    assert missing == ["no program no-such-program"]


def test_rocm_smi_is_found_where_its_package_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Services do not have that folder on PATH; what is run is what was found."""
    monkeypatch.setattr(sources, "ROCM_PROGRAMS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    program = tmp_path / "rocm-smi"
    program.write_text("""#!/bin/sh\necho '{"card0": {"Unique ID": "0x1"}}'\n""")
    program.chmod(0o755)
    setting = setting_of(config_of("rocm_smi", probe_limit_ms=30_000))

    findings = [each for each in find(setting) if each.chosen]
    (plan,) = plans_of(setting, findings)

    assert findings == [Finding("rocm_smi", "auto", True, str(program))]
    assert plan.make()._program == str(program)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'WARNING: No AMD GPUs specified'", "PATH lists no GPU"),
        ('echo \'{"system": {"Driver version": "6"}}\'', "PATH lists no GPU"),
        ("echo 'ERROR:root:Driver not initialized (amdgpu not found in modules)'; exit 1", "PATH ended with 1: ERROR"),
    ],
    ids=["no card", "JSON without a card", "no driver"],
)
def test_rocm_smi_without_a_card_is_not_collected(tmp_path: Path, script: str, reason: str) -> None:
    """ROCm's packages are on hosts without an AMD GPU too."""
    program = tmp_path / "rocm smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    setting = setting_of(config_of("rocm_smi", rocm_smi_path=str(program), probe_limit_ms=30_000))

    (smi,) = [each for each in find(setting) if each.name == "rocm_smi"]

    assert (smi.chosen, smi.reason.startswith(reason.replace("PATH", str(program)))) == (False, True), smi.reason


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('test "$*" = --list-gpus && echo "GPU 0: NVIDIA H100 (UUID: GPU-1)"', True),
        ("echo 'WARNING: infoROM is corrupted at gpu 0000:01:00.0'; exit 14", True),
        ("echo 'NVIDIA-SMI has failed: it could not communicate with the driver'; exit 9", False),
        ("exec sleep 60", False),
    ],
    ids=["lists its GPUs", "warns", "no driver", "hangs"],
)
def test_nvidia_smi_is_there_when_it_reaches_the_driver(tmp_path: Path, script: str, found: bool) -> None:
    """The program alone is on hosts whose driver is not loaded yet."""
    program = tmp_path / "nvidia smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    limit_ms = 200 if "sleep" in script else 30_000
    setting = setting_of(config_of("nvidia_smi", nvidia_smi_path=str(program), probe_limit_ms=limit_ms))

    (smi,) = [each for each in find(setting) if each.name == "nvidia_smi"]

    assert smi.chosen is found


def test_dcgm_exporter_is_found_by_its_page() -> None:
    """Nobody listens on a discard port of this machine."""
    setting = setting_of(config_of("dcgm", dcgm_url="http://127.0.0.1:9/metrics"))

    (dcgm,) = [each for each in find(setting) if each.name == "dcgm"]
    (plan,) = plans_of(setting, [Finding("dcgm", "on", True, "")])

    assert not dcgm.chosen
    assert plan.make().name == "dcgm"


def test_each_life_of_the_collector_of_dcgm_goes_on_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter that restarts ends a life: what its counters grew by meanwhile is the next one's."""
    monkeypatch.setattr(dcgm_collector, "DcgmCollector", lambda *_, seen: seen)
    source = next(each for each in SOURCES if each.name == "dcgm")
    make = source.makes(setting_of(config_of("dcgm")))["dcgm"]

    assert make() is make()


def test_configured_engines_have_a_collector_each() -> None:
    """Those sought on well-known ports share one."""
    named = setting_of(config_of("engines", engines=[{"url": "http://a:1"}, {"url": "http://127.0.0.1:2/metrics"}]))
    sought = setting_of(config_of("engines", engine_ports=[1, 2, 3]))
    nowhere = setting_of(config_of("engines", engine_ports=[]))
    source = next(each for each in SOURCES if each.name == "engines")

    assert list(source.makes(named)) == ["engine a:1", "engine h:2", "placement"]
    assert list(source.makes(sought)) == ["engines sought", "placement"]
    assert source.makes(sought)["engines sought"]().name == "engines sought"
    assert [each.reason for each in find(nowhere) if each.name == "engines"] == [
        "no engine is configured, and no port to look at"
    ]


def test_a_target_has_all_that_its_configuration_says() -> None:
    """The key is not shown."""
    config = EngineConfig.model_validate(
        {
            "url": "http://e:8002/metrics",
            "facts_url": "http://e:8000",
            "kind": "triton",
            "api_key": "sk-secret",
            "engine_id": "e",
            "context_tokens_max": 8_192,
            "tensor_parallel": 4,
            "gpu_uuids": ["GPU-1"],
        }
    )

    target = target_of(config, "h")

    assert target == EngineTarget(
        "e",
        "http://e:8002/metrics",
        facts_url="http://e:8000",
        kind="triton",
        context_tokens_max=8_192,
        tensor_parallel=4,
        gpu_uuids=("GPU-1",),
        api_key="sk-secret",
    )
    assert "sk-secret" not in repr(target)


def test_the_agent_loads_nothing_heavy() -> None:
    """In a process of its own: what other tests loaded does not count."""
    code = (
        "import sys, fleetpulse.services.edge, producers.agent.process\n"
        "print([name for name in ('numba', 'google.protobuf', 'grpc', 'opentelemetry') if name in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed == "[]\n"


def test_the_probe_of_engines_says_what_hides_their_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many sockets, and what to grant or to configure; nothing where all are seen."""
    setting = setting_of(config_of("engines", engines=[{"url": "http://a:1"}]))

    def reason(hidden_sockets: int) -> str:
        monkeypatch.setattr(processes, "read_listeners", lambda: ({}, hidden_sockets))
        (found,) = [each for each in find(setting) if each.name == "engines"]
        return found.reason

    assert reason(0) == "http://a:1"
    assert reason(3) == (
        "http://a:1; whose 3 listening sockets are is hidden: engines of other users match no GPU"
        " without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or gpu_uuids in agent.engines"
    )


def test_a_container_without_the_host_s_processes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where GPUs and engines are probed, with what to give it."""
    monkeypatch.setattr(processes, "sees_host_pids", lambda: False)
    setting = setting_of(config_of("gpu_processes", "engines", engines=[{"url": "http://e:1"}]))

    with installed(NvmlStub(gpus(1))):
        reasons = {each.name: each.reason for each in find(setting) if each.chosen}

    without = "without the host's PID namespace (hostPID in Kubernetes, --pid=host with Docker)"
    assert reasons == {
        "gpu_processes": "1 GPUs by the driver's library, driver 580.65.06; which processes they are is hidden "
        + without,
        "engines": "http://e:1; engines outside this container match no GPU " + without,
    }


@pytest.mark.parametrize("rights", [True, False])
def test_processes_of_engines_are_collected_where_the_kernel_shows_them(
    monkeypatch: pytest.MonkeyPatch, rights: bool
) -> None:
    """What other users' read and write takes a right, which the probe names."""
    monkeypatch.setattr(processes, "sees_all", lambda: rights)
    setting = setting_of(config_of("host_processes", process_period_ms=7_000))

    (finding,) = [each for each in find(setting) if each.chosen]
    (plan,) = plans_of(setting, [finding])
    collector = plan.make()

    hidden = "; what other users' processes read and write is hidden without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
    assert finding.reason == "once an engine or a job is known" + ("" if rights else hidden)
    assert isinstance(collector, HostProcesses)
    assert (collector.name, collector.period_ms) == ("host_processes", 7_000)


def test_outside_a_cluster_there_are_no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe says where it looked."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    setting = setting_of(config_of("kubernetes"))

    assert [each.reason for each in find(setting) if each.name == "kubernetes"] == [
        "not in a cluster, and no agent.kubernetes.pods_url"
    ]
    assert plans_of(setting, [Finding("kubernetes", "on", True, "")]) == []


def test_in_a_cluster_pods_are_listed_and_their_engines_scraped() -> None:
    """Names alone where engines in pods are not wanted."""
    url = {"pods_url": "http://127.0.0.1:9/pods"}
    both = setting_of(config_of("kubernetes", kubernetes=url))
    names = setting_of(config_of("kubernetes", kubernetes={**url, "engines": "off"}))
    chosen = [Finding("kubernetes", "on", True, "")]

    assert [plan.make().name for plan in plans_of(both, chosen)] == ["pods", "pod engines"]
    assert [plan.make().name for plan in plans_of(names, chosen)] == ["pods"]
