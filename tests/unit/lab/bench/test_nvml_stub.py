from __future__ import annotations

import time

import pynvml
import pytest

from producers.gpu.sampler import NvmlSampler
from tests.nvml_stub import NvmlStub, gpus, installed
from tests.virtual_clock import VirtualClock


def test_eight_gpus_have_everything_a_hopper_has() -> None:
    """Nothing is missing, and counters grow: the collector works as on a real host."""
    clock = VirtualClock()
    with installed(NvmlStub(gpus(8))) as stub:
        sampler = NvmlSampler.open({"host": "h"}, clock=clock, limit_s=10.0)
        assert sampler is not None
        sampler.sample(0)
        clock.advance(1_000)
        sampler.sample(1_000)
        clock.advance(7_000)
        sampler.sample(8_000)
        stub.calls.clear()
        clock.advance(1_000)
        samples, _ = sampler.sample(9_000)
        sampler.close()

    assert len(samples) == 8
    assert [name for name, value in samples[7].items() if value is None] == [
        "util_encoder_pct",
        "util_decoder_pct",
        "temperature_margin_c",
        "clock_memory_mhz",
        "pcie_generation",
        "pcie_generation_max",
        "pcie_width",
        "pcie_width_max",
        "performance_state",
    ]
    assert samples[7]["energy_mj"] > 0
    assert sum(stub.calls.values()) == 8 * 8 + 10, "and the slow values of one GPU"


@pytest.mark.parametrize("spin", [False, True], ids=["slept", "burnt"])
def test_every_call_takes_its_delay(spin: bool) -> None:
    """At least; and is counted."""
    with installed(NvmlStub(gpus(1), delay_us=2_000, spin=spin)) as stub:
        begun_s = time.perf_counter()
        for _ in range(5):
            pynvml.nvmlDeviceGetCount()
        took_s = time.perf_counter() - begun_s

    assert took_s >= 0.01
    assert stub.calls == {"nvmlDeviceGetCount_v2": 5}


def test_the_library_before_is_put_back() -> None:
    """Whatever happens."""
    before = pynvml.nvmlLib

    with pytest.raises(ZeroDivisionError), installed(NvmlStub([])):
        raise ZeroDivisionError

    assert pynvml.nvmlLib is before
