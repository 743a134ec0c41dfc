"""A process that keeps what it frees takes no new pages for the next block of the same size."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from runtime.process import keep_freed

ALLOCATIONS = 50
BLOCK_BYTES = 16 * 1024 * 1024
FAULTS = f"""
import resource, sys
import numpy as np
from runtime.process import keep_freed
assert sys.argv[1] == "as ever" or keep_freed() is (sys.argv[2] == "glibc")
np.ones({BLOCK_BYTES}, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ALLOCATIONS}):
    np.ones({BLOCK_BYTES}, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Page faults of a fresh process that takes and frees large blocks."""
    command = [sys.executable, "-c", FAULTS, how, platform.libc_ver()[0]]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_blocks_to_come_take_no_new_pages() -> None:
    """glibc without the setting gives every block back, and pays a fault for each of its pages again; huge pages make
    these fewer, never none. A C library without the setting says so and changes nothing."""
    kept, as_ever = faults("kept"), faults("as ever")
    if platform.libc_ver()[0] == "glibc":
        assert kept < ALLOCATIONS <= as_ever
    else:
        assert kept == as_ever


def test_a_library_that_refuses_large_thresholds_is_given_the_largest_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc before 2.35: whatever else is set stops it from finding its own threshold, which then stays at 128 KiB."""
    taken: dict[int, int] = {}

    def mallopt(name: int, value: int) -> int:
        if name == -3 and value > 32 * 1024 * 1024:
            return 0
        taken[name] = value
        return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(mallopt=mallopt))

    assert keep_freed()
    assert taken == {-8: 1, -3: 32 * 1024 * 1024, -1: 1 << 30}
