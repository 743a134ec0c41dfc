from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from producers.gpu.sampler import NvmlSampler
from runtime.counters import Counters
from tests.fake_nvml import FakeGpu, FakeNvml, installed
from tests.virtual_clock import VirtualClock

LABELS = {"host": "host-1", "cluster": None, "region": None}
Rows = list[dict[str, Any]]


@dataclass
class Sampled:
    """A sampler on a fake library and its clock."""

    sampler: NvmlSampler
    library: FakeNvml
    clock: VirtualClock
    counters: Counters

    def sample(self, after_ms: int = 1_000) -> tuple[Rows, Rows]:
        """Samples and events, ``after_ms`` after the ones before."""
        self.clock.advance(after_ms)
        return self.sampler.sample(self.clock.now_ms())


Open = Callable[..., Sampled]


@pytest.fixture
def open_on() -> Iterator[Open]:
    """Opens a sampler on fake GPUs; the clock stands at ``now_ms``."""
    with ExitStack() as stack:

        def opened(gpus: list[FakeGpu], missing: tuple[str, ...] = (), now_ms: int = 0, **options: Any) -> Sampled:
            library = stack.enter_context(installed(FakeNvml(gpus, missing)))
            clock, counters = options.pop("clock", None) or VirtualClock(now_ms), Counters()
            options = {"limit_s": 5.0} | options
            sampler = NvmlSampler.open(LABELS, clock=clock, counters=counters, **options)
            assert sampler is not None
            stack.callback(sampler.close)
            return Sampled(sampler, library, clock, counters)

        yield opened
