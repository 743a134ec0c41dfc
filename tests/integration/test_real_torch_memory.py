"""The SDK's figures of PyTorch's allocator, of a real one on a real GPU. ``pytest -m gpu``, where both are."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse_track import torch_memory

pytestmark = pytest.mark.gpu

GIB = 2**30


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The last value of each metric of device 0."""
    found: dict[str, int] = {}

    def metric(name: str, value: int, **attributes: Any) -> None:
        if attributes["device"] == 0:
            found[name] = value

    monkeypatch.setattr(torch_memory, "metric", metric)
    return found


def test_a_peak_is_of_what_ran_inside(told: dict[str, int]) -> None:
    """As PyTorch counts it, and gone from the next block."""
    import torch

    kept = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    with torch_memory.peak(model="m"):
        torch.empty(3 * GIB, dtype=torch.uint8, device="cuda")

    assert told["torch_memory_peak"] == torch.cuda.max_memory_allocated() >= 4 * GIB
    assert told["torch_memory_allocated"] == torch.cuda.memory_allocated() < 2 * GIB
    assert told["torch_memory_reserved"] == torch.cuda.memory_reserved() >= 4 * GIB
    with torch_memory.peak(model="m"):
        pass
    assert told["torch_memory_peak"] == told["torch_memory_allocated"] >= kept.nbytes


def test_memory_that_ran_out_is_counted(told: dict[str, int]) -> None:
    """Once, and the retry before it."""
    import torch

    torch.empty(1, device="cuda")
    torch_memory.snapshot()
    before = dict(told)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(torch.cuda.get_device_properties(0).total_memory + GIB, dtype=torch.uint8, device="cuda")
    torch_memory.snapshot()

    assert told["torch_memory_ooms"] == before["torch_memory_ooms"] + 1
    assert told["torch_memory_retries"] == before["torch_memory_retries"] + 1
