"""Figures of PyTorch's allocator. No torch here: a module of the shape and keys that its documentation gives
(https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html) stands in its place."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse_track import torch_memory

UNUSED: dict[str, int] = {}
USED = {
    "allocated_bytes.all.current": 3_000,
    "allocated_bytes.all.peak": 5_000,
    "reserved_bytes.all.current": 8_000,
    "reserved_bytes.all.peak": 8_000,
    "num_alloc_retries": 1,
    "num_ooms": 0,
}


class Cuda:
    """Two devices, the first of which this process uses."""

    def __init__(self) -> None:
        self.resets: list[int] = []
        self.initialized = True

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        return 2

    def memory_stats(self, device: int) -> dict[str, int]:
        return (USED, UNUSED)[device]

    def reset_peak_memory_stats(self, device: int) -> None:
        self.resets.append(device)


Told = list[tuple[str, Any, dict[str, Any]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found: Told = []
    monkeypatch.setattr(torch_memory, "metric", lambda name, value, **more: found.append((name, value, more)))
    return found


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=made))
    return made


def figures(**attributes: Any) -> Told:
    """What the used device tells."""
    known = {"device": 0, **attributes}
    return [
        ("torch_memory_allocated", 3_000, {"unit": "bytes", **known}),
        ("torch_memory_reserved", 8_000, {"unit": "bytes", **known}),
        ("torch_memory_peak", 5_000, {"unit": "bytes", **known}),
        ("torch_memory_retries", 1, {"unit": None, **known}),
        ("torch_memory_ooms", 0, {"unit": None, **known}),
    ]


def test_a_snapshot_tells_the_devices_that_are_used(cuda: Cuda, told: Told) -> None:
    """And begins a new peak on them, unless asked not to."""
    torch_memory.snapshot(job="sft")
    torch_memory.snapshot(reset_peak=False)

    assert told == figures(job="sft") + figures()
    assert cuda.resets == [0]


def test_a_block_has_a_peak_of_its_own(cuda: Cuda, told: Told) -> None:
    """It begins at the begin, and is told also when the block fails; the error is the caller's."""
    with pytest.raises(ZeroDivisionError), torch_memory.peak(model="m"):
        raise ZeroDivisionError

    assert (told, cuda.resets) == (figures(model="m"), [0, 1])


def test_without_cuda_there_is_nothing_to_tell(cuda: Cuda, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch is not imported for it, and CUDA not begun."""
    cuda.initialized = False
    torch_memory.snapshot()
    monkeypatch.delitem(sys.modules, "torch")
    with torch_memory.peak():
        torch_memory.snapshot()

    assert (told, cuda.resets, "torch" in sys.modules) == ([], [], False)
