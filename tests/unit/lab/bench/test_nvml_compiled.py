from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from lab.bench import nvml_compiled
from lab.bench.nvml_compiled import CompiledNvml, compiled
from producers.collector import Identity
from producers.gpu.collector import GpuProcessCollector
from producers.gpu.sampler import NvmlSampler
from schemas.errors import FleetpulseError
from tests import nvml_stub
from tests.nvml_stub import NvmlStub, gpus, installed
from tests.virtual_clock import VirtualClock


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The stub, compiled here."""
    return compiled(tmp_path)


LABELS: dict[str, str | None] = {"host": "h", "cluster": None, "region": None}


def told_by(library: Any, counted_s: Any) -> list[Any]:
    """What the agent has of a library: twelve seconds of samples and events, and the processes on the GPUs."""
    clock, told = VirtualClock(), list[Any]()
    with installed(library):
        sampler = NvmlSampler.open(LABELS, clock=clock, limit_s=10.0)
        assert sampler is not None
        for second in range(12):
            counted_s(float(second))
            told.append(sampler.sample(1_000 * second))
            clock.advance(1_000)
        sampler.close()
        processes = GpuProcessCollector(Identity(LABELS, {}), 1_000)
        told.append(processes.collect(12_000))
    return told


def test_it_answers_as_the_stub_in_python_does(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rows of two GPUs, and as many calls of every function."""
    now = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr(nvml_stub, "time", now)
    python = NvmlStub(gpus(2))
    expected = told_by(python, lambda at_s: setattr(now, "monotonic", lambda: at_s))
    stub = CompiledNvml(library, 2)

    assert told_by(stub.library, stub.set_counted_s) == expected
    assert stub.calls == python.calls


def test_every_call_takes_its_delay(library: Path) -> None:
    """At least; and is counted."""
    stub = CompiledNvml(library, 3, delay_us=2_000)
    with installed(stub.library):
        begun_s = nvml_stub.time.perf_counter()
        counted = [pynvml.nvmlDeviceGetCount() for _ in range(5)]
        took_s = nvml_stub.time.perf_counter() - begun_s

    assert took_s >= 0.01
    assert counted == [3] * 5
    assert stub.calls == {"nvmlDeviceGetCount_v2": 5}


def test_without_a_compiler_the_bench_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no figure with another stub's own work in it."""
    monkeypatch.setattr(nvml_compiled.shutil, "which", lambda _name: None)

    with pytest.raises(FleetpulseError, match="install one that is called cc"):
        compiled(tmp_path)


def test_a_compiler_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it said."""
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho no headers here >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(nvml_compiled.shutil, "which", lambda _name: str(failing))

    with pytest.raises(FleetpulseError, match="no headers here"):
        compiled(tmp_path)
