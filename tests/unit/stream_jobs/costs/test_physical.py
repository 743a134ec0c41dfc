"""Who holds a GPU, for as many GPUs as a fleet has. What each pays is in test_account."""

from __future__ import annotations

import numpy as np

from schemas.rows.gpu_shares import SHARES_AMOUNTS
from stream_jobs.costs.physical import Held, Placed, held
from stream_jobs.costs.rows import Rows


def shared(gpus: int) -> Held:
    """GPUs of one minute with two holders each, weights 1 and 3."""
    n = np.arange(gpus, dtype=np.int64)
    zero, gpu = n * 0, 2 + n
    columns = dict.fromkeys(Placed.__slots__, zero) | {"owner": zero + 1, "gpu": gpu, "gpu_ms": zero + 60_000}
    holder, of = np.tile(np.array([0, 1], dtype=np.int64), gpus), np.repeat(gpu, 2)
    amounts = dict.fromkeys(SHARES_AMOUNTS, holder * 0 + 1) | {"memory_bytes": 1 + 2 * holder}
    share = Rows((holder * 0, holder * 0, holder, of), tuple(amounts.values()))
    return held(Placed(**columns), (holder * 0, share), [None, b"owner"] + [b"gpu"] * gpus, "memory")


def test_each_gpu_of_a_fleet_that_is_shared_goes_to_its_own_holders() -> None:
    """Two of each, by their weights; the time of every GPU once."""
    found = shared(2_000)

    assert found.gpu.tolist() == [number for number in range(2_000) for _ in "ab"]
    assert found.weight.tolist() == [1, 3] * 2_000
    assert (len(found.gpu_ms), found.gpu_ms.sum()) == (2_000, 2_000 * 60_000)
