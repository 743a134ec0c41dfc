"""Who holds a GPU, for as many GPUs as a fleet has. What each pays is in test_account."""

from __future__ import annotations

import time

import numpy as np

from schemas.rows.gpu_shares import SHARES_AMOUNTS
from stream_jobs.costs.physical import Held, Placed, held
from stream_jobs.costs.rows import Rows

LINEAR_WITHIN_S = 8


def shared(gpus: int) -> Held:
    """GPUs of one minute with two holders each, weights 1 and 3."""
    n = np.arange(gpus, dtype=np.int64)
    zero, gpu = n * 0, 2 + n
    columns = dict.fromkeys(Placed.__slots__, zero) | {"owner": zero + 1, "gpu": gpu, "gpu_ms": zero + 60_000}
    holder, of = np.tile(np.array([0, 1], dtype=np.int64), gpus), np.repeat(gpu, 2)
    amounts = dict.fromkeys(SHARES_AMOUNTS, holder * 0 + 1) | {"memory_bytes": 1 + 2 * holder}
    share = Rows((holder * 0, holder * 0, holder, of), tuple(amounts.values()))
    return held(Placed(**columns), (holder * 0, share), [None, b"owner"] + [b"gpu"] * gpus, "memory")


def test_the_holders_of_a_fleet_that_is_shared_take_time_by_the_number_of_gpus() -> None:
    """By its square it was 20 s, and minutes of all minutes of a commit."""
    started_s = time.process_time()
    found = shared(20_000)

    assert time.process_time() - started_s < LINEAR_WITHIN_S
    assert found.gpu.tolist() == [number for number in range(20_000) for _ in "ab"]
    assert found.weight.tolist() == [1, 3] * 20_000
    assert (len(found.gpu_ms), found.gpu_ms.sum()) == (20_000, 20_000 * 60_000)
