"""Memory of PyTorch's allocator as metrics: allocated, reserved and peak, of a request or a training step.

    from fleetpulse_track import torch_memory

    with torch_memory.peak(model="llama-3.1-8b"):     # peak inside this block
        model.generate(...)
    torch_memory.snapshot(job="llama-sft")            # levels now, peak since the last one

What a process sees of itself and no driver does: what of its memory is in use, and what it keeps for later. Reads
``torch.cuda.memory_stats`` (https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html), which
waits for no GPU, of devices that this process has used; torch is never imported here, only found where it was.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from fleetpulse_track.metrics import metric

FIGURES = (
    ("torch_memory_allocated", "allocated_bytes.all.current"),
    ("torch_memory_reserved", "reserved_bytes.all.current"),
    ("torch_memory_peak", "allocated_bytes.all.peak"),
    ("torch_memory_retries", "num_alloc_retries"),
    ("torch_memory_ooms", "num_ooms"),
)
"""Our metric, and the key of ``memory_stats`` that it is."""


def snapshot(*, reset_peak: bool = True, **attributes: Any) -> None:
    """The figures of each device now, with ``device`` as an attribute. ``reset_peak``: the next peak begins here.
    Nothing where torch was not imported, or CUDA not used."""
    with contextlib.suppress(Exception):  # the caller's work goes on, whatever is wrong with ours
        cuda = _cuda()
        if cuda is None:
            return
        for device in range(cuda.device_count()):
            stats = cuda.memory_stats(device)
            if not stats.get("reserved_bytes.all.peak"):
                continue  # not used by this process
            for name, key in FIGURES:
                if key in stats:
                    unit = "bytes" if "bytes" in key else None
                    metric(name, stats[key], unit=unit, device=device, **attributes)
            if reset_peak:
                cuda.reset_peak_memory_stats(device)


@contextlib.contextmanager
def peak(**attributes: Any) -> Iterator[None]:
    """The peak of what runs inside, and the levels at its end. Blocks of several threads share one peak: it is the
    process's."""
    with contextlib.suppress(Exception):
        cuda = _cuda()
        if cuda is not None:
            for device in range(cuda.device_count()):
                cuda.reset_peak_memory_stats(device)
    try:
        yield
    finally:
        snapshot(reset_peak=False, **attributes)


def _cuda() -> Any:
    """``torch.cuda`` where the application has imported torch and begun to use CUDA; else None."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None
