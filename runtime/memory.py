"""Memory that is used again: the C library gives large pieces back to the kernel as soon as they are freed, and every
page of the next one is cleared anew, which for batches of tens of megabytes is a quarter of the time they take."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h of glibc
_KEPT_BYTES = 1 << 30


def keep_freed() -> bool:
    """From now on freed memory (up to 1 GiB) stays with this process, for all its threads alike: it stays as large as
    it once had to be. False where the C library cannot (any but glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        wanted = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _KEPT_BYTES), (_TRIM_THRESHOLD, _KEPT_BYTES))
        taken = [mallopt(*one) == 1 for one in wanted]
        return all(taken)
    return False
