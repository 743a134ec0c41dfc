from __future__ import annotations

import threading
from pathlib import Path

import pynvml
import pytest

from producers.collector import Identity
from producers.gpu.collector import EventLives, GpuCollector, GpuEvents
from producers.gpu.events import ECC
from schemas.errors import UnavailableError
from schemas.events.machine_events import GPU_EVENTS, GPU_SAMPLES
from tests.fake_nvml import FakeNvml, gpus_of, installed
from tests.unit.producers.gpu.conftest import LABELS
from tests.virtual_clock import VirtualClock

IDENTITY = Identity(LABELS, {})


def test_events_come_before_samples() -> None:
    """They say why samples may be missing."""
    lost, fine = gpus_of("mock_h100", 2)
    with installed(FakeNvml([lost, fine])):
        collector = GpuCollector(IDENTITY, 1_000, clock=VirtualClock())
        lost.lost = pynvml.NVML_ERROR_GPU_IS_LOST
        events, samples = collector.collect(1_000)
        collector.close()

    assert (collector.name, collector.period_ms, collector.gpu_uuids) == ("nvml", 1_000, (lost.uuid, fine.uuid))
    assert (events.event, [row["kind"] for row in events.rows]) == (GPU_EVENTS, ["gpu_found", "gpu_lost"])
    assert (samples.event, [row["gpu_uuid"] for row in samples.rows]) == (GPU_SAMPLES, [fine.uuid])


def test_the_first_reading_says_which_gpus_answer() -> None:
    """Once: one that was lost is found after the machine was started again, and with it the agent."""
    gpus = gpus_of("mock_h100", 2)
    kinds, clock = list[list[tuple[str, str, str]]](), VirtualClock()
    with installed(FakeNvml(list(gpus))):
        collector = GpuCollector(IDENTITY, 1_000, clock=clock)
        for at_ms in (1_000, 2_000):
            events, _ = collector.collect(at_ms)
            kinds.append([(row["kind"], row["severity"], row["gpu_uuid"]) for row in events.rows])
            clock.advance(1_000)
        collector.close()

    assert kinds == [[("gpu_found", "info", gpu.uuid) for gpu in gpus], []]


def test_memory_errors_that_the_driver_reports_are_not_reported_twice() -> None:
    """With a source of events beside it, samples keep quiet about that GPU."""
    loud, quiet = gpus_of("mock_h100", 2)
    loud.calls["nvmlDeviceGetSupportedEventTypes"] = ECC
    with installed(FakeNvml([loud, quiet])):
        source, clock = GpuEvents(IDENTITY), VirtualClock()
        source.wait(0)
        collector = GpuCollector(IDENTITY, 1_000, events=source, clock=clock)
        collector.collect(1_000)
        clock.advance(1_000)
        for gpu in (loud, quiet):
            gpu.calls["nvmlDeviceGetTotalEccErrors"] = 1
        events, samples = collector.collect(2_000)
        collector.close()

    assert [row["ecc_uncorrected"] for row in samples.rows] == [1, 1]
    assert [(row["gpu_uuid"], row["kind"]) for row in events.rows] == [(quiet.uuid, "ecc")]


def test_a_life_that_was_given_up_closes_its_own_source() -> None:
    """When its call returns, the next one is waiting; which kinds are reported as events is as that one says."""
    (gpu,) = gpus_of("mock_h100")
    gpu.calls["nvmlDeviceGetSupportedEventTypes"] = pynvml.nvmlEventTypeXidCriticalError | ECC
    library = FakeNvml([gpu])
    with installed(library):
        lives = EventLives(IDENTITY)
        kinds = [lives.event_kinds(gpu.uuid)]
        given_up = lives.begin()
        given_up.wait(0)
        now = lives.begin()
        kinds.append(lives.event_kinds(gpu.uuid))
        now.wait(0)
        given_up.close()
        kinds.append(lives.event_kinds(gpu.uuid))
        library.events.put((gpu, pynvml.nvmlEventTypeXidCriticalError, 94))
        (collected,) = now.wait(0)
        now.close()

    assert kinds == [set(), set(), {"ecc"}]
    assert [row["code"] for row in collected.rows] == [94]


def test_events_do_not_wait_for_a_sample_that_hangs() -> None:
    """An XID is reported while another thread is stuck in the driver."""
    hangs, other = gpus_of("mock_h100", 2)
    library = FakeNvml([hangs, other])
    with installed(library):
        source = GpuEvents(IDENTITY)
        source.wait(0)
        collector = GpuCollector(IDENTITY, 1_000, limit_s=30)
        hangs.hangs = threading.Event()
        sampling = threading.Thread(target=collector.collect, args=(1_000,), daemon=True)
        sampling.start()
        library.events.put((other, pynvml.nvmlEventTypeXidCriticalError, 94))

        (collected,) = source.wait(30)
        still_sampling = sampling.is_alive()
        release, hangs.hangs = hangs.hangs, None
        release.set()
        sampling.join(30)
        collector.close()

    assert [(row["gpu_uuid"], row["code"]) for row in collected.rows] == [(other.uuid, 94)]
    assert still_sampling


def test_the_reading_thread_s_processor_time_is_returned() -> None:
    """The caller's own time does not hold it."""
    with installed(FakeNvml(list(gpus_of("mock_h100", 8)))):
        collector = GpuCollector(IDENTITY, 1_000)
        collector.collect(1_000)
        spent_s = [collector.cpu_s(), collector.cpu_s()]
        collector.close()

    assert spent_s[0] > 0
    assert spent_s[1] == 0


def test_counters_are_kept_where_the_agent_says(tmp_path: Path) -> None:
    """After every reading."""
    with installed(FakeNvml(list(gpus_of("mock_h100")))):
        collector = GpuCollector(IDENTITY, 1_000, memory=tmp_path / "gpu-counters.json")
        collector.collect(1_000)
        collector.close()

    assert [path.name for path in tmp_path.iterdir()] == ["gpu-counters.json"]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, 0], ids=["no driver", "no GPU"])
def test_without_a_gpu_there_is_no_collector(code: int) -> None:
    """Most hosts: the agent's probe says so."""
    library = FakeNvml([])
    library.init = code
    with installed(library), pytest.raises(UnavailableError):
        GpuCollector(IDENTITY, 1_000)
