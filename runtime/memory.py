"""Keeps freed memory in the process: by default glibc returns large blocks to the kernel at once, and every page of the
next one is cleared again, a quarter of the time that batches of tens of megabytes take."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h of glibc
_KEPT_BYTES = 1 << 30
_MMAP_BYTES_OLD = 1 << 25
"""All that glibc before 2.35 takes for this threshold. Refused, it would stay at 128 KiB as soon as another one is set,
which is worse than setting none."""


def keep_freed() -> bool:
    """From now on freed memory (up to 1 GiB) stays with this process, for all its threads alike: it stays as large as
    it once had to be. Of pieces above 32 MiB only where glibc is 2.35 or newer. False where the C library cannot (any
    but glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        wanted = (
            (_ARENA_MAX, (1,)),
            (_MMAP_THRESHOLD, (_KEPT_BYTES, _MMAP_BYTES_OLD)),
            (_TRIM_THRESHOLD, (_KEPT_BYTES,)),
        )
        taken = [any(mallopt(name, value) == 1 for value in values) for name, values in wanted]
        return all(taken)
    return False
